package inbox

import (
	"os"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/prices"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An About describes a session. All its texts are visible text.
type About struct {
	Program string               `json:"program"` // see Key
	ID      string               `json:"id"`
	What    string               `json:"what,omitempty"`  // the program or the input that started it
	Input   string               `json:"input,omitempty"` // the first line of the input of its first run
	State   program.SessionState `json:"state"`
	Started time.Time            `json:"started"`
	Used    time.Time            `json:"used"`
	Mounts  []AboutMount         `json:"mounts"`
	Taint   string               `json:"taint,omitempty"` // the first untrusted path that it has read
	Copy    bool                 `json:"copy,omitempty"`  // it works on copies of the directories
	HasRun  bool                 `json:"has_run"`         // a worker was run in it
	Use     []WorkerUse          `json:"use,omitempty"`   // by worker
	Total   WorkerUse            `json:"total"`
}

// An AboutMount is a directory that a session shows.
type AboutMount struct {
	Directory string `json:"directory"`
	Target    string `json:"target"` // its name in the sandbox
	Mode      string `json:"mode"`
}

// A WorkerUse is what a worker has used in a session.
type WorkerUse struct {
	Worker   string      `json:"worker,omitempty"`
	Model    string      `json:"model,omitempty"`
	Turns    int         `json:"turns"`
	Tokens   model.Usage `json:"tokens"`
	Cost     float64     `json:"cost"`
	Unpriced bool        `json:"unpriced,omitempty"` // some usage has no known price
}

// add adds another use.
func (u *WorkerUse) add(other WorkerUse) {
	u.Turns, u.Tokens, u.Cost, u.Unpriced = u.Turns+other.Turns, u.Tokens.Add(other.Tokens), u.Cost+other.Cost, u.Unpriced || other.Unpriced
}

// OpenSession opens a session of the program with a key, by its full id.
func OpenSession(o program.Options, key, id string) (Session, error) {
	p, err := OpenProgram(o, key)
	if err != nil {
		return Session{}, err
	}
	list, err := p.Sessions().List()
	if err != nil {
		return Session{}, err
	}
	for _, s := range list {
		if s.ID != id {
			continue
		}
		if len(s.Mounts) > 0 {
			o.Dir = string(p.Root())
			if p, err = program.LoadMounts(o, s.Mounts); err != nil {
				return Session{}, err
			}
		}
		return Session{s, p}, nil
	}
	return Session{}, &sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrNotFound, Hint: "it was removed, or another directory has it; golem status --all lists what waits"}
}

// About describes the session.
func (s Session) About() (About, error) {
	a := About{Program: Key(s.Program), ID: s.ID, What: s.What(), Started: s.Started, Used: s.LastUsed, Copy: s.Copy, State: program.StateOf(s.Program, s.Session)}
	for _, m := range s.Program.Project.Mounts {
		a.Mounts = append(a.Mounts, AboutMount{visible.Text(m.RealHostDir()), visible.Text(m.Target), m.Mode})
	}
	if data, err := os.ReadFile(s.TaintFile()); err == nil {
		a.Taint = visible.Line(strings.TrimSpace(string(data)), maxTitle)
	}
	a.Input = visible.Line(s.Program.Runs().FirstInput(s.Session), maxTitle)
	using := make(map[string]int) // indexes in a.Use, by worker and model
	now := make(map[string]int)   // the same, by conversation
	err := s.Program.RunHistory(s.Session, func(e run.Entry) error {
		a.HasRun = true
		if e.Kind == "begin" {
			key := e.Worker + "\x00" + e.Model
			if _, ok := using[key]; !ok {
				using[key] = len(a.Use)
				a.Use = append(a.Use, WorkerUse{Worker: sandbox.Shown(e.Worker), Model: e.Model})
			}
			now[e.In] = using[key]
		}
		i, ok := now[e.In]
		if e.Usage == nil || !ok {
			return nil
		}
		u := &a.Use[i]
		u.Turns, u.Tokens = u.Turns+1, u.Tokens.Add(*e.Usage)
		cost, known := prices.Cost(u.Model, *e.Usage)
		u.Cost, u.Unpriced = u.Cost+cost, u.Unpriced || !known
		return nil
	})
	for i := range a.Use {
		u := &a.Use[i]
		a.Total.add(*u)
		u.Model = sandbox.Shown(u.Model)
	}
	return a, err
}
