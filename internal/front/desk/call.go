package desk

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/device"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/syntax"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// These constants limit how much of a call a page shows before the user opens more.
const (
	maxRowsOpen  = 1500    // rows
	maxBytesOpen = 1 << 20 // bytes of text
)

// A callView is a call on a page.
type callView struct {
	At, Program       string // the page; the program is "" for a call at the hub
	ID, Nonce         string
	Job               string // of the hub, "" for a call of this machine
	Blocked           string // why the user may not decide, "" if that is allowed
	All               bool   // show every file
	Digest            string
	Directory         string
	Tool              string
	Changed           bool     // the content is newer than the one that the user decided about
	Missing           []string // what was not on the screen when the user approved, in words
	Confirmed         string   // the same, as items
	Head, Notes, Tail []visible.Row
	Files             []fileView
	Rest              []visible.Row // arguments, in the end
	Unsent            []string      // names of the files that the page does not show yet
	Omitted           []string      // what golem cannot show, in words
	Before            string        // items that another page showed
	Always            string        // what golem remembers if the user always allows a host, "" if it cannot
	UnseenOff         string        // the line of a policy that does not allow approving what was not viewed, "" for none
	Session           string        // the session from whose page the user made the call, "" for none
}

// A fileView is a change of a call.
type fileView struct {
	Index int
	Title visible.Row
	Rows  []visible.Row
	Open  bool
	Path  string // of the page that shows it
	Name  string // of the file, for its colours
}

// A room counts what a page shows open.
type room struct {
	all        bool // there is no limit
	rows, size int
}

// take opens a file if the page has room for it, and reports whether it has.
func (o *room) take(f *fileView) bool {
	o.rows += len(f.Rows)
	for _, row := range f.Rows {
		o.size += len(row.Text)
	}
	f.Open = o.all || o.rows <= maxRowsOpen && o.size <= maxBytesOpen || len(f.Rows) == 0
	return f.Open
}

// A waitingCall is a call that waits for the user, here or at the hub.
type waitingCall struct {
	at, program, id string // its page
	job             string // of the hub, "" for a call of this machine
	place           string // its directory or job, in words
	request         tool.Request
	version         string // changes with everything that a decision covers
	session         string
	blocked         string // why the user may not decide, "" if that is allowed
	device          string // the id of the device that asks for it, "" for the user's own browser
	answer          func(reply approval.Reply) error
}

// readCall returns the call that a request of the browser is about.
func (s *server) readCall(r *http.Request) (waitingCall, error) {
	if job := r.PathValue("job"); job != "" {
		return s.hub.readCall(r.Context(), job, r.PathValue("id"))
	}
	call, err := s.readLocalCall(r.PathValue("program"), r.PathValue("id"))
	d, _ := r.Context().Value(deviceKey{}).(device.Device)
	call.device = d.ID
	return call, err
}

func (s *server) readLocalCall(key, id string) (waitingCall, error) {
	call, request, err := inbox.ReadCall(s.options, key, id)
	if err != nil {
		return waitingCall{}, err
	}
	return waitingCall{at: "call/" + key + "/" + id, program: key, id: id, place: visible.Text(string(call.Program.Root())), request: request, version: request.Digest, session: call.Session,
		answer: func(reply approval.Reply) error { return inbox.AnswerCall(call, request, reply, s.secrets) }}, nil
}

// showCall shows a call that waits, with as much of its content as a page can hold.
func (s *server) showCall(w http.ResponseWriter, r *http.Request) error {
	call, err := s.readCall(r)
	if err != nil {
		return err
	}
	return s.renderCall(w, http.StatusOK, call, callView{All: r.URL.Query().Has("all"), Changed: r.URL.Query().Has("changed")})
}

func (s *server) renderCall(w http.ResponseWriter, status int, call waitingCall, how callView) error {
	v := newCallView(call.request, how.All)
	v.At, v.Program, v.ID, v.Job, v.Blocked, v.Directory, v.Changed, v.Missing, v.Confirmed = s.guard.prefix+call.at, call.program, call.id, call.job, call.blocked, call.place, how.Changed, how.Missing, how.Confirmed
	one := &page{program: call.at, id: call.id, digest: call.request.Digest, version: call.version, call: call.request.CallDigest, session: call.session, device: call.device, sent: v.sent(call.request)}
	if call.job != "" || s.devices != nil { // a hub keeps no rules, and a device makes none
		v.Always = ""
	}
	if a, ok := s.actions.find(call.id); ok && call.job == "" {
		one.before = a.shown.Items(call.request)
		v.Before, v.Session = strings.Join(one.before, ","), a.session
	}
	s.pages.add(one)
	v.Nonce = one.nonce
	return s.render(w, status, "call", view{Title: "Decide about a call", Data: v})
}

// newCallView returns a call as a page shows it. With all, every file is open.
func newCallView(r tool.Request, all bool) callView {
	sheet := display.NewSheet(r, math.MaxInt)
	v := callView{Digest: r.Digest, Tool: sandbox.Shown(r.Tool), Head: sheet.Head, Tail: sheet.Tail, UnseenOff: visible.Line(r.UnseenOff, maxNote)}
	if rule, ok := alwaysRule(r); ok {
		v.Always = visible.Line(rule.String(), math.MaxInt)
	}
	titles, content := make(map[string]int), make(map[string]int)
	for i := range r.Changes {
		titles[tool.ItemChange(i)], content[tool.ItemContent(i)] = i, i
		v.Files = append(v.Files, fileView{Index: i, Title: visible.Row{Text: visible.Name(r.Changes[i].Path)}, Name: r.Changes[i].Path})
	}
	for _, row := range sheet.Body {
		i, isTitle := titles[row.Item]
		j, isContent := content[row.Item]
		switch {
		case isTitle && row.Mark == visible.Detail:
			v.Files[i].Title = row
		case isContent:
			v.Files[j].Rows = append(v.Files[j].Rows, row)
		case row.Item == tool.ItemArguments:
			v.Rest = append(v.Rest, row)
		default:
			v.Notes = append(v.Notes, row)
		}
	}
	opened := room{all: all}
	for i := range v.Files {
		if !opened.take(&v.Files[i]) {
			v.Unsent = append(v.Unsent, visible.Name(r.Changes[i].Path))
		}
	}
	for _, item := range r.Omitted() {
		if i, ok := content[item]; ok {
			v.Omitted = append(v.Omitted, "the content of "+visible.Name(r.Changes[i].Path)+": "+visible.Line(r.Changes[i].Omitted, maxNote))
		} else {
			v.Omitted = append(v.Omitted, map[string]string{tool.ItemMore: visible.Count(r.MoreWarnings, "more warning"), tool.ItemProblem: "the changes, which golem knows only after the call ran"}[item])
		}
	}
	return v
}

// alwaysRule returns the rule by which golem always allows a host, as at a terminal. ok is
// false for other calls.
func alwaysRule(r tool.Request) (approval.Rule, bool) {
	if r.Tool != tool.ConnectTool {
		return approval.Rule{}, false
	}
	return approval.AlwaysRule(r)
}

// maxNote is how many characters of a note a page shows.
const maxNote = 500

func noteText(text string) string { return visible.Line(text, maxNote) }

// sent returns the items of a request that the page shows completely.
func (v callView) sent(r tool.Request) map[string]bool {
	sent := make(map[string]bool)
	for _, item := range r.Items() {
		sent[item] = true
	}
	for _, f := range v.Files {
		if !f.Open {
			delete(sent, tool.ItemContent(f.Index))
		}
	}
	return sent
}

// showFile shows one file of a call on a page that is open.
func (s *server) showFile(w http.ResponseWriter, r *http.Request) error {
	call, err := s.readCall(r)
	if err != nil {
		return err
	}
	v := newCallView(call.request, true)
	i, err := strconv.Atoi(r.PathValue("index"))
	if err != nil || i < 0 || i >= len(v.Files) {
		return &sandbox.Error{Op: "file", Path: r.PathValue("index"), Code: sandbox.ErrNotFound, Hint: "the call has " + visible.Count(len(v.Files), "change")}
	}
	if !s.pages.addSent(r.URL.Query().Get("page"), call.at, call.id, call.request.Digest, tool.ItemContent(i)) {
		return &sandbox.Error{Op: "file", Path: call.id, Code: sandbox.ErrConflict, Hint: "the page is too old; reload it"}
	}
	return s.render(w, http.StatusOK, "file", view{Data: v.Files[i]})
}

// showState tells an open page whether its call still waits. A hub that does not answer leaves
// the page as it is.
func (s *server) showState(w http.ResponseWriter, r *http.Request) error {
	call, err := s.readCall(r)
	if shown, ok := s.pages.look(r.URL.Query().Get("page"), call.at, call.id); err == nil && ok && shown.version != call.version {
		err = &sandbox.Error{Op: "approve", Path: call.id, Code: sandbox.ErrConflict, Hint: "the call changed since it was shown; look at it again"}
	}
	if err == nil || r.PathValue("job") != "" && sandbox.CodeOf(err) == sandbox.ErrInternal {
		return keepPage(w)
	}
	return s.render(w, http.StatusOK, "over", view{Data: visible.Text(err.Error())})
}

// decide answers a call. The answer counts for the content that the page showed.
func (s *server) decide(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	at := "call/" + r.PathValue("program") + "/" + id
	if job := r.PathValue("job"); job != "" {
		at = hubCallPage(job, id)
	}
	one, err := s.pages.useForm(r, "decide", at, id)
	if err != nil {
		return err
	}
	call, err := s.readCall(r)
	if err != nil {
		return s.failChanged(w, r.PathValue("program"), one, err)
	}
	if call.version != one.version || r.PostForm.Get("digest") != one.digest {
		return s.renderCall(w, http.StatusConflict, call, callView{Changed: true})
	}
	front := s.front
	if s.devices != nil {
		if front, err = s.devices.checkDecision(r, one, call); err != nil {
			return err
		}
	}
	reply := approval.Reply{Answer: tool.Answer{By: "user", Front: front}, Rendered: one.rendered(r.PostForm.Get("seen"))}
	switch r.PostForm.Get("answer") {
	case "approve":
		reply.Verdict = tool.Approved
	case "approve-always":
		rule, ok := alwaysRule(call.request)
		if !ok || call.job != "" { // a hub keeps no rules
			return &sandbox.Error{Op: "decide", Path: id, Code: sandbox.ErrInvalid, Hint: "golem remembers no rule for this call; approve it once"}
		}
		reply.Verdict, reply.Remember = tool.Approved, &rule
	case "approve-unseen":
		reply.Verdict, reply.DigestPrefix = tool.Approved, r.PostForm.Get("unseen")
		if reply.DigestPrefix == "" || !isConfirmed(call.request, reply.Rendered, strings.Split(r.PostForm.Get("confirmed"), ",")) {
			reply.DigestPrefix = "none" // no digest begins like this
		}
	case "decline":
		reply.Note = visible.Line(strings.TrimSpace(r.PostForm.Get("reason")), maxNote)
	default:
		return &sandbox.Error{Op: "decide", Path: id, Code: sandbox.ErrInvalid, Hint: "the answer is approve, approve-always for a host, or decline"}
	}
	if _, err := approval.CheckSeen(call.request, reply); err != nil {
		return s.renderCall(w, http.StatusUnprocessableEntity, call, callView{Missing: missing(call.request, reply.Rendered), Confirmed: strings.Join(notRendered(call.request, reply.Rendered), ",")})
	}
	switch err := call.answer(reply); {
	case sandbox.CodeOf(err) == sandbox.ErrConflict:
		if call, err = s.readCall(r); err != nil {
			return err
		}
		return s.renderCall(w, http.StatusConflict, call, callView{Changed: true})
	case err != nil:
		return err
	}
	s.live.notify()
	if a, ok := s.actions.find(id); ok && call.job == "" {
		s.actions.remove(id)
		if reply.Verdict == tool.Approved {
			a.approved = true
			return s.act(w, r, a)
		}
	}
	return s.guard.redirect(w, r, "decision/"+call.program+"/"+id)
}

// notRendered returns the items of a request that were not rendered.
func notRendered(r tool.Request, rendered []string) []string {
	return slices.DeleteFunc(r.Items(), func(item string) bool { return slices.Contains(rendered, item) })
}

// isConfirmed reports whether the user confirmed each item that was not rendered. The page
// names them beside the box.
func isConfirmed(r tool.Request, rendered, confirmed []string) bool {
	return !slices.ContainsFunc(notRendered(r, rendered), func(item string) bool { return !slices.Contains(confirmed, item) })
}

// missing describes the items of a request that were not rendered.
func missing(r tool.Request, rendered []string) (list []string) {
	list = visible.Each(r.DescribeItems(notRendered(r, rendered)), noteText)
	for _, item := range r.Omitted() {
		list = append(list, "content that golem cannot show ("+item+")")
	}
	return list
}

// rendered returns the items that the browser reports as seen, as far as it got them.
func (p *page) rendered(seen string) (items []string) {
	items = slices.Clone(p.before)
	for item := range strings.SplitSeq(seen, ",") {
		if p.sent[item] && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

// failChanged shows why a call cannot be decided any more. If the same call waits with
// other content, it shows that content.
func (s *server) failChanged(w http.ResponseWriter, key string, one *page, err error) error {
	if p, wrong := inbox.OpenProgram(s.options, key); wrong == nil {
		if records, wrong := p.Storage.OpenRecords(); wrong == nil {
			list, _ := records.Waiting(p.Storage.Sessions)
			records.Close()
			for _, other := range list {
				if other.CallDigest != one.call || other.Session != one.session || other.Digest == one.digest {
					continue
				}
				if call, wrong := s.readLocalCall(key, other.ID); wrong == nil {
					call.device = one.device
					return s.renderCall(w, http.StatusConflict, call, callView{Changed: true})
				}
			}
		}
	}
	return err
}

// maxPiece is how many characters of a row are one piece. The browser reports a piece as
// seen when it was on the screen, so that a long line counts only when all of it was.
const maxPiece = 200

// A cell is a piece of a row on a page.
type cell struct {
	Mark, Class, Text, Item string
	First                   bool
	Spans                   []syntax.Span // of its text
	Old, New                int           // the numbers of its line, 0 for none
}

// cells are the rows of a file in pieces.
type cells []cell

// Numbered reports whether the lines have numbers.
func (c cells) Numbered() bool {
	return slices.ContainsFunc(c, func(one cell) bool { return one.Old+one.New > 0 })
}

// paintRows returns the rows of a diff of a file in pieces, with the parts that have a
// colour. If the name is empty, there are none.
func paintRows(name string, rows []visible.Row) (list cells) {
	spans := visible.Paint(name, rows)
	for i, r := range rows {
		at := 0
		for _, c := range splitRow(r) {
			if c.Spans = visible.CutSpans(spans[i], at, at+len(c.Text)); c.Spans == nil {
				c.Spans = []syntax.Span{{Text: c.Text}}
			}
			list, at = append(list, c), at+len(c.Text)
		}
	}
	return list
}

// splitRow returns a row in pieces.
func splitRow(r visible.Row) (list []cell) {
	class := map[string]string{visible.Added: "added", visible.Removed: "removed", visible.Hunk: "hunk", visible.Warning: "warning", visible.Hidden: "hunk", visible.Content: "content"}[r.Mark]
	text := []rune(r.Text)
	for first := true; first || len(text) > 0; first = false {
		n := min(len(text), maxPiece)
		one := cell{Mark: r.Mark, Class: class, Text: string(text[:n]), Item: r.Item, First: first}
		if first {
			one.Old, one.New = r.Old, r.New
		}
		list = append(list, one)
		text = text[n:]
	}
	return list
}

// A decisionView is a decision as the journal has it.
type decisionView struct {
	Program, ID, Nonce string
	Records            []recordView
	Outcome            string // what a person decided: Approved or Declined, or else Call
	Session            string // in which the call waited, "" if it is not known
	Label              string // the name of the session
	Job                string // of the hub, "" for a call of this machine
	Resume             bool   // its run can continue
}

// A recordView is a record of the journal.
type recordView struct {
	Number          uint64
	Time, What      string
	Front, Seen     string
	Call, Note      string
	Shown, Effects  []string
	Digest, Request string
	Rows            []visible.Row // the text that was on screen
	Missing         int           // how many rows of the call were not
}

// showDecision shows what the journal has about a decision. A device sees only its own decisions.
func (s *server) showDecision(w http.ResponseWriter, r *http.Request) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	folder, err := inbox.OpenJournal(s.options, key)
	if err != nil {
		return err
	}
	defer folder.Close()
	list, err := audit.Related(folder, id)
	d, isDevice := r.Context().Value(deviceKey{}).(device.Device)
	if err == nil && (len(list) == 0 || isDevice && !hasAnswered(d, id, list)) {
		err = &sandbox.Error{Op: "decision", Path: id, Code: sandbox.ErrNotFound, Hint: "the journal has no record of it"}
	}
	if err != nil {
		return err
	}
	v := newDecisionView(folder, id, list, inbox.IsHubKey(key))
	v.Program = key
	if v.Job != "" {
		v.Session = ""
	} else if one, wrong := inbox.OpenSession(s.options, key, v.Session); wrong == nil {
		v.Label = naming.Label(one)
		if v.Resume = one.CanResume(); v.Resume {
			v.Nonce = s.addControlPage()
		}
	} else {
		v.Session = ""
	}
	title := v.Outcome
	return s.render(w, http.StatusOK, "decision", view{Title: fmt.Sprintf("%s: %s", title, visible.Line(id, 40)), Data: v})
}

// newDecisionView returns the records of a journal about a decision, with the texts that were on
// screen.
func newDecisionView(folder *state.Dir, id string, list []audit.Record, atHub bool) decisionView {
	v := decisionView{ID: id, Outcome: "Call"}
	store, wrong := approval.Open(folder)
	texts := make(map[string]bool)
	for _, r := range list {
		if r.Kind != audit.Answer { // an answer names the process that made it
			v.Session = r.Session
		}
		if atHub {
			v.Job = sandbox.Shown(r.Session)
		}
		switch {
		case atHub && r.Code != "":
			v.Outcome = "Not counted"
		case r.Decision == "yes":
			v.Outcome = "Approved"
		case r.Decision == "no":
			v.Outcome = "Declined"
		}
		one := recordView{Number: r.Number, Time: r.Time.Local().Format(time.DateTime), What: r.KindText(), Front: r.DeciderText(), Seen: r.SeenText(), Call: r.CallText(),
			Note: visible.Line(r.Note, maxNote), Digest: sandbox.Shown(r.Digest), Request: sandbox.Shown(r.Request)}
		if r.Text != "" && !texts[r.Text] && wrong == nil {
			texts[r.Text] = true
			if shown, err := store.FindShown(r.Text); err == nil {
				one.Rows, one.Missing = shown.Rows()
			}
		}
		one.Shown, one.Effects = visible.Each(r.Shown, noteText), visible.Each(r.Effects, noteText)
		v.Records = append(v.Records, one)
	}
	return v
}
