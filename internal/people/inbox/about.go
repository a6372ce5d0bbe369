package inbox

import (
	"os"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// An About describes a session. All its texts are visible text.
type About struct {
	Program string               `json:"program"` // see Key
	ID      string               `json:"id"`
	Name    string               `json:"name,omitempty"`
	What    string               `json:"what,omitempty"`  // the program or the input that started it
	Input   string               `json:"input,omitempty"` // the first line of the input of its first run
	State   storage.SessionState `json:"state"`
	Started time.Time            `json:"started"`
	Used    time.Time            `json:"used"`
	Mounts  []AboutMount         `json:"mounts"`
	Taint   string               `json:"taint,omitempty"` // the first untrusted path that it has read
	Copy    bool                 `json:"copy,omitempty"`  // it works on copies of the directories
	HasRun  bool                 `json:"has_run"`         // a worker was run in it
	Use     []WorkerUse          `json:"use,omitempty"`   // by worker
	Total   WorkerUse            `json:"total"`
	// Cost is what the agents of golem exec asked of models: "41 requests, 1.2 M tokens in, 38 k
	// out, about $3.10"; "" for nothing.
	Cost string `json:"cost,omitempty"`
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
func OpenSession(o program.Options, key, id string) (ProgramSession, error) {
	p, err := OpenProgram(o, key)
	if err != nil {
		return ProgramSession{}, err
	}
	list, err := p.Storage.Sessions.List()
	if err != nil {
		return ProgramSession{}, err
	}
	for _, s := range list {
		if s.ID != id {
			continue
		}
		if len(s.Mounts) > 0 {
			o.Dir = string(p.Root())
			if p, err = program.LoadMounts(o, s.Mounts); err != nil {
				return ProgramSession{}, err
			}
		}
		return ProgramSession{s, p}, nil
	}
	return ProgramSession{}, &sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrNotFound, Hint: "it was removed, or another directory has it; golem status --all lists what waits"}
}

// About describes the session.
func (s ProgramSession) About() (About, error) {
	a := About{Program: keyOf(s.Program), ID: s.ID, Name: s.Name, What: s.What(), Started: s.Started, Used: s.LastUsed, Copy: s.Copy, State: s.Program.Storage.StateOf(s.Session)}
	for _, m := range s.Program.Project.Mounts {
		a.Mounts = append(a.Mounts, AboutMount{visible.Text(m.RealHostDir()), visible.Text(m.Target), m.Mode})
	}
	if data, err := os.ReadFile(s.TaintFile()); err == nil {
		a.Taint = visible.Line(strings.TrimSpace(string(data)), maxTitle)
	}
	if spent := storage.SpentIn(s.Session); !spent.IsEmpty() {
		a.Cost = spent.String()
	}
	sum, err := s.Program.Storage.Runs().Summary(s.Session)
	a.Input, a.HasRun = visible.Line(sum.Input, maxTitle), sum.HasRun
	for _, u := range sum.Uses {
		use := WorkerUse{sandbox.Shown(u.Worker), sandbox.Shown(u.Model), u.Turns, u.Tokens, u.Cost, u.Unpriced}
		a.Use = append(a.Use, use)
		a.Total.add(use)
	}
	return a, err
}
