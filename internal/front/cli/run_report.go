package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A report shows the events of a run to a person, or as JSON to a program.
type report struct {
	cmd    *cobra.Command
	out    io.Writer // for the answer
	errs   io.Writer // for the progress
	json   bool
	stream bool // print the answer while it arrives

	session string // the id of the session of the run, once it is known
	label   string // its name
	resumed bool   // the run began before
	where   string // the flag that names the program for other commands, "" if they find it here
	balance program.Balance
	changes string // describes the changes that wait in the session, "" for none
	gone    bool   // nothing of the run is kept, so it cannot continue

	mu      sync.Mutex
	allow   []string               // commands that would have let calls do more
	args    map[string]run.Event   // calls without a result yet
	live    map[string]*liveOutput // the output of commands that run, by the chain of workers
	thought string                 // the last line of thinking, which has not ended
	open    bool                   // a line of streamed text has not ended
	answer  io.Writer              // with the gutter of the entry worker, while it streams
	status  *statusLine            // what the run waits for; nil if it is not shown
	context run.Context            // what the conversation of the entry worker takes
}

func newReport(cmd *cobra.Command) *report {
	return &report{cmd: cmd, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), json: wantsJSON(cmd), stream: newScreen(cmd.OutOrStdout()).file != nil,
		args: make(map[string]run.Event), live: make(map[string]*liveOutput)}
}

// output prints the output of a worker's command while the command runs.
func (r *report) output(workers []string, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := chainKey(workers)
	live := r.live[key]
	if live == nil {
		e := run.Event{Worker: last(workers), Chain: workers}
		if live = newLiveOutput(r.errs, indentOf(e)+e.Worker); live == nil {
			return
		}
		r.live[key] = live
		for _, call := range r.args {
			if call.Tool == "shell" && chainKey(call.Chain) == key {
				r.line(e, "shell "+subject(call), "runs")
			}
		}
	}
	r.endLine()
	live.write(data)
}

// endOutput ends the output of a worker's command. It reports whether there was any.
func (r *report) endOutput(e run.Event) bool {
	live := r.live[chainKey(e.Chain)]
	if live == nil || e.Tool != "shell" {
		return false
	}
	live.end()
	delete(r.live, chainKey(e.Chain))
	return true
}

// chainKey returns a chain of workers as a key of a map.
func chainKey(chain []string) string { return strings.Join(chain, "\x00") }

// indentOf returns the indentation of a worker in the tree of workers.
func indentOf(e run.Event) string { return strings.Repeat("  ", max(len(e.Chain)-1, 0)) }

// tell reports an event.
func (r *report) tell(e run.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Context != nil && len(e.Chain) == 1 {
		r.context = *e.Context
	}
	if r.json {
		if e.Type != run.Piece && e.Type != run.Thought {
			r.print(e)
		}
		return
	}
	switch e.Type {
	case run.Piece:
		if r.stream && len(e.Chain) == 1 {
			r.open = !strings.HasSuffix(e.Text, "\n")
			if r.answer == nil {
				r.answer = newGutter(r.out, e.Worker)
			}
			fmt.Fprint(r.answer, e.Text)
		}
	case run.Thought:
		r.thought += e.Text
		for at := strings.IndexByte(r.thought, '\n'); at >= 0; at = strings.IndexByte(r.thought, '\n') {
			r.think(e, r.thought[:at])
			r.thought = r.thought[at+1:]
		}
	case run.Message:
		r.think(e, r.thought)
		r.thought = ""
		r.endLine()
		if text := strings.TrimSpace(e.Text); text != "" && e.Calls > 0 && (len(e.Chain) > 1 || !r.stream) {
			r.line(e, "says", firstLine(text)) // a message without calls is the answer, and is printed elsewhere
		}
	case run.ToolCall:
		r.args[e.Call] = e
	case run.Started:
		caller := e
		caller.Chain = e.Chain[:len(e.Chain)-1]
		caller.Worker = last(caller.Chain)
		r.line(caller, "→ "+e.Worker, e.Text)
	case run.Pending:
		r.endOutput(e)
		call, known := r.args[e.Call]
		if delete(r.args, e.Call); !known {
			call = e
		}
		r.line(e, e.Tool+" "+subject(call), "waits for approval as "+e.Request+hintOf(e.Hint))
	case run.ToolResult:
		shown := r.endOutput(e)
		call := r.args[e.Call]
		delete(r.args, e.Call)
		what := e.Tool + " " + subject(call)
		for _, command := range e.Allow {
			if !slices.Contains(r.allow, command) {
				r.allow = append(r.allow, command)
			}
		}
		switch {
		case e.OK != nil && *e.OK && isWorkerCall(call):
			r.line(e, "← "+workerOf(call), e.Line)
		case e.OK != nil && *e.OK:
			r.line(e, what, e.Line)
			if !shown {
				r.complaints(e)
			}
		default:
			r.line(e, what, "refused: "+string(e.Code)+hintOf(e.Hint))
		}
	case run.Note:
		r.line(e, "note", e.Text)
	}
	r.status.set(r.waitsFor(e))
}

// think prints a line of a model's thinking.
func (r *report) think(e run.Event, text string) {
	if strings.TrimSpace(text) != "" {
		r.line(e, "thinks", strings.TrimSpace(text))
	}
}

// waitsFor says what the run waits for after an event: a call without a result, or else
// the model.
func (r *report) waitsFor(e run.Event) string {
	var calls []string
	for _, call := range r.args {
		if !isWorkerCall(call) {
			calls = append(calls, call.Worker+": "+call.Tool)
		}
	}
	if len(calls) == 0 {
		text := visible.Line(e.Worker, maxMark) + ": waiting for the model"
		if share := r.context.Share(); share > 0 {
			text += fmt.Sprintf(" (%d %% of the context)", share)
		}
		return text
	}
	return visible.Line(slices.Min(calls), maxMark)
}

// note reports a message of golem itself.
func (r *report) note(text string) {
	r.tell(run.Event{Type: run.Note, Worker: "golem", Text: text})
}

// asks reports that golem asks the user.
func (r *report) asks(q tool.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLine()
	if r.json {
		effects := visible.Each(q.ToApprove, policy.Effect.String)
		r.print(run.Event{Type: run.Approval, Worker: last(q.Workers), Chain: q.Workers, Tool: q.Tool, Args: q.Args, Text: strings.Join(effects, ", ")})
	}
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// print prints an event as a line of JSON. The text of workers has no control characters
// after a program has decoded it.
func (r *report) print(e run.Event) {
	e.Text, e.Hint, e.Tool = visible.Data(e.Text), visible.Data(e.Hint), visible.Data(e.Tool)
	session := "" // set only at the start and end of a run
	if e.Type == run.RunStart || e.Type == run.RunEnd {
		session = r.session
	}
	line, err := visible.JSONLine(struct {
		run.Event
		Session string `json:"session,omitempty"`
	}{e, session})
	if err != nil {
		return
	}
	r.out.Write(line)
}

// endLine ends an open line of streamed text.
func (r *report) endLine() {
	if r.open {
		fmt.Fprintln(r.answer)
		r.open = false
	}
}

// line prints a line of the tree of workers.
func (r *report) line(e run.Event, what, came string) {
	r.endLine()
	who, text := indentOf(e)+e.Worker, what
	const gap = "  " // between the worker and the text; at a terminal the gutter takes its place
	if came != "" {
		const column = 40
		text += strings.Repeat(" ", max(column-len([]rune(who+gap+text)), 2)) + came
	}
	if to := newGutter(r.errs, who); to != r.errs {
		fmt.Fprintln(to, visible.Line(cutLine(text), math.MaxInt))
		return
	}
	fmt.Fprintln(r.errs, visible.Line(cutLine(who+gap+text), math.MaxInt))
}

// complaints prints the first lines that a failed command wrote to stderr.
func (r *report) complaints(e run.Event) {
	if strings.TrimSpace(e.Stderr) == "" {
		return
	}
	const most = 5
	indent, to := strings.Repeat("  ", len(e.Chain)+1), r.errs
	if behind := newGutter(r.errs, indentOf(e)+e.Worker); behind != r.errs {
		indent, to = "  ", behind
	}
	for i, line := range strings.Split(strings.TrimSpace(e.Stderr), "\n") {
		if i == most {
			break
		}
		fmt.Fprintln(to, visible.Text(cutLine(indent+line)))
	}
}

// cutLine cuts a line that is too long to read quickly.
func cutLine(text string) string {
	const most = 160
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

func firstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return line
}

func hintOf(hint string) string {
	if hint == "" {
		return ""
	}
	return "; " + hint
}

// isWorkerCall reports whether a call is to a worker. Only such calls have an input and
// no path.
func isWorkerCall(e run.Event) bool {
	var args map[string]any
	return json.Unmarshal(e.Args, &args) == nil && (args["input"] != nil || args["input_data"] != nil) && args["path"] == nil
}

// workerOf returns the worker that a call is to.
func workerOf(e run.Event) string {
	var args struct {
		Worker string `json:"worker"`
		Old    string `json:"worker_name"`
	}
	if json.Unmarshal(e.Args, &args) != nil {
		return e.Tool
	}
	return cmp.Or(args.Worker, args.Old, e.Tool)
}

// subject returns the subject of a call, such as a path, a command or a pattern.
func subject(e run.Event) string {
	var args map[string]any
	if json.Unmarshal(e.Args, &args) != nil {
		return ""
	}
	for _, key := range []string{"path", "command", "from", "paths", "pattern", "name", "worker"} {
		if text, ok := args[key].(string); ok {
			return sandbox.Shown(text)
		}
	}
	return ""
}

// answered prints the answer of one turn of a chat.
func (r *report) answered(o run.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLine()
	if r.json {
		return
	}
	if !r.stream && o.Text != "" {
		fmt.Fprintln(newAnswer(r.out, ""), strings.TrimRight(o.Text, "\n"))
	}
	if o.Why != "" {
		fmt.Fprintln(r.errs, "golem: "+visible.Text(o.Why))
	}
}

// end prints the answer, the costs and the changes, and returns the exit code as an error.
// again is the command that continues an unfinished run, without the id.
func (r *report) end(again string, o run.Outcome, s run.Sum, signal exit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLine()
	if !r.json {
		if !r.stream && o.Text != "" {
			fmt.Fprintln(newAnswer(r.out, ""), strings.TrimRight(o.Text, "\n"))
		}
		word := "done"
		switch {
		case !o.OK():
			word = string(o.End)
		case r.resumed && s.Workers+s.Calls == 0:
			fmt.Fprintf(r.errs, "golem: the run of session %s had finished before; nothing was left to do\n", r.label)
			fmt.Fprint(r.errs, r.changes)
			return nil
		}
		r.sayLine("%s  %s, %s (%d ok, %d refused), %s; %s; session %s", word, visible.Count(s.Workers, "worker"), visible.Count(s.Calls, "call"), s.Calls-s.Refused, s.Refused,
			visible.Count(s.Asked, "question"), r.costs(s), r.label)
		if len(s.By) > 1 {
			asked := map[string]bool{}
			for _, share := range s.By {
				asked[share.Model] = true
			}
			for _, name := range slices.Sorted(maps.Keys(s.By)) {
				share := s.By[name]
				if len(asked) > 1 {
					name += " (" + share.Model + ")"
				}
				r.sayLine("      %s: %s, %s", visible.Text(name), visible.Count(int(share.Turns), "answer"), tokens(share.Tokens.Input+share.Tokens.CacheRead+share.Tokens.CacheWrite, share.Tokens.Output, share.Cost, share.Unpriced))
			}
		}
		r.balanced()
		if o.Why != "" && o.End != run.Paused {
			r.sayLine("golem: %s", visible.Text(o.Why))
		}
		r.allowed()
		fmt.Fprint(r.errs, r.changes)
		switch {
		case r.gone && o.End == run.Paused:
			r.sayLine("golem: a call needs your approval, and a run in memory cannot wait for it; --approval approve_all approves all calls, and --sandbox DIR keeps the run")
		case r.gone: // it cannot continue
		case o.End == run.Paused:
			r.paused(again+r.label, o.Pending)
		case o.End == run.Stopped, o.End == run.Spent, o.End == run.Failed, o.End == run.Looping:
			fmt.Fprintln(r.errs, "next: "+again+"last")
		}
	}
	switch {
	case signal != 0:
		return signal
	case o.End == run.Stopped: // stopped by an answer to a question
		return exit(exitSignal + int(syscall.SIGINT))
	case o.End == run.Spent:
		return exit(exitBudget)
	case o.End == run.Paused:
		return exit(exitDenied)
	case !o.OK():
		return exit(exitFailed)
	case s.Nobody > 0:
		if !r.json {
			r.sayLine("golem: %s needed approval and got none; --approval interactive asks, --approval approve_all approves everything", visible.Count(s.Nobody, "call"))
		}
		return exit(exitDenied)
	}
	return nil
}

// maxAllowed is how many commands golem prints that would have let calls do more.
const maxAllowed = 5

// allowed prints the commands that would have let the calls of the run do more, each on a line
// of its own, to be copied.
func (r *report) allowed() {
	if len(r.allow) == 0 {
		return
	}
	r.sayLine("golem: calls reached limits of this program; to allow more:")
	for _, command := range r.allow[:min(len(r.allow), maxAllowed)] {
		fmt.Fprintln(r.errs, "  "+visible.Text(command))
	}
}

// describeSession returns a text about the changes that wait in the session of a gate, and
// the next commands. It is "" if there are none.
func describeSession(w io.Writer, p *program.Program, gate *program.OpenWorker, where string, gone bool) (string, error) {
	if gate.Session == nil {
		return "", nil
	}
	report, end := beginReading(w)
	review, err := gate.Review(report)
	end()
	if err != nil || len(review.Files)+len(review.Ignored) == 0 && review.Unfit == "" {
		return "", err
	}
	return describeChanges(w, p, gate.Session, review, where, gone)
}

// describeChanges returns a text about the changes of a session, and the next commands with
// the options where. There are no next commands if the session is gone.
func describeChanges(w io.Writer, p *program.Program, s *session.Session, review *session.Review, where string, gone bool) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	work := newWorkSession(p, s, dir)
	work.where = where
	v := newReviewText(w, work, review)
	v.stat(true)
	if !gone {
		v.notes()
	}
	return v.b.String(), nil
}

// sayLine prints a line, which breaks between words at a terminal.
func (r *report) sayLine(format string, args ...any) {
	columns, _ := newScreen(r.errs).size()
	fmt.Fprintln(r.errs, wrapClauses(fmt.Sprintf(format, args...), columns))
}

// paused prints which calls wait for approval, and how to continue the run.
func (r *report) paused(again string, ids []string) {
	r.sayLine("golem: the run is paused: %s %s for your approval; golem keeps the run until you continue it", visible.Count(len(ids), "call"), visible.Verb(len(ids), "waits", "wait"))
	which := "--all"
	if len(ids) == 1 {
		which = ids[0]
	}
	r.sayLine("next: golem approve %s%s, then %s", which, r.where, again)
	var terminal io.Writer
	if s := streamOf(r.errs); s != nil && s.file != nil {
		terminal = s.file
	}
	notifyUser(context.Background(), terminal, "a run waits for your approval")
}

// balanced prints how many bytes the run read and how many it staged for review.
func (r *report) balanced() {
	b := r.balance
	if b.Commits == 0 {
		return
	}
	share := ""
	if b.Read > 0 {
		share = fmt.Sprintf(" (%d %%)", (100*b.Staged+b.Read/2)/b.Read)
	}
	fmt.Fprintf(r.errs, "      read %s, staged %s%s; not cleared yet: run golem review\n", visible.Amount(b.Read), visible.Amount(b.Staged), share)
}

// costs describes the tokens and the price of a run.
func (r *report) costs(s run.Sum) string {
	return tokens(s.Tokens.Input+s.Tokens.CacheRead+s.Tokens.CacheWrite, s.Tokens.Output, s.Cost, s.Unpriced)
}

// costUnknown says that the table of prices lacks a model.
const costUnknown = "cost unknown"

// costText describes a cost, which is the known part of it if some usage has no known price.
func costText(cost float64, unpriced bool) string {
	switch {
	case unpriced && cost > 0:
		return fmt.Sprintf("$%.4f and more, ", cost) + costUnknown
	case unpriced:
		return costUnknown
	}
	return fmt.Sprintf("$%.4f", cost)
}

func tokens(in, out int64, cost float64, unpriced bool) string {
	text := fmt.Sprintf("%d tokens in, %d out", in, out)
	if unpriced || cost > 0 {
		text += ", " + costText(cost, unpriced)
	}
	return text
}
