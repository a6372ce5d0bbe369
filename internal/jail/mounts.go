package jail

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// MountsOf returns the folders that a sandbox shows, as commands see them: what
// is at / in the sandbox is at Work. Wherever the sandbox allows less or more
// than around it, in a folder of a mount or where one mount stands in another, a
// mount of its own says so; what is hidden is an empty folder.
//
// Commands are kept to folders that are there. A mount without a folder on the
// host, one in or over a folder that every command has, and a limit on a single
// file, or on a folder that a command could make, are errors.
func MountsOf(s *sandbox.Sandbox) ([]Mount, error) {
	v := view{s: s, mounts: s.Config().Mounts}
	for _, name := range s.Anchors() {
		if err := v.add(name); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(v.list, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	return v.list, nil
}

// Inside returns what commands call a canonical name of a sandbox.
func Inside(s *sandbox.Sandbox, name string) string {
	if (view{mounts: s.Config().Mounts}).holder(name).Target == "/" {
		return path.Join(Work, name)
	}
	return name
}

// A view is a sandbox on its way to mounts.
type view struct {
	s      *sandbox.Sandbox
	mounts []sandbox.Mount
	list   []Mount
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

// add adds what holds at an anchor.
func (v *view) add(name string) error {
	in := v.holder(name)
	if in.Target == "" {
		return nil
	}
	if name != in.Target {
		own := sandbox.Host(path.Join(string(host(in)), strings.TrimPrefix(name, in.Target)))
		return v.part(name, in, own)
	}
	access, source := v.access(name), host(in)
	switch {
	case access == sandbox.None:
	case name != "/" && taken(name):
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.ErrInvalid,
			Hint: "commands have a folder of their own there; give the mount another target"}
	case source == "":
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.ErrNotFound, Hint: "it is kept in memory, where no command reaches it"}
	}
	if name == "/" {
		v.show(Work, source, access)
		return nil
	}
	outer := v.holder(path.Dir(name))
	if outer.Target == "/" || outer.Target == "" {
		v.show(name, source, access)
	}
	if outer.Target == "" {
		return nil
	}
	return v.part(name, outer, source)
}

// host returns the folder of a mount.
func host(m sandbox.Mount) sandbox.Host {
	if m.Backend != nil {
		return m.Backend.Traits().Host
	}
	return m.Source
}

// show adds a mount. A folder that is missing and may not be made is empty.
func (v *view) show(target string, source sandbox.Host, access sandbox.Access) {
	if access == sandbox.None {
		return
	}
	if _, err := os.Lstat(string(source)); errors.Is(err, fs.ErrNotExist) && access < sandbox.ReadWrite {
		source = ""
	}
	v.list = append(v.list, Mount{source, target, access == sandbox.ReadWrite})
}

// part adds what holds at a name in the folder of a mount, where the source is
// what stands there.
func (v *view) part(name string, in sandbox.Mount, source sandbox.Host) error {
	rel := strings.TrimPrefix(strings.TrimPrefix(name, in.Target), "/")
	place := path.Join(string(host(in)), rel)
	target := name
	if in.Target == "/" {
		target = path.Join(Work, name)
	}
	access, around := v.access(name), v.access(path.Dir(name))
	own := string(source) == place // it is this folder itself, and no other stands in it
	switch {
	case around == sandbox.None && (own || in.Target != "/"):
		v.show(target, source, access)
		return nil
	case around == sandbox.None, own && access == around:
		return nil
	}
	found, err := foundAt(string(host(in)), rel)
	nested := in.Target != "/" && name == v.holder(name).Target // a mount that is seen here and nowhere else
	switch {
	case err != nil:
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.CodeOf(err), Hint: "commands cannot be kept to what is allowed there"}
	case found == isMissing && nested && access > sandbox.None && around == sandbox.ReadWrite:
		// Where it stands is made for it.
	case found == isMissing && !(nested && access > sandbox.None) && (around < sandbox.ReadWrite || !own):
		return nil // nothing is there, and what a command may make there is not it
	case found != isFolder:
		return &sandbox.Error{Op: "mount", Path: name, Code: sandbox.ErrNotDir,
			Hint: "other rules hold there than around it, and commands can be kept to them only where it is a folder: make it one, or give both the same rules"}
	}
	if access == sandbox.None {
		v.list = append(v.list, Mount{Target: target})
		return nil
	}
	v.show(target, source, access)
	return nil
}

// What is found at a place.
const (
	isMissing = iota
	isFolder
	isOther
)

// foundAt says what is at a place below a folder. A link on the way is something
// else than a folder: a mount would follow it.
func foundAt(folder, rel string) (int, error) {
	at := folder
	for part := range strings.SplitSeq(rel, "/") {
		at = path.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return isMissing, nil
		case err != nil:
			return isOther, err
		case !info.IsDir():
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
