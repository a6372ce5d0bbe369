package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// An attempt is one operation of a sandbox on one name. The operation writes its results
// to out, and other defects than an error to fault.
type attempt struct {
	w     *world
	s     *sandbox.Sandbox
	name  string
	mine  string // a file that may be read, written, moved and copied
	out   strings.Builder
	fault error
}

func (a *attempt) say(results ...any) {
	for _, r := range results {
		if b, ok := r.([]byte); ok {
			r = string(b)
		}
		fmt.Fprintf(&a.out, "%v\n", r)
	}
}

func (a *attempt) wrong(format string, args ...any) {
	if a.fault == nil {
		a.fault = fmt.Errorf(format, args...)
	}
}

// free returns an unused name next to mine, with the same suffix.
func (a *attempt) free() string {
	return path.Join(path.Dir(a.mine), "free"+path.Ext(a.mine))
}

// fsName returns the name in the form of io/fs, even if it is invalid there.
func (a *attempt) fsName() string {
	if a.name == "/" {
		return "."
	}
	return strings.TrimPrefix(a.name, "/")
}

// planted is the content that attacks write.
const planted = "PLANTED"

// holds reports a fault unless name has the content now.
func (a *attempt) holds(name, content string) {
	if data, err := a.s.Read(name); err != nil || string(data) != content {
		a.wrong("it returned no error, but a read of %q then says %q, %v", name, data, err)
	}
}

// gone reports a fault if name exists.
func (a *attempt) gone(name string) {
	if found, err := a.s.Exists(name); found || err != nil {
		a.wrong("it returned no error, but %q exists: %v, %v", name, found, err)
	}
}

// An operation is a method of Sandbox, or a use of it as an fs.FS.
type operation struct {
	name  string
	group string // "file", "directory", "meta", "put", "take" or ""
	ofFS  bool
	run   func(a *attempt) error
}

// operations returns all operations. Those that change little come first.
func operations() []operation {
	return slices.Concat(lookers, fsLookers, changers, takers)
}

var lookers = []operation{
	{name: "read", group: "file", run: func(a *attempt) error {
		data, err := a.s.Read(a.name)
		a.say(data)
		return err
	}},
	{name: "version", group: "file", run: func(a *attempt) error {
		data, v, err := a.s.ReadVersion(a.name)
		a.say(data, v)
		return err
	}},
	{name: "range", group: "file", run: func(a *attempt) error {
		data, info, err := a.s.ReadRange(a.name, 0, 1<<16)
		a.say(data, info.Path(), info.Size())
		return err
	}},
	{name: "copy", group: "file", run: func(a *attempt) error {
		info, err := a.s.Copy(a.name, a.free())
		a.say(info.Path())
		if err == nil {
			data, _ := a.s.Read(a.free())
			a.say(data)
		}
		return err
	}},
	{name: "stat", group: "meta", run: func(a *attempt) error {
		info, err := a.s.Stat(a.name)
		a.say(info.Path(), info.Name(), info.Size(), info.Mode())
		return err
	}},
	{name: "exists", group: "meta", run: exists},
	{name: "list", group: "directory", run: func(a *attempt) error {
		list, err := a.s.List(a.name)
		a.say(list)
		return err
	}},
	{name: "walk", group: "directory", run: func(a *attempt) error {
		listing, err := a.s.Walk(context.Background(), a.name, nil, sandbox.Budget{Entries: 10_000})
		a.say(listing)
		return err
	}},
	{name: "find", group: "directory", run: func(a *attempt) error {
		listing, err := a.s.Find(context.Background(), a.name, "*", sandbox.Budget{Entries: 10_000})
		a.say(listing)
		return err
	}},
	{name: "search", group: "directory", run: func(a *attempt) error {
		matches, err := a.s.Search(context.Background(), a.name, sandbox.Query{Pattern: "."}, sandbox.Budget{Entries: 10_000})
		a.say(matches)
		return err
	}},
	{name: "resolve", run: resolve},
	{name: "restrict", run: restrict},
	{name: "access", run: access},
}

// exists turns a negative answer into an error, so that all operations can use one table.
func exists(a *attempt) error {
	found, err := a.s.Exists(a.name)
	if err == nil && !found {
		return &sandbox.Error{Op: "exists", Path: "/", Code: sandbox.ErrNotFound, Hint: "no"}
	}
	return err
}

// resolve checks that the host path is inside a mount, also after following its symlinks.
// The result is for the user, so a host path is no leak.
func resolve(a *attempt) error {
	host, err := a.s.Resolve(a.name)
	if err != nil {
		return err
	}
	a.say(host)
	inside := func(at string) bool {
		for _, m := range a.s.Mounts() {
			top := string(m.Backend.Traits().Host)
			if at == top || strings.HasPrefix(at, top+string(filepath.Separator)) {
				return true
			}
		}
		return false
	}
	if !inside(filepath.FromSlash(string(host))) {
		a.wrong("it resolves to %q, which is in no mount", string(host))
	}
	if followed, err := filepath.EvalSymlinks(string(host)); err == nil && !inside(followed) {
		a.wrong("it resolves to %q, which leads to %q, which is in no mount", string(host), followed)
	}
	return nil
}

// restrict restricts the sandbox to a name, reads it, and walks from the top.
func restrict(a *attempt) error {
	lesser, err := a.s.Restrict(sandbox.Limit{Path: a.name, Access: sandbox.ReadWrite})
	if err != nil {
		return err
	}
	all, err := lesser.Walk(context.Background(), "/", nil, sandbox.Budget{Entries: 10_000})
	a.say(all, err)
	for _, found := range append(all.Found, sandbox.Found{Path: a.name}) {
		if lesser.Access(found.Path) > a.s.Access(found.Path) {
			a.wrong("restricted to %q, %q rose from %v to %v", a.name, found.Path, a.s.Access(found.Path), lesser.Access(found.Path))
		}
		if found.Type.IsRegular() {
			data, _ := lesser.Read(found.Path)
			a.say(data)
		}
	}
	data, err := lesser.Read(a.name)
	a.say(data)
	return err
}

// accessError is an Access as an error, so that the table of codes can hold it.
type accessError struct{ sandbox.Access }

func (e accessError) Error() string { return e.String() }

func access(a *attempt) error {
	got := a.s.Access(a.name)
	if a.s.CanRead(a.name) != (got >= sandbox.ReadOnly) || a.s.CanWrite(a.name) != (got == sandbox.ReadWrite) {
		a.wrong("access is %v, CanRead %v, CanWrite %v", got, a.s.CanRead(a.name), a.s.CanWrite(a.name))
	}
	m, shown := a.s.MountOf(a.name)
	a.say(m.Target, m.Source, m.Access)
	if shown != (got > sandbox.None) {
		a.wrong("access is %v, but MountOf reports %v", got, shown)
	}
	return accessError{got}
}

var fsLookers = []operation{
	{name: "fs.Open", ofFS: true, run: fsOpen},
	{name: "fs.ReadFile", group: "file", ofFS: true, run: fsReadFile},
	{name: "fs.ReadDir", group: "directory", ofFS: true, run: fsReadDir},
	{name: "fs.Stat", group: "meta", ofFS: true, run: func(a *attempt) error {
		info, err := fs.Stat(a.s, a.fsName())
		a.sayInfo(info)
		return err
	}},
	{name: "fs.Lstat", group: "meta", ofFS: true, run: func(a *attempt) error {
		info, err := fs.Lstat(a.s, a.fsName())
		a.sayInfo(info)
		return err
	}},
	{name: "fs.ReadLink", ofFS: true, run: func(a *attempt) error {
		target, err := fs.ReadLink(a.s, a.fsName())
		a.say(target)
		return err
	}},
}

func (a *attempt) sayInfo(info fs.FileInfo) {
	if info != nil {
		a.say(info.Name(), info.Size(), info.Mode(), info.Sys())
	}
}

func fsOpen(a *attempt) error {
	f, err := a.s.Open(a.fsName())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	a.sayInfo(info)
	if err == nil && !info.IsDir() {
		data, err := io.ReadAll(io.LimitReader(f, 1<<16))
		a.say(data)
		return err
	}
	return err
}

// fsReadFile does not call fs.ReadFile if that would allocate the size of a huge file,
// because it would crash the test.
func fsReadFile(a *attempt) error {
	if _, own := fs.FS(a.s).(fs.ReadFileFS); !own {
		if info, err := fs.Stat(a.s, a.fsName()); err == nil && info.Size() > sandbox.MaxRead {
			a.wrong("fs.ReadFile would allocate %d bytes", info.Size())
		}
		if a.fault != nil {
			return nil
		}
	}
	data, err := fs.ReadFile(a.s, a.fsName())
	a.say(data)
	return err
}

func fsReadDir(a *attempt) error {
	f, err := a.s.Open(a.fsName())
	if err != nil {
		return err
	}
	defer f.Close()
	directory, ok := f.(fs.ReadDirFile)
	if !ok {
		// fs.ReadDir does the same, and io/fs has no error for it.
		return &fs.PathError{Op: "readdir", Path: a.fsName(), Err: &sandbox.Error{Op: "readdir", Code: sandbox.ErrNotDir, Hint: "a file"}}
	}
	list, err := directory.ReadDir(-1)
	for _, e := range list {
		info, err := e.Info()
		a.say(e.Name(), e.Type(), err)
		a.sayInfo(info)
	}
	return err
}

var changers = []operation{
	{name: "write", group: "put", run: func(a *attempt) error {
		return a.wrote(a.s.Write(a.name, []byte(planted)))
	}},
	{name: "new", group: "put", run: func(a *attempt) error {
		return a.wrote(a.s.WriteNew(a.name, []byte(planted)))
	}},
	{name: "if", run: func(a *attempt) error {
		// The version is that of the secret, so a success would confirm its content.
		return a.wrote(a.s.WriteIf(a.name, []byte(planted), sandbox.Version{}.With([]byte(a.w.canary))))
	}},
	{name: "mkdir", run: func(a *attempt) error {
		err := a.s.MakeDir(a.name)
		if err == nil {
			if info, err := a.s.Stat(a.name); err != nil || !info.IsDir() {
				a.wrong("it returned no error, but there is no directory: %v, %v", info.Mode(), err)
			}
		}
		return err
	}},
	{name: "copy-to", group: "put", run: func(a *attempt) error {
		own, _ := a.s.Read(a.mine)
		_, err := a.s.Copy(a.mine, a.name)
		if err == nil {
			a.holds(a.name, string(own))
		}
		return err
	}},
	{name: "move-to", group: "put", run: func(a *attempt) error {
		own, _ := a.s.Read(a.mine)
		err := a.s.Move(a.mine, a.name)
		if err == nil {
			a.holds(a.name, string(own))
			a.gone(a.mine)
		}
		return err
	}},
}

func (a *attempt) wrote(info sandbox.Info, err error) error {
	a.say(info.Path())
	if err == nil {
		a.holds(a.name, planted)
		a.holds(info.Path(), planted)
	}
	return err
}

var takers = []operation{
	{name: "delete", group: "take", run: func(a *attempt) error {
		err := a.s.Delete(a.name)
		if err == nil {
			a.gone(a.name)
		}
		return err
	}},
	{name: "delete-all", group: "take", run: func(a *attempt) error {
		err := a.s.DeleteAll(context.Background(), a.name)
		if err == nil {
			a.gone(a.name)
		}
		return err
	}},
	{name: "move", group: "take", run: func(a *attempt) error {
		err := a.s.Move(a.name, a.free())
		if err == nil {
			a.gone(a.name)
			data, _ := a.s.Read(a.free())
			a.say(data)
		}
		return err
	}},
}

// codeName returns the result of an operation as a word of the tables.
func codeName(err error) string {
	var access accessError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &access):
		return access.Error()
	}
	return string(sandbox.CodeOf(err))
}
