package inbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// An EventKind says what an event of a timeline is.
type EventKind string

// The kinds of events.
const (
	EventInput      EventKind = "input"      // the user wrote to a worker
	EventAnswer     EventKind = "answer"     // a worker wrote
	EventCall       EventKind = "call"       // a worker or a person called a tool
	EventResult     EventKind = "result"     // of a call
	EventConnection EventKind = "connection" // of a command to a host
	EventDecision   EventKind = "decision"   // of a person
	EventNote       EventKind = "note"       // golem did something itself
	EventEnd        EventKind = "end"        // of a worker
)

// An Event is a step in a session. All its texts are visible text.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   EventKind `json:"kind"`
	Who    string    `json:"who,omitempty"`
	Depth  int       `json:"depth,omitempty"` // how many workers called this one
	Title  string    `json:"title"`
	Text   string    `json:"text,omitempty"` // several lines
	Cut    int       `json:"cut,omitempty"`  // how many characters of the text are not here
	Failed bool      `json:"failed,omitempty"`
}

// maxEventText is how many characters of a message or a result an event has.
const maxEventText = 8000

// Timelines keep the events that they read from the logs of runs. So a page that follows a
// run does not make golem read all of its log again. The zero value is ready.
type Timelines struct {
	mu  sync.Mutex
	all map[string]*runEvents // by state directory and session
}

// These limit how much Timelines keep.
const (
	maxTimelines    = 4
	maxTimelineText = 4 << 20 // bytes of the texts of one
)

// runEvents are the events of the log of a session's runs, as far as it was read.
type runEvents struct {
	next  uint64 // number of the next entry to read
	size  int
	list  []Event
	tools map[string]string // by conversation and call
}

// read returns the events of a session's runs.
func (t *Timelines) read(s ProgramSession) ([]Event, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := string(s.Program.Storage.Dir()) + "/" + s.ID
	one := t.all[key]
	if one == nil {
		one = &runEvents{next: 1, tools: make(map[string]string)}
	}
	n, err := s.Program.Storage.Runs().Entries(s.Session, one.next, one.add)
	if err == nil && n+1 < one.next { // another log is there
		one = &runEvents{next: 1, tools: make(map[string]string)}
		_, err = s.Program.Storage.Runs().Entries(s.Session, one.next, one.add)
	}
	if t.all == nil || len(t.all) >= maxTimelines && t.all[key] == nil {
		t.all = make(map[string]*runEvents)
	}
	if t.all[key] = one; err != nil || one.size > maxTimelineText {
		delete(t.all, key)
	}
	return slices.Clone(one.list), err
}

func (one *runEvents) add(number uint64, e run.Entry) error {
	events := entryEvents(e, one.tools)
	for _, e := range events {
		one.size += len(e.Title) + len(e.Text)
	}
	one.list, one.next = append(one.list, events...), number+1
	return nil
}

// Of returns the steps of a session in order: what its workers and the user wrote, the calls
// with their results, the connections and the decisions. An event that is there stays there,
// except that the end of a connection becomes part of it.
func (t *Timelines) Of(s ProgramSession) ([]Event, error) {
	list, err := t.read(s)
	if err != nil {
		return nil, err
	}
	folder, err := s.Program.Storage.OpenJournal()
	if err != nil || folder == nil {
		return list, err
	}
	defer folder.Close()
	var connections audit.Connections
	requests := make(map[string]bool) // that waited in the session; an answer names the process that made it
	err = audit.Read(folder, audit.Filter{Session: s.ID}, func(r audit.Record, _ []byte) error {
		if connections.Add(r); r.Tool != audit.ConnectTool {
			list = append(list, recordEvents(r)...)
		}
		if r.Request != "" {
			requests[r.Request] = true
		}
		return nil
	})
	if err == nil && len(requests) > 0 {
		err = audit.Read(folder, audit.Filter{Kind: string(audit.Answer)}, func(r audit.Record, _ []byte) error {
			if requests[r.Request] && r.Session != s.ID {
				list = append(list, recordEvents(r)...)
			}
			return nil
		})
	}
	for _, c := range connections.List {
		list = append(list, connectionEvent(c))
	}
	slices.SortStableFunc(list, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return list, err
}

// setText sets the text of an event.
func (e *Event) setText(text string) {
	text = strings.ToValidUTF8(text, "�")
	if runes := []rune(text); len(runes) > maxEventText {
		e.Cut, text = len(runes)-maxEventText, string(runes[:maxEventText])
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = visible.Text(strings.TrimSuffix(lines[i], "\r"))
	}
	e.Text = strings.Join(lines, "\n")
}

// entryEvents returns the events of an entry in the log of runs.
func entryEvents(e run.Entry, tools map[string]string) (list []Event) {
	one := Event{Time: e.Time, Who: sandbox.Shown(e.Worker), Depth: strings.Count(e.In, "/")}
	add := func(kind EventKind, title, text string) *Event {
		next := one
		next.Kind, next.Title = kind, visible.Line(title, maxTitle)
		next.setText(text)
		list = append(list, next)
		return &list[len(list)-1]
	}
	switch e.Kind {
	case "begin":
		add(EventNote, e.Worker+" begins, with the model "+cmp.Or(e.Model, "of the program"), "")
	case "replace":
		title := "golem shortened the conversation, or added to it"
		if e.Note != "" {
			title = "golem " + e.Note
		}
		add(EventNote, title, "")
	case "result":
		if e.Result != nil {
			add(EventResult, cmp.Or(tools[e.In+" "+e.Call], "a call"), e.Result.Text).Failed = e.Result.Failed
		}
	case "paused":
		add(EventNote, cmp.Or(tools[e.In+" "+e.Call], "a call")+" waits for your approval", "")
	case "end":
		if e.Outcome != nil && e.Outcome.End == run.Paused {
			add(EventNote, "waits", e.Outcome.Why) // it continues after an answer
		} else if e.Outcome != nil {
			add(EventEnd, "ended: "+string(e.Outcome.End), e.Outcome.Why).Failed = !e.Outcome.OK()
		}
	case "message":
		for _, m := range e.Messages {
			for _, p := range m.Parts {
				switch {
				case p.Call != nil:
					tools[e.In+" "+p.Call.ID] = p.Call.Tool
					add(EventCall, "calls "+p.Call.Tool, argumentText(p.Call.Args))
				case p.File != nil:
					add(EventInput, fmt.Sprintf("with the file %s, %s, %s", sandbox.Shown(p.File.Name), sandbox.Shown(p.File.Type), visible.Amount(int64(len(p.File.Data)))), "")
				case p.Text != "" && m.Role == model.User:
					add(EventInput, "gets", p.Text)
				case p.Text != "":
					add(EventAnswer, "writes", p.Text)
				}
			}
		}
	}
	return list
}

// argumentText returns the arguments of a call, one per line.
func argumentText(args string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(args), &fields) != nil {
		return args
	}
	var lines []string
	for name, value := range fields {
		text, ok := value.(string)
		if !ok {
			data, _ := json.Marshal(value)
			text = string(data)
		}
		lines = append(lines, name+": "+text)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// recordEvents returns the events of a record that the log of runs does not have.
func recordEvents(r audit.Record) []Event {
	one := Event{Time: r.Time, Title: visible.Line(r.CallText(), maxTitle)}
	one.setText(strings.Join(slices.DeleteFunc([]string{r.Command(), strings.Join(r.Effects, ", "), r.Note}, func(text string) bool { return text == "" }), "\n"))
	switch {
	case r.Kind == audit.Answer:
		one.Kind, one.Who = EventDecision, visible.Line(r.DeciderText(), maxTitle)
		one.Title = visible.Line(r.KindText()+": "+r.CallText(), maxTitle)
		if seen := r.SeenText(); seen != "" {
			one.Title += ", " + visible.Line(seen, maxTitle)
		}
	case r.Origin == policy.Model.String():
		return nil
	case r.Kind == audit.Intent:
		one.Kind = EventCall
	case r.Kind == audit.Outcome:
		one.Kind, one.Failed = EventResult, r.Code != ""
		one.Title += ": " + r.KindText()
	case r.Kind == audit.Refusal:
		one.Kind, one.Failed = EventResult, true
		one.Title += ": " + r.KindText()
	default:
		return nil
	}
	return []Event{one}
}

// connectionEvent returns a connection as an event.
func connectionEvent(c audit.Connection) Event {
	e := Event{Time: c.Time, Kind: EventConnection, Who: visible.Line(c.Program, maxTitle), Failed: c.Code != ""}
	e.Title = visible.Line(c.Address(), maxTitle)
	switch {
	case c.Code != "":
		e.Title += ", refused or failed (" + sandbox.Shown(c.Code) + ")"
	case c.Ended:
		e.Title += fmt.Sprintf(", %s sent, %s received, %s", visible.Amount(c.Sent), visible.Amount(c.Received), c.Took.Round(time.Millisecond))
	default:
		e.Title += ", open"
	}
	e.setText(c.Note)
	return e
}
