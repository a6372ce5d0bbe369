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

// MountsOf returns the directories that a sandbox shows, as commands see them. The
// directory at / in the sandbox is at Work. If the sandbox allows less or more in a
// directory than around it, or if one mount is inside another, the directory becomes a
// mount of its own. It has both names if it is in Work too. A hidden directory becomes an
// empty one.
//
// MountsOf can only restrict directories that exist. It returns an error for a mount
// without a directory on the host, and for a mount in or over a directory that every
// command has. It also returns one if other rules hold for a single file, or for a
// directory that a command could create.
func MountsOf(s *sandbox.Sandbox) ([]Mount, error) {
	v := view{s: s, mounts: s.Config().Mounts}
	if err := v.locate(); err != nil {
		return nil, err
	}
	for _, name := range s.Anchors() { // sorted: a directory comes before its content
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

// Inside returns the name that commands have for a canonical name of a sandbox.
func Inside(s *sandbox.Sandbox, name string) string {
	if (view{mounts: s.Config().Mounts}).holder(name).Target == "/" {
		return path.Join(Work, name)
	}
	return name
}

// Elsewhere returns the canonical name of a file and the name that commands have for it.
// ok is true if the file exists and the names differ.
func Elsewhere(s *sandbox.Sandbox, file string) (name, inside string, ok bool) {
	name, err := s.Canonical(file)
	if err != nil {
		return "", "", false
	}
	inside = Inside(s, name)
	there, err := s.Exists(name)
	return name, inside, err == nil && there && inside != name
}

// NameOf returns the name that a sandbox has for a path of the host. ok is false if the
// sandbox does not show it.
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

// Outside returns the canonical name for a name that commands use.
func Outside(inside string) string {
	if rest, ok := strings.CutPrefix(inside, Work); ok && (rest == "" || rest[0] == '/') {
		return path.Join("/", rest)
	}
	return inside
}

// A view collects the mounts for a sandbox.
type view struct {
	s      *sandbox.Sandbox
	mounts []sandbox.Mount
	places map[string]sandbox.Place // by target of the mount: the directories that file tools hold open
	list   []spot
}

// locate finds out where the directories of the mounts are now.
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
			return &sandbox.Error{Op: "mount", Path: m.Target, Code: sandbox.CodeOf(err), Hint: "golem cannot show commands the directory"}
		}
		v.places[m.Target] = place
	}
	return nil
}

// A spot is a mount of commands and what the sandbox has there.
type spot struct {
	Mount
	standing
}

// A standing is a path of the host and the access that is allowed there.
type standing struct {
	place  string
	access sandbox.Access
	top    sandbox.Place // the directory that place is in
}

// holder returns the mount that contains a name, or the zero Mount.
func (v view) holder(name string) (in sandbox.Mount) {
	for _, m := range v.mounts {
		if (m.Target == "/" || name == m.Target || strings.HasPrefix(name, m.Target+"/")) && len(m.Target) > len(in.Target) {
			in = m
		}
	}
	return in
}

// access returns the access at a name for files that are not protected.
func (v view) access(name string) sandbox.Access {
	m, _ := v.s.MountOf(name)
	return m.Access
}

// add adds mounts for an anchor: one for its own name, and one for its name in Work.
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
	case !top && isReserved(name):
		return &sandbox.Error{Op: "mount", Path: in.Target, Code: sandbox.ErrInvalid,
			Hint: "commands have their own directory there; give the mount another target"}
	case at.Host == "":
		return &sandbox.Error{Op: "mount", Path: in.Target, Code: sandbox.ErrNotFound, Hint: "it is kept in memory, where no command reaches it"}
	}
	if !top && !isReserved(name) {
		if err := v.put(name, name, want, true); err != nil {
			return err
		}
	}
	return v.put(name, path.Join(Work, name), want, top)
}

// host returns the directory of a mount for commands.
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

// kept returns the mount that shows a place through an overlay, and the path of the place
// in that mount.
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

// mode returns the mode of a place. It does not follow a symlink.
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

// at returns the mount that contains a target so far, and what that mount has there.
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

// put adds a mount at a target if the mounts so far do not show there what the sandbox
// has at a name. known says that commands use this target for the name. If no mount shows
// the target so far, put adds one only if known is true.
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
	own := now.place == want.place // the target is this directory itself, not another one mounted in it
	found, err := v.foundAt(in.place, strings.TrimPrefix(strings.TrimPrefix(target, in.Target), "/"), own)
	made := known && (!own || name == v.holder(name).Target)
	switch {
	case err != nil:
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.CodeOf(err), Hint: "golem cannot limit commands to the files that are allowed there"}
	case found == isMissing && made && now.access == sandbox.ReadWrite:
		// The cell makes the directory for the mount.
	case found == isMissing && !made && (now.access < sandbox.ReadWrite || !own):
		return nil // nothing is there, and what a command may create there is not in this mount
	case found != isDirectory:
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.ErrNotDir,
			Hint: "it has other rules than the directory around it, which golem can enforce for commands only if it is a directory: make it one, or give both the same rules"}
	}
	v.show(target, want)
	return nil
}

// show adds a mount. It is an empty directory if access is denied, or if the directory is
// missing and commands may not create it.
func (v *view) show(target string, what standing) {
	m := Mount{Source: sandbox.Host(what.place), Target: target, Write: what.access == sandbox.ReadWrite, Top: what.top}
	if m.Top.Inode == 0 { // file tools do not hold it open
		m.Top = sandbox.Place{}
	}
	_, _, m.Kept = v.kept(what.place)
	if _, err := v.mode(what.place); what.access == sandbox.None || errors.Is(err, fs.ErrNotExist) && !m.Write {
		m.Source, m.Kept, m.Top = "", false, sandbox.Place{}
	}
	v.list = append(v.list, spot{m, what})
}

// The results of foundAt.
const (
	isMissing = iota
	isDirectory
	isOther
)

// foundAt returns whether a path below a directory is missing, a directory, or something
// else. A symlink on the way is not a directory, because a mount would follow it. The
// exception is a symlink in an overlay of the session that stands for another directory,
// because golem made it.
func (v *view) foundAt(base, rel string, own bool) (int, error) {
	at := base
	for part := range strings.SplitSeq(rel, "/") {
		at = path.Join(at, part)
		mode, err := v.mode(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return isMissing, nil
		case err != nil:
			return isOther, err
		case !mode.IsDir():
			if _, _, kept := v.kept(at); kept && !own && mode&fs.ModeSymlink != 0 && at == path.Join(base, rel) {
				return isDirectory, nil
			}
			return isOther, nil
		}
	}
	return isDirectory, nil
}

// isReserved reports whether a target is in, or over, a directory of the system.
func isReserved(target string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
	return slices.Contains([]string{"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var", "work"}, top)
}
