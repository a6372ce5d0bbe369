package explain

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Operations returns the operations that can be asked about.
func Operations() []string { return []string{"read", "write", "delete"} }

// A question is whether an operation is allowed at a name.
type question struct {
	op    string
	asked string
	s     *sandbox.Sandbox
	given []*Mount
}

// An Answer says whether an operation is allowed, and what decides it.
type Answer struct {
	Path     string   `json:"path"` // canonical if it is a valid name
	Op       string   `json:"op"`
	Worker   string   `json:"worker,omitempty"`
	Allowed  bool     `json:"allowed"`
	Trusted  *bool    `json:"trusted,omitempty"` // the user trusts the program; nil without a program
	Approval string   `json:"consent,omitempty"` // the approval it needs, if it is allowed
	Reason   string   `json:"reason"`
	Facts    []Fact   `json:"facts"`
	Error    *Refusal `json:"error,omitempty"` // the error that a worker gets
	Readable []string `json:"readable"`
	Writable []string `json:"writable"`
	ReadOnly []string `json:"read_only,omitempty"` // mounts below the writable names that may not be written

	End string `json:"-"` // the name after all symlinks
}

// A Fact is one thing that decides: a mount, a symlink, a file, a rule.
type Fact struct {
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"`
	Is   string `json:"is"`
	From string `json:"from,omitempty"` // the flag, or file:line
}

// A Refusal is an error of the sandbox.
type Refusal struct {
	Code    sandbox.Code `json:"code"`
	Message string       `json:"message"`
	Hint    string       `json:"hint,omitempty"`
}

// Ask asks a sandbox made by NewSandbox whether an operation is allowed at a path, and
// what decides it. All text in the answer is safe to print.
func Ask(ctx context.Context, op, asked string, s *sandbox.Sandbox, given []*Mount) Answer {
	return question{op, asked, s, given}.answer(ctx)
}

func (q question) answer(ctx context.Context) Answer {
	a := Answer{Path: sandbox.Shown(q.asked), Op: q.op, Facts: []Fact{},
		Readable: shown(q.s.ReadableRoots()), Writable: shown(q.s.WritableRoots()), ReadOnly: q.readOnly()}
	o := q.ask(ctx)
	name, err := q.s.Canonical(q.asked)
	if err != nil {
		return q.refuse(a, q.asked, o.err)
	}
	a.Path = sandbox.Shown(name)
	if q.asked != name && "/"+q.asked != name {
		a.Facts = append(a.Facts, Fact{Kind: "name", Path: sandbox.Shown(q.asked), Is: "is " + a.Path})
	}
	links, end := q.links(name)
	if o.wrote != "" {
		end = o.wrote
	}
	a.End = end
	a.Facts = append(a.Facts, q.mountFacts(end)...)
	a.Facts = append(a.Facts, links...)
	a.Facts = append(a.Facts, q.fileFacts(end, o)...)
	if errors.Is(o.err, sandbox.ErrProtected) {
		a.Facts = append(a.Facts, Fact{Kind: "protected", Path: strings.Join(sandbox.Protected(), ", "), Is: "in every mount"})
	}
	if o.err != nil {
		return q.refuse(a, end, o.err)
	}
	a.Allowed = true
	a.Reason = sandbox.Shown(end) + " may be " + q.done(end)
	return a
}

// readOnly returns the mounts that may not be written although a name above may be.
func (q question) readOnly() (names []string) {
	for _, m := range q.s.Mounts() {
		if !q.s.CanWrite(m.Target) && m.Target != "/" && slices.ContainsFunc(q.s.WritableRoots(), func(root string) bool {
			return root == "/" || strings.HasPrefix(m.Target, root+"/")
		}) {
			names = append(names, sandbox.Shown(m.Target))
		}
	}
	return names
}

// Refuse turns the answer into a no.
func (a *Answer) Refuse(code sandbox.Code, reason, hint string) {
	a.Allowed = false
	a.Reason = reason
	e := &sandbox.Error{Op: a.Op, Path: a.End, Code: code, Hint: hint}
	a.Error = &Refusal{Code: code, Message: e.Error(), Hint: hint}
}

// An outcome is the result of an operation.
type outcome struct {
	err   error
	wrote string // the name of the written file after symlinks
	whole bool   // a directory is deleted with all that is in it
}

// ask does the operation on backends that change nothing.
func (q question) ask(ctx context.Context) (o outcome) {
	switch q.op {
	case "write":
		var info sandbox.Info
		if info, o.err = q.s.Write(q.asked, nil); o.err == nil {
			o.wrote = info.Path()
		}
	case "delete":
		o.err = q.s.Delete(q.asked)
		if o.whole = errors.Is(o.err, sandbox.ErrNotEmpty); o.whole {
			for _, g := range q.given {
				g.probe.emptied = true
			}
			o.err = q.s.DeleteAll(ctx, q.asked)
		}
	default:
		if info, err := q.s.Stat(q.asked); err == nil && info.IsDir() {
			_, o.err = q.s.List(q.asked)
		} else {
			_, _, o.err = q.s.ReadRange(q.asked, 0, 0)
		}
	}
	return o
}

// done returns the participle of the operation for a sentence.
func (q question) done(name string) string {
	switch q.op {
	case "write":
		return "written"
	case "delete":
		return "deleted"
	}
	if info, err := q.s.Stat(name); err == nil && info.IsDir() {
		return "listed"
	}
	return "read"
}

// refuse completes an answer that is no.
func (q question) refuse(a Answer, end string, err error) Answer {
	a.Error = &Refusal{Code: sandbox.CodeOf(err), Message: err.Error()}
	var e *sandbox.Error
	if errors.As(err, &e) {
		a.Error.Hint = e.Hint
	}
	a.Reason = q.reason(a.Facts, end, err)
	return a
}

// reason returns the reason for a no as one clause.
func (q question) reason(facts []Fact, end string, err error) string {
	name := sandbox.Shown(end)
	m, mounted := q.s.MountOf(end)
	for _, f := range facts {
		switch {
		case f.Kind == "shared" && errors.Is(err, sandbox.ErrReadOnly):
			return name + " is also in " + f.Path + ", which is read-only"
		case f.Is == linkLeaves && errors.Is(err, sandbox.ErrOutside),
			f.Is == linkToNothing && errors.Is(err, sandbox.ErrNotFound):
			return "the symlink " + f.Path + " " + f.Is
		}
	}
	switch sandbox.CodeOf(err) {
	case sandbox.ErrNotFound:
		if !mounted {
			return "nothing is mounted at " + name
		}
		return name + " does not exist"
	case sandbox.ErrReadOnly:
		if m.Access < sandbox.ReadWrite {
			return sandbox.Shown(m.Target) + " is read-only"
		}
	case sandbox.ErrNotRegular:
		if info, err := q.s.Stat(end); err == nil {
			return name + " is a " + kind(info)
		}
	case sandbox.ErrSuffix:
		return "files here need another suffix: " + clause(err)
	case sandbox.ErrIsDir:
		return name + " is a directory"
	case sandbox.ErrNotDir:
		for at := end; at != "/"; at = path.Dir(at) {
			if _, err := q.s.Stat(at); err == nil {
				return sandbox.Shown(at) + " is not a directory"
			}
		}
	}
	return clause(err)
}

// clause returns the first clause of an error's hint that says why, or the code if there
// is none.
func clause(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) {
		for part := range strings.SplitSeq(e.Hint, "; ") {
			if part != "" && !strings.HasPrefix(part, "it leads to ") {
				return part
			}
		}
	}
	return string(sandbox.CodeOf(err))
}

func shown(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = sandbox.Shown(name)
	}
	return list
}
