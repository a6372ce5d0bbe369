package program

import (
	"context"
	"io"
	"slices"

	"github.com/golem-forge/golem/internal/calltree"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/scanners"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/records"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/internal/target"
	"github.com/golem-forge/golem/internal/tool"
	gittools "github.com/golem-forge/golem/internal/toolset/git"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Targets returns the repositories that the user pushes results to.
func (p *Program) Targets() target.Targets {
	return target.Targets{Project: p.Project, Workers: p.Workers, Entry: p.Entry, Root: p.root, Home: p.options.Home}
}

// hostEnv returns the user's environment. The program's directory and all state count as
// writable: they hold files of strangers, and overlays of sessions.
func (p *Program) hostEnv() target.Env {
	e := target.Env{Variables: p.options.Environ, Writable: []string{p.root, p.Storage.Base}, OnlyNamed: p.options.Job != nil}
	for _, m := range p.Project.Mounts {
		if m.Mode != sandbox.ReadOnly.String() || m.Untrusted {
			e.Writable = append(e.Writable, m.HostDir())
		}
	}
	return e
}

// OpenScanners returns the scanners of results. They are closed after use. If a state
// directory is given, they cache verdicts there.
func (p *Program) OpenScanners(folder *state.Dir) (*scanners.Set, error) {
	return scanners.Open(scannerOptions(p, folder))
}

func scannerOptions(p *Program, folder *state.Dir) scanners.Options {
	return scanners.Options{Project: p.Project, Budget: p.scanBudget(), Cache: folder, Now: p.options.Now}
}

// HeldBack lets the scanners look at a staged commit, and returns the names of those that
// hold it back, and how many files. The journal has no record of it, because nobody sees more.
func HeldBack(ctx context.Context, p *Program, id string) (by []string, files int, err error) {
	if err := p.CheckTrust(); err != nil {
		return nil, 0, err
	}
	r, err := p.Storage.OpenRecords()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	staged, err := r.StagedCommit(id)
	if err != nil {
		return nil, 0, err
	}
	d := newDesk(p, r, nil)
	defer d.Close()
	desk, err := d.Open(ctx)
	if err != nil {
		return nil, 0, err
	}
	scanners, err := d.Scanners()
	if err != nil {
		return nil, 0, err
	}
	look, err := desk.Look(ctx, staged, 0, scanners)
	if err != nil {
		return nil, 0, err
	}
	findings := look.Message
	for _, v := range look.Held() {
		files++
		findings = slices.Concat(findings, v.Findings)
	}
	for _, f := range findings {
		if f.Hold && !slices.Contains(by, f.Scanner) {
			by = append(by, f.Scanner)
		}
	}
	slices.Sort(by)
	return by, files, ctx.Err()
}

// newDesk returns the clearance desk of a program for a worker, nil for none.
func newDesk(p *Program, r *records.Records, w *worker.Worker) *target.Desk {
	return &target.Desk{Targets: p.Targets(), Env: p.hostEnv(), State: p.Storage.Sessions.State, Folder: r.Folder, Worker: w, Scan: scannerOptions(p, r.Folder)}
}

// gitTools returns the git tools of a worker for a gate, and what is closed after use.
func (d *Gate) gitTools(step *calltree.Step, g tool.Gate, tracker *taint.Tracker) (s gittools.Set, running []io.Closer) {
	var w *worker.Worker
	if step != nil {
		w = step.Worker
	}
	s = d.program.Targets().GitTools(w)
	c := newDesk(d.program, d.records, w)
	requests := d.networks.OwnRequests("git_push", "an approved push", g.Workers)
	c.Web = requests
	if d.work.HasOverlays() {
		c.Session = d.work.Session.ID
	}
	s.Desk = c.Open
	s.Untrusted = func(dir string) bool { return tracker.UntrustedMount(dir, false) != "" }
	s.Scanners = c.Scanners
	s.Request = func(ctx context.Context) (clearance.Request, error) {
		author, committer, err := c.Persons(ctx)
		if err != nil {
			return clearance.Request{}, err
		}
		r := clearance.Request{Time: d.program.options.Now(), Workers: g.Workers, Intake: tracker.Bytes(), Untrusted: tracker.Source(), Author: author, Commit: committer}
		if d.Session != nil {
			r.Session = d.Session.ID
		}
		r.Passed = taint.NewInputFinder(ctx, g.Files, tracker, inputMounts(d.program.Project.Mounts)).Find
		return r, nil
	}
	return s, []io.Closer{requests, c}
}

// inputMounts returns the mounts that are read-only or untrusted.
func inputMounts(mounts []project.Mount) []string {
	var list []string
	for _, m := range mounts {
		if m.Mode == "ro" || m.Untrusted {
			list = append(list, m.Target)
		}
	}
	return list
}

// Balance is how much a run has read, and how much it has staged.
type Balance struct {
	Read, Staged int64 // bytes
	Commits      int
}

// Balance returns the balance of the session so far.
func (r *Run) Balance() Balance {
	var b Balance
	if r.Entry != nil {
		b.Read = r.Entry.Exposure.Bytes()
	}
	p := r.Gate.program
	if !target.HasGit(p.Storage.Sessions.State) {
		return b // nothing was ever staged
	}
	desk, err := newDesk(p, r.Gate.records, nil).Open(context.Background())
	if err != nil {
		return b
	}
	list, _ := desk.List()
	for _, c := range list {
		if c.Session == r.ID {
			b.Commits++
			b.Staged += c.Bytes()
		}
	}
	return b
}
