package cli

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// paths converts between the names of a sandbox and paths that the user types.
type paths struct {
	mounts []mountedDir
	dir    string // the current directory, or the one of -C
}

// newPaths returns the paths of a program for a command that runs in dir.
func newPaths(p *program.Program, dir string) *paths {
	all := &paths{dir: dir}
	for _, m := range p.Project.Mounts {
		all.mounts = append(all.mounts, mountedDir{m.RealHostDir(), m.Target})
	}
	return all
}

// pathsIn returns the paths of mounts for a command that runs in dir.
func pathsIn(mounts []session.Mount, dir string) *paths {
	all := &paths{dir: dir}
	for _, m := range mounts {
		all.mounts = append(all.mounts, mountedDir{m.Source, m.Target})
	}
	return all
}

// A mountedDir is a directory of the host and its name in the sandbox.
type mountedDir struct{ source, target string }

// nameIn returns the sandbox name of a host file, by the nearest mount above it.
func nameIn(mounts []mountedDir, host string) (name string, ok bool) {
	longest := -1
	for _, m := range mounts {
		if below, err := filepath.Rel(m.source, host); err == nil && filepath.IsLocal(below) && len(m.source) > longest {
			name, longest = path.Join(m.target, filepath.ToSlash(below)), len(m.source)
		}
	}
	return name, longest >= 0
}

// realPath resolves the symlinks in a path except in its last part. Parts that do not
// exist stay unchanged.
func realPath(file string) string {
	dir, base := filepath.Split(filepath.Clean(file))
	if dir == "" || dir == file {
		return file
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(real, base)
	}
	return filepath.Join(realPath(filepath.Clean(dir)), base)
}

// pathOf returns a path by which the user can name a sandbox file. It is relative to the
// current directory, or absolute if the file is elsewhere.
func (p *paths) pathOf(name string) string {
	host, ok := p.hostOf(name)
	if !ok {
		return name
	}
	at, _ := p.mountOf(name)
	below, err := filepath.Rel(p.dir, host)
	if up := strings.Count(below, ".."+string(filepath.Separator)); err != nil || up > 0 && !inbox.IsBelow(at.source, p.dir) {
		return host
	}
	return filepath.ToSlash(below)
}

// hostOf returns the path of a sandbox file on the host. ok is false if no mount has it.
func (p *paths) hostOf(name string) (host string, ok bool) {
	at, ok := p.mountOf(name)
	return filepath.Join(at.source, filepath.FromSlash(strings.TrimPrefix(name, at.target))), ok
}

// mountOf returns the mount with a sandbox file.
func (p *paths) mountOf(name string) (at mountedDir, ok bool) {
	longest := -1
	for _, m := range p.mounts {
		if (m.target == "/" || name == m.target || strings.HasPrefix(name, m.target+"/")) && len(m.target) > longest {
			at, longest = m, len(m.target)
		}
	}
	return at, longest >= 0
}

// shown returns pathOf in a form that is safe for a terminal.
func (p *paths) shown(name string) string { return visible.Name(p.pathOf(name)) }

// localRequest returns a request of the user with paths in place of the sandbox's names.
// Requests of workers keep the names, which are those in the worker's rules.
func (p *paths) localRequest(r tool.Request) tool.Request {
	if p == nil || r.Origin != policy.User {
		return r
	}
	r.Changes = p.localChanges(r.Changes)
	r.Effects, r.ToApprove = p.localEffects(r.Effects), p.localEffects(r.ToApprove)
	return r
}

// localResult returns the result of a call of the user with paths in place of the
// sandbox's names.
func (p *paths) localResult(r tool.Result) tool.Result {
	if p == nil {
		return r
	}
	if r.Err != nil && r.Err.Path != "" {
		local := *r.Err
		local.Path = p.localName(r.Err.Path)
		r.Err = &local
	}
	r.Changes = p.localChanges(r.Changes)
	if r.Done != nil && len(r.Changes) > 0 {
		done := *r.Done
		done.First = r.Changes[:min(len(r.Changes), len(done.First))] // in the order of the question
		r.Done = &done
	}
	return r
}

// localName returns the path for a name. Other texts, such as that of a commit, stay.
func (p *paths) localName(name string) string {
	if !strings.HasPrefix(name, "/") || name == "/" {
		return name
	}
	return p.pathOf(name)
}

func (p *paths) localChanges(list []tool.Change) []tool.Change {
	list = slices.Clone(list)
	for i, c := range list {
		list[i].Path, list[i].To = p.localName(c.Path), p.localName(c.To)
		list[i].Flags, list[i].Tree = slices.Clone(c.Flags), slices.Clone(c.Tree)
		for k := range list[i].Tree {
			list[i].Tree[k] = p.localName(c.Tree[k])
		}
		for k := range list[i].Flags {
			list[i].Flags[k].Path = p.localName(c.Flags[k].Path)
		}
	}
	return list
}

func (p *paths) localEffects(list []policy.Effect) []policy.Effect {
	list = slices.Clone(list)
	for i, e := range list {
		if e.Verb == policy.Read || e.Verb == policy.Write || e.Verb == policy.Delete {
			list[i].Target = p.localName(e.Target)
		}
	}
	return list
}

// meant suggests the sandbox name of a file that the user named by its host path, or
// returns "". Names begin at the top of the program, no matter where golem starts. Only
// the user may see this text.
func meant(p *program.Program, args json.RawMessage, wrong *sandbox.Error) string {
	var given struct {
		Path  string   `json:"path"`
		Paths []string `json:"paths"`
		Files []string `json:"files"`
	}
	if wrong == nil || wrong.Code != sandbox.ErrNotFound || json.Unmarshal(args, &given) != nil {
		return ""
	}
	for _, one := range slices.Concat(given.Paths, given.Files) {
		if path.Join("/", one) == wrong.Path {
			given.Path = one
		}
	}
	if given.Path == "" {
		return ""
	}
	return meantName(p, given.Path, wrong.Path)
}

// meantName does the same for one path that the user typed, and the sandbox name for which
// golem took it.
func meantName(p *program.Program, typed, taken string) string {
	file, err := filepath.Abs(typed)
	if err == nil {
		file, err = filepath.EvalSymlinks(file)
	}
	if err != nil {
		return "" // the file does not exist
	}
	name, ok := nameIn(newPaths(p, "").mounts, file)
	if !ok || name == taken {
		return ""
	}
	return "the file of that name here is " + sandbox.Shown(name) + ": names begin at the top of the program, wherever you are"
}
