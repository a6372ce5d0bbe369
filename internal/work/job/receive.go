package job

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// TakeProgram makes a snapshot of what a run of the program needs, so that another machine can
// begin it: its mounts, the content that the user trusts, and the files of its models and
// scanners. models are more models than the program names. skipped are the names that a run
// does not need.
func (s *Snapshotter) TakeProgram(ctx context.Context, models ...string) (made Snapshot, skipped []string, err error) {
	needed := neededPaths(s.program, models)
	s.files.Skip = func(name string) bool {
		if slices.ContainsFunc(needed, func(path string) bool { return path == "." || isWithin(path, name) || isWithin(name, path) }) {
			return false
		}
		skipped = append(skipped, name)
		return true
	}
	if made.Program, err = s.files.Read(ctx, string(s.program.Root())); err != nil {
		return made, skipped, fmt.Errorf("the program: %w", err)
	}
	return made, skipped, nil
}

// isWithin reports whether a path with slashes is a directory or below it.
func isWithin(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// neededPaths returns the files and directories in the program's directory that a run reads.
func neededPaths(p *program.Program, models []string) (list []string) {
	root := realPath(string(p.Root()))
	add := func(file string) { // with what it leads to, if it is a symlink
		if !filepath.IsAbs(file) {
			file = filepath.Join(string(p.Root()), file)
		}
		for _, pair := range [][2]string{{string(p.Root()), file}, {root, realPath(file)}} {
			if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
				list = append(list, filepath.ToSlash(rel))
			}
		}
	}
	for _, m := range p.Project.Mounts {
		add(m.RealHostDir())
	}
	for name := range p.Content.Files {
		add(name)
	}
	for _, name := range p.Instructions().Names() {
		add(name)
	}
	for _, file := range append(slices.Clone(p.Project.Engines.Yara), p.Project.Engines.Clamd) {
		if file != "" {
			add(string(file))
		}
	}
	models = append(append(slices.Clone(models), p.Project.Model, p.Project.SummaryModel), p.Project.Fallbacks...)
	for _, w := range p.Workers {
		models = append(models, w.Model.Text)
	}
	for _, name := range models {
		if kind, file, ok := strings.Cut(name, ":"); ok && (kind == "scripted" || kind == "replay") && file != "" {
			add(file)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A Result is what a job has made.
type Result struct {
	Source string   // what the user calls the job
	Begin  Snapshot // what it began with
	End    Snapshot
}

// Receive adds the session of a job to the program, for review, with its changes in mounts
// without an overlay. get returns a content by its hash. dropped are the files that changed
// outside all mounts to which the job may write: the machine that did it must have changed them.
func Receive(ctx context.Context, p *program.Program, r Result, get func(ctx context.Context, hash string) (io.ReadCloser, error)) (id string, dropped []string, err error) {
	if err := r.End.check(); err != nil {
		return "", nil, err
	}
	id, tree := onlySession(r.End.State)
	if id == "" {
		return "", nil, &sandbox.Error{Op: "job", Code: sandbox.ErrNotFound, Hint: "it has made no session; golem jobs show says how it ended"}
	}
	hashing, err := NewSnapshotter(p, nil, nil)
	if err != nil {
		return "", nil, err
	}
	now, _, err := hashing.TakeProgram(ctx)
	if err != nil {
		return "", nil, err
	}
	records, err := p.Storage.OpenRecords() // it makes the state directory
	if err != nil {
		return "", nil, err
	}
	if err := records.Close(); err != nil {
		return "", nil, err
	}
	began, here := byName(r.Begin.Program), byName(now.Program)
	isSame := func(target, name string) bool {
		for _, m := range p.Project.Mounts {
			rel, err := filepath.Rel(realPath(string(p.Root())), m.RealHostDir())
			if m.Target != target || err != nil {
				continue
			}
			at := path.Join(filepath.ToSlash(rel), name)
			a, b := began[at], here[at]
			return a.Kind == b.Kind && (a.Kind == parcel.Dir || a.Hash == b.Hash && a.Target == b.Target)
		}
		return false
	}
	direct, dropped := directChanges(p, r)
	err = session.Receive(p.Storage.Sessions, id, r.Source, tree, direct, func(dir string, t parcel.Tree) error { return parcel.Write(ctx, dir, t, parcel.Limits{}, get) }, isSame)
	return id, dropped, err
}

// directChanges returns the changes of a job in the directory of its program: those in mounts
// with mode: rw by their targets, as an overlay keeps them, and the names of all others.
func directChanges(p *program.Program, r Result) (direct map[string]parcel.Tree, dropped []string) {
	began, ended := byName(r.Begin.Program), byName(r.End.Program)
	made, tops := make(map[string]map[string]parcel.Entry), make(gone)
	for _, name := range changed(r.Begin.Program, r.End.Program) {
		target, dir, ok := writableMount(p, name)
		if !ok {
			dropped = append(dropped, name)
			continue
		}
		if made[target] == nil {
			made[target] = make(map[string]parcel.Entry)
		}
		in := func(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, dir), "/") }
		e, exists := ended[name]
		e = parcel.Entry{Name: in(name), Kind: e.Kind, Mode: e.Mode, Size: e.Size, Hash: e.Hash, Target: e.Target, Modified: e.Modified} // without attributes
		if !exists || e.Kind == parcel.Gone {
			e = parcel.Entry{Kind: parcel.Gone}
			name = tops.of(name, dir, ended) // only the mark of the directory that is gone
			above, exists := ended[path.Dir(name)]
			if _, existed := began[name]; !existed || exists && above.Kind != parcel.Dir {
				continue
			}
			e.Name = in(name)
		}
		made[target][e.Name] = e
		for up := path.Dir(name); up != "." && up != dir && len(up) > len(dir); up = path.Dir(up) {
			if made[target][in(up)].Kind == parcel.Dir {
				break // those above it are there, too
			}
			above := ended[up]
			made[target][in(up)] = parcel.Entry{Name: in(up), Kind: parcel.Dir, Mode: above.Mode, Modified: above.Modified}
		}
	}
	direct = make(map[string]parcel.Tree)
	for target, all := range made {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			direct[target] = append(direct[target], all[name])
		}
	}
	return direct, dropped
}

// gone has the highest directory that is gone for names whose directory is gone.
type gone map[string]string

// of returns the highest name at or above a name, below dir, that is gone.
func (g gone) of(name, dir string, ended map[string]parcel.Entry) string {
	top := name
	var passed []string
	for up := path.Dir(top); up != dir && up != "."; up = path.Dir(top) {
		if _, exists := ended[up]; exists {
			break
		}
		passed = append(passed, up)
		if known, ok := g[up]; ok {
			top = known
			break
		}
		top = up
	}
	for _, up := range passed {
		g[up] = top
	}
	return top
}

// writableMount returns the mount that a file of the program belongs to, with its directory in
// the program, if workers may write to it without an overlay.
func writableMount(p *program.Program, name string) (target, dir string, ok bool) {
	longest := -1
	for _, m := range p.Project.Mounts {
		rel, err := filepath.Rel(realPath(string(p.Root())), m.RealHostDir())
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		rel = strings.TrimSuffix(filepath.ToSlash(rel)+"/", "./")
		if strings.HasPrefix(name, rel) && len(rel) > longest {
			longest, target, dir, ok = len(rel), m.Target, strings.TrimSuffix(rel, "/"), m.Mode == sandbox.ReadWrite.String()
		}
	}
	return target, dir, ok
}

// onlySession returns the id of the only session in the state of a job, and its directory.
func onlySession(state parcel.Tree) (id string, tree parcel.Tree) {
	for _, e := range state {
		parts := strings.SplitN(e.Name, "/", 3)
		if parts[0] != "sessions" || len(parts) < 3 {
			continue
		}
		if id == "" {
			id = parts[1]
		}
		if parts[1] == id {
			e.Name = parts[2]
			tree = append(tree, e)
		}
	}
	if strings.ContainsFunc(id, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return "", nil
	}
	return id, tree
}

func byName(t parcel.Tree) map[string]parcel.Entry {
	all := make(map[string]parcel.Entry, len(t))
	for _, e := range t {
		all[e.Name] = e
	}
	return all
}

// changed returns the names of files that differ between two trees.
func changed(before, after parcel.Tree) (names []string) {
	old, now := byName(before), byName(after)
	for name, e := range now {
		if was := old[name]; e.Kind != parcel.Dir && (was.Kind != e.Kind || was.Hash != e.Hash || was.Target != e.Target || was.Mode != e.Mode) {
			names = append(names, name)
		}
	}
	for name, e := range old {
		if _, ok := now[name]; !ok && e.Kind != parcel.Dir {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CountChanges returns how many files a job has changed, in the overlays of its session and in
// mounts without an overlay.
func (r Result) CountChanges() (n int) {
	n = len(changed(r.Begin.Program, r.End.Program))
	_, tree := onlySession(r.End.State)
	for _, e := range tree {
		if parts := strings.SplitN(e.Name, "/", 3); len(parts) == 3 && parts[1] == "upper" && e.Kind != parcel.Dir {
			n++
		}
	}
	return n
}
