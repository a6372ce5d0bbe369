package program

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/toolset/export"
	gittools "github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/internal/work/toolset/web"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// gitTools returns the git tools of a worker for a gate, and what is closed after use.
func (d *OpenWorker) gitTools(step *calltree.Step, g tool.Gate, tracker *taint.Tracker) (s gittools.Set, running []io.Closer) {
	var w *worker.Worker
	if step != nil {
		w = step.Worker
	}
	s = d.program.Targets().GitTools(w)
	c := d.program.NewRepositories(d.records, w)
	requests := d.networks.OwnRequests("git_push", "an approved push", g.Workers)
	c.Web = requests
	if d.work.HasOverlays() {
		c.Session = d.work.Session.ID
	}
	s.Commits = c.Open
	s.Untrusted = func(dir string) bool { return tracker.UntrustedMount(dir, false) != "" }
	s.Scanners = c.Scanners
	s.Request = func(ctx context.Context) (clearance.Request, error) {
		author, committer, err := c.Persons(ctx)
		if err != nil {
			return clearance.Request{}, err
		}
		r := clearance.Request{Time: d.program.options.Now(), Workers: g.Workers, Intake: tracker.Bytes(), Untrusted: documentsRead(g.Files, tracker), Author: author, Commit: committer}
		if d.Session != nil {
			r.Session = d.Session.ID
		}
		r.Passed = taint.NewInputFinder(ctx, g.Files, tracker, inputMounts(d.program.Project.Mounts)).Find
		return r, nil
	}
	return s, []io.Closer{requests, c}
}

// documentsRead returns the untrusted content that a worker has read: the documents of golem
// intake, or the first mount if it has read no such document.
func documentsRead(files *sandbox.Sandbox, tracker *taint.Tracker) string {
	var list []string
	for _, name := range tracker.FilesRead() {
		dir := path.Dir(name)
		if slices.Contains(list, dir) || tracker.UntrustedMount(dir, false) == "" {
			continue
		}
		if there, err := files.Exists(path.Join(dir, web.OriginName)); err == nil && there {
			list = append(list, dir)
		}
	}
	return cmp.Or(strings.Join(list, ", "), tracker.Source())
}

// publisher returns what opens pull requests for the worker's session, and what is closed after
// use.
func (d *OpenWorker) publisher(step *calltree.Step, g tool.Gate) (p settle.Publisher, running []io.Closer) {
	var w *worker.Worker
	if step != nil {
		w = step.Worker
	}
	c := d.program.NewRepositories(d.records, w)
	requests := d.networks.OwnRequests("pr", "an approved pull request", g.Workers)
	p.Committer = d.work.Committer(d.program.openGit)
	p.Scanners = c.Scanners
	p.GitHub = func(ctx context.Context, server, repo string) (*clearance.GitHub, error) {
		store, err := d.program.openGit(ctx)
		if err != nil {
			return nil, err
		}
		t := clearance.Target{URL: server, Repo: repo, Web: requests}
		if place, denied := d.program.Project.Ceiling.DeniedURL(server); denied {
			t.Off = place.String()
		}
		env := c.Env // the user named the server with --repo, unless it is github.com
		_, host, _ := strings.Cut(server, "://")
		env.Variables = append(slices.Clone(env.Variables), "GH_HOST="+host)
		return clearance.OpenGitHub(store, t, env.Credentials(w))
	}
	p.Persons = c.Persons
	return p, []io.Closer{requests, c}
}

// intake returns what brings documents in, and what is closed after use.
func (d *OpenWorker) intake(step *calltree.Step, g tool.Gate) (web.Intake, io.Closer) {
	var w *worker.Worker
	if step != nil {
		w = step.Worker
	}
	c := d.program.NewRepositories(d.records, w)
	l := g.Grant.Limits
	p := d.program.Project.Jail()
	p.Limits = jail.Limits{Time: l.Time, CPU: l.CPU, Memory: l.Memory, Processes: l.Pids, FileSize: l.FileSize}
	machine, _ := os.Hostname()
	return web.Intake{Project: d.program.Project, Scanners: c.Scanners, Now: d.program.options.Now,
		Jail: p, Owner: machine + "\n" + string(d.program.Storage.Dir()),
		Lock: func(ctx context.Context) (func() error, error) {
			return d.records.Folder.Lock(ctx, "intake", d.records.Process)
		},
	}, c
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

// patience is the timeout of a request to an endpoint.
const patience = time.Minute

// exportTools returns the tools that hand on results without git. Requests send those of
// api_send.
func (d *OpenWorker) exportTools(scanners func() (*scan.Set, error), requests http.RoundTripper) export.Set {
	p := d.program
	locate := func(to string) (sandbox.Host, error) { return export.FindDir(p.options.Home, to) }
	if p.options.Job != nil { // the home is that of the machine's user
		locate = func(string) (sandbox.Host, error) {
			return "", &sandbox.Error{Op: "export", Code: "blocked", Hint: "a job exports no files to the machine that does it; write them into a mount of the program"}
		}
	}
	s := export.Set{Locate: locate, Copy: d.clipboard, Scanners: scanners, Own: []sandbox.Host{sandbox.Host(p.Storage.Base)}}
	for _, m := range p.Project.Mounts {
		s.Own = append(s.Own, sandbox.Host(m.HostDir()))
	}
	s.Endpoints = export.EndpointsOf(p.Project, p.options.Environ)
	if len(s.Endpoints) > 0 {
		s.Client = &http.Client{
			Timeout:       patience,
			Transport:     requests,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return s
}
