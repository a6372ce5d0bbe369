package jail

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// MountsOf returns the folders that a sandbox shows, as commands see them: what
// is at / in the sandbox is at Work. Wherever the sandbox allows less or more
// than around it, in a folder of a mount or where one mount stands in another, a
// mount of its own says so, by both names where Work has it too; what is hidden
// is an empty folder.
//
// Commands are kept to folders that are there. A mount without a folder on the
// host, one in or over a folder that every command has, and a limit on a single
// file, or on a folder that a command could make, are errors.
func MountsOf(s *sandbox.Sandbox) ([]Mount, error) {
	v := view{s: s, mounts: s.Config().Mounts}
	if err := v.locate(); err != nil {
		return nil, err
	}
	for _, name := range s.Anchors() { // in order: a folder comes before what is in it
		if err := v.add(name); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(v.list, func(a, b spot) int { return strings.Compare(a.Target, b.Target) })
	var list []Mount
	for _, s := range v.list {
		list = append(list, s.Mount)
	}
	return list, nil
}

// Inside returns what commands call a canonical name of a sandbox.
func Inside(s *sandbox.Sandbox, name string) string {
	if (view{mounts: s.Config().Mounts}).holder(name).Target == "/" {
		return path.Join(Work, name)
	}
	return name
}

// Elsewhere returns where commands find a file that is there and that other tools call
// otherwise, with the name that these have for it.
func Elsewhere(s *sandbox.Sandbox, file string) (name, inside string, ok bool) {
	name, err := s.Canonical(file)
	if err != nil {
		return "", "", false
	}
	inside = Inside(s, name)
	there, err := s.Exists(name)
	return name, inside, err == nil && there && inside != name
}

// NameOf returns what a sandbox calls a path of the host, and whether it shows it.
func NameOf(files *sandbox.Sandbox, file string) (name string, ok bool) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", false
	}
	longest := -1
	for _, m := range files.Config().Mounts {
		host := string(m.Source)
		if m.Backend != nil {
			host = string(m.Backend.Traits().Host)
		}
		rel, err := filepath.Rel(host, real)
		if host == "" || err != nil || !filepath.IsLocal(rel) || len(host) <= longest {
			continue
		}
		at := filepath.ToSlash(filepath.Join(m.Target, rel))
		if files.CanRead(at) {
			name, longest = at, len(host)
		}
	}
	return name, longest >= 0
}

// Outside returns the canonical name for what commands call so.
func Outside(inside string) string {
	if rest, ok := strings.CutPrefix(inside, Work); ok && (rest == "" || rest[0] == '/') {
		return path.Join("/", rest)
	}
	return inside
}

// A view is a sandbox on its way to mounts.
type view struct {
	s      *sandbox.Sandbox
	mounts []sandbox.Mount
	places map[string]sandbox.Place // of mounts by their targets: the folders that file tools hold open
	list   []spot
}

// locate finds out where the folders of the mounts are now.
func (v *view) locate() error {
	v.places = make(map[string]sandbox.Place)
	for _, m := range v.mounts {
		at, ok := m.Backend.(sandbox.Placed)
		if !ok || m.Backend.Traits().Through != "" {
			v.places[m.Target] = sandbox.Place{Host: host(m)}
			continue
		}
		place, err := at.Place()
		var known *sandbox.Error
		if errors.As(err, &known) {
			return &sandbox.Error{Op: "mount", Path: m.Target, Code: known.Code, Hint: known.Hint}
		}
		if err != nil {
			return &sandbox.Error{Op: "mount", Path: m.Target, Code: sandbox.CodeOf(err), Hint: "commands cannot be shown the folder"}
		}
		v.places[m.Target] = place
	}
	return nil
}

// A spot is a mount of commands with what the sandbox has there.
type spot struct {
	Mount
	standing
}

// A standing is a place of the host and what is allowed there.
type standing struct {
	place  string
	access sandbox.Access
	top    sandbox.Place // that the place is in
}

// holder returns the mount that a name is in, the zero Mount if in none.
func (v view) holder(name string) (in sandbox.Mount) {
	for _, m := range v.mounts {
		if (m.Target == "/" || name == m.Target || strings.HasPrefix(name, m.Target+"/")) && len(m.Target) > len(in.Target) {
			in = m
		}
	}
	return in
}

// access is what is left at a name, of files that are not protected.
func (v view) access(name string) sandbox.Access {
	m, _ := v.s.MountOf(name)
	return m.Access
}

// add adds what holds at an anchor: by its own name, and by that in Work.
func (v *view) add(name string) error {
	in := v.holder(name)
	if in.Target == "" {
		return nil
	}
	at := v.places[in.Target]
	want := standing{path.Join(string(at.Host), strings.TrimPrefix(name, strings.TrimSuffix(in.Target, "/"))), v.access(name), at}
	top := in.Target == "/"
	switch {
	case want.access == sandbox.None:
	case !top && taken(name):
		return &sandbox.Error{Op: "mount", Path: in.Target, Code: sandbox.ErrInvalid,
			Hint: "commands have a folder of their own there; give the mount another target"}
	case at.Host == "":
		return &sandbox.Error{Op: "mount", Path: in.Target, Code: sandbox.ErrNotFound, Hint: "it is kept in memory, where no command reaches it"}
	}
	if !top && !taken(name) {
		if err := v.put(name, name, want, true); err != nil {
			return err
		}
	}
	return v.put(name, path.Join(Work, name), want, top)
}

// host returns the folder of a mount, as commands find it.
func host(m sandbox.Mount) sandbox.Host {
	if m.Backend == nil {
		return m.Source
	}
	t := m.Backend.Traits()
	if t.Through != "" {
		return t.Through
	}
	return t.Host
}

// kept returns the mount that shows a place through a layer, and what the place is
// called in it.
func (v *view) kept(place string) (m sandbox.Mount, rel string, ok bool) {
	for _, m := range v.mounts {
		if m.Backend == nil || m.Backend.Traits().Through == "" {
			continue
		}
		if rel, ok := strings.CutPrefix(place, string(host(m))); ok && (rel == "" || rel[0] == '/') {
			return m, path.Join(".", rel), true
		}
	}
	return m, "", false
}

// mode says what is at a place, without following a link to it.
func (v *view) mode(place string) (fs.FileMode, error) {
	if m, rel, ok := v.kept(place); ok {
		a, err := m.Backend.Lstat(rel)
		return a.Mode, err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// at returns the mount that holds a target so far, and what stands there by it.
func (v *view) at(target string) (in spot, now standing) {
	for _, s := range v.list {
		if (target == s.Target || strings.HasPrefix(target, s.Target+"/")) && len(s.Target) > len(in.Target) {
			in = s
		}
	}
	if in.access == sandbox.None {
		return in, standing{}
	}
	return in, standing{path.Join(in.place, strings.TrimPrefix(target, in.Target)), in.access, in.top}
}

// put makes what stands at a target what the sandbox has at a name. Where nothing
// is around it, it is shown only by the name that commands have for it.
func (v *view) put(name, target string, want standing, known bool) error {
	in, now := v.at(target)
	known = known && want.access > sandbox.None
	switch {
	case now.place == want.place && now.access == want.access:
		return nil
	case now.access == sandbox.None:
		if known {
			v.show(target, want)
		}
		return nil
	}
	own := now.place == want.place // it is this folder itself, and no other stands in it
	found, err := v.foundAt(in.place, strings.TrimPrefix(strings.TrimPrefix(target, in.Target), "/"), own)
	made := known && (!own || name == v.holder(name).Target)
	switch {
	case err != nil:
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.CodeOf(err), Hint: "commands cannot be kept to what is allowed there"}
	case found == isMissing && made && now.access == sandbox.ReadWrite:
		// Where it stands is made for it.
	case found == isMissing && !made && (now.access < sandbox.ReadWrite || !own):
		return nil // nothing is there, and what a command may make there is not it
	case found != isFolder:
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.ErrNotDir,
			Hint: "other rules hold there than around it, and commands can be kept to them only where it is a folder: make it one, or give both the same rules"}
	}
	v.show(target, want)
	return nil
}

// show adds a mount. A folder that is hidden, or is missing and may not be made, is
// empty.
func (v *view) show(target string, what standing) {
	m := Mount{Source: sandbox.Host(what.place), Target: target, Write: what.access == sandbox.ReadWrite, Top: what.top}
	if m.Top.Inode == 0 { // nobody holds it open
		m.Top = sandbox.Place{}
	}
	_, _, m.Kept = v.kept(what.place)
	if _, err := v.mode(what.place); what.access == sandbox.None || errors.Is(err, fs.ErrNotExist) && !m.Write {
		m.Source, m.Kept, m.Top = "", false, sandbox.Place{}
	}
	v.list = append(v.list, spot{m, what})
}

// What is found at a place.
const (
	isMissing = iota
	isFolder
	isOther
)

// foundAt says what is at a place below a folder. A link on the way is something
// else than a folder: a mount would follow it. One that stands for another folder in
// what a session keeps is golem's own, and leads there.
func (v *view) foundAt(folder, rel string, own bool) (int, error) {
	at := folder
	for part := range strings.SplitSeq(rel, "/") {
		at = path.Join(at, part)
		mode, err := v.mode(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return isMissing, nil
		case err != nil:
			return isOther, err
		case !mode.IsDir():
			if _, _, kept := v.kept(at); kept && !own && mode&fs.ModeSymlink != 0 && at == path.Join(folder, rel) {
				return isFolder, nil
			}
			return isOther, nil
		}
	}
	return isFolder, nil
}

// taken reports whether a target lies in, or over, a folder of the system.
func taken(target string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
	return slices.Contains([]string{"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var", "work"}, top)
}
