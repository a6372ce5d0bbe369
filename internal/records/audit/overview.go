package audit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// An Overview is what happened in a time, for a person who was not there. Add adds the records
// in order. Its texts come from workers, and the front that prints them escapes them.
type Overview struct {
	Records   int               `json:"records"`
	Sessions  []*SessionOutline `json:"sessions"`  // in the order of their first record
	Decisions []Record          `json:"decisions"` // by people, flags and modes
	Refused   []Record          `json:"refused"`   // calls that were not made
	Hosts     []*HostOutline    `json:"hosts"`     // in the order of their first connection

	connections Connections
	sessions    map[string]*SessionOutline
	open        map[string]Record // intents without an outcome yet
	answered    map[string]bool   // requests with an answer
}

// A SessionOutline is what happened in a session.
type SessionOutline struct {
	ID       string           `json:"id"`
	Commands []CommandOutline `json:"commands"`
	Calls    int              `json:"calls"` // other calls that were made
	Files    []*FileOutline   `json:"files"` // in the order of their first change
	Unnamed  int              `json:"unnamed,omitempty"`

	files map[string]*FileOutline
}

// A CommandOutline is a command that ran.
type CommandOutline struct {
	Intent  Record  `json:"intent"`
	Outcome *Record `json:"outcome,omitempty"` // nil if golem was killed, or the command still runs
}

// A FileOutline is a file that a session changed.
type FileOutline struct {
	Path  string    `json:"path"`
	State FileState `json:"state"`
	Op    string    `json:"op,omitempty"` // of the last command that changed it
	Time  time.Time `json:"time"`
	// Ignored is how many files an ignored place has, whose path it then is.
	Ignored int `json:"ignored,omitempty"`
}

// A FileState says what became of a change.
type FileState string

// The states of files.
const (
	FileChanged   FileState = "changed"   // by a command, and not applied
	FileWritten   FileState = "written"   // by a file tool, in the session or directly
	FileApplied   FileState = "applied"   // to the user's directory
	FileDiscarded FileState = "discarded" // also with the whole session
	FileReverted  FileState = "reverted"  // a later command made it as it was
)

// A HostOutline is what commands did with a host.
type HostOutline struct {
	Host     string `json:"host"`
	Reached  int    `json:"reached"` // connections
	Refused  int    `json:"refused"`
	Sent     int64  `json:"sent"` // bytes
	Received int64  `json:"received"`
}

// Add adds the next record.
func (o *Overview) Add(r Record) {
	if o.sessions == nil {
		o.sessions, o.open, o.answered = make(map[string]*SessionOutline), make(map[string]Record), make(map[string]bool)
	}
	o.Records++
	if o.connections.Add(r); r.Tool == ConnectTool && r.Kind != Answer {
		return
	}
	call := r.Session + "\x00" + r.Call
	intent := o.open[call]
	switch r.Kind {
	case Intent:
		o.open[call] = r
		if r.Decision == "yes" && !o.answered[r.Request] {
			o.Decisions = append(o.Decisions, r)
		}
		o.begin(r)
	case Outcome:
		delete(o.open, call)
		o.end(intent, r)
	case Refusal:
		o.Refused = append(o.Refused, r)
	case Answer:
		if o.Decisions = append(o.Decisions, r); r.Request != "" {
			o.answered[r.Request] = true
		}
		if removes := strings.HasPrefix(r.Note, RemovesSession); removes || r.Files != nil {
			s := o.session(r)
			if s.set(r, r.Files, FileDiscarded); removes && (r.Files == nil || r.Files.More == 0) {
				s.Revert(func(string) bool { return false })
			}
		}
	}
}

// session returns the session of a record.
func (o *Overview) session(r Record) *SessionOutline {
	s := o.sessions[r.Session]
	if s == nil {
		s = &SessionOutline{ID: r.Session, Commands: []CommandOutline{}, Files: []*FileOutline{}, files: make(map[string]*FileOutline)}
		o.sessions[r.Session], o.Sessions = s, append(o.Sessions, s)
	}
	return s
}

// begin adds an intent.
func (o *Overview) begin(r Record) {
	s := o.session(r)
	if r.Command() == "" || strings.HasPrefix(r.Note, "applies the changes of ") {
		s.Calls++
		return
	}
	s.Commands = append(s.Commands, CommandOutline{Intent: r})
}

// end adds the outcome of a call, whose intent may be before the time.
func (o *Overview) end(intent, r Record) {
	s := o.session(r)
	for i := len(s.Commands) - 1; i >= 0; i-- {
		if s.Commands[i].Intent.Call == r.Call {
			s.Commands[i].Outcome = &r
			break
		}
	}
	if s.set(r, r.Files, FileChanged); r.Code != "" {
		return
	}
	s.set(r, intent.Files, FileDiscarded)
	state := FileWritten
	if intent.Tool == "apply_changes" || strings.HasPrefix(intent.Note, "applies the changes of ") {
		state = FileApplied
	}
	for _, effect := range intent.Effects {
		verb, path, _ := strings.Cut(effect, " ")
		switch {
		case (verb == policy.Write.String() || verb == policy.Delete.String()) && !strings.Contains(path, "**"):
			op := map[string]string{policy.Delete.String(): "delete"}[verb]
			s.put(path, FileOutline{Path: path, State: state, Op: op, Time: r.Time})
		case strings.HasPrefix(effect, "⟨and "):
			s.Unnamed++ // the number is in the record
		}
	}
}

// RemovesSession begins the note of the record of a session's removal.
const RemovesSession = "removes session "

// Revert marks the files that the session has not changed any more: a later command made them as
// they were. has reports whether the session has changed a file.
func (s *SessionOutline) Revert(has func(path string) bool) {
	for _, f := range s.Files {
		if f.State == FileChanged && !has(strings.TrimRight(f.Path, "/*")) {
			f.State = FileReverted
		}
	}
}

// set gives files a state.
func (s *SessionOutline) set(r Record, files *Files, state FileState) {
	if files == nil {
		return
	}
	for _, f := range files.List {
		s.put(f.Path, FileOutline{Path: f.Path, State: state, Op: f.Op, Time: r.Time})
	}
	for _, place := range files.Ignored {
		s.put(place.Path, FileOutline{Path: place.Path, State: state, Time: r.Time, Ignored: place.Files})
	}
	if state == FileChanged {
		s.Unnamed += files.More
	}
}

func (s *SessionOutline) put(path string, f FileOutline) {
	if was := s.files[path]; was != nil {
		f.Op, f.Ignored = cmp.Or(f.Op, was.Op), max(f.Ignored, was.Ignored)
		*was = f
		return
	}
	s.files[path] = &f
	s.Files = append(s.Files, &f)
}

// Finish completes the overview after the last record.
func (o *Overview) Finish() {
	hosts := make(map[string]*HostOutline)
	o.Hosts = []*HostOutline{}
	for _, c := range o.connections.List {
		h := hosts[c.Host]
		if h == nil {
			h = &HostOutline{Host: c.Host}
			hosts[c.Host], o.Hosts = h, append(o.Hosts, h)
		}
		if c.Decision == "preApproved" || c.Decision == "yes" {
			h.Reached++
		} else {
			h.Refused++
		}
		h.Sent, h.Received = h.Sent+c.Sent, h.Received+c.Received
	}
	o.Sessions = slices.DeleteFunc(o.Sessions, func(s *SessionOutline) bool {
		return len(s.Commands)+s.Calls+len(s.Files)+s.Unnamed == 0
	})
}
