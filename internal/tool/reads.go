package tool

import (
	"slices"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// DescribeRead describes a file that a call reads, or attaches to a call of another worker,
// without its content. The version binds an approval to the content.
func DescribeRead(op Op, name string, content []byte) Change {
	return newRead(op, name, int64(len(content)), HashContent(content))
}

func newRead(op Op, name string, size int64, version string) Change {
	return Change{Path: name, Op: op, About: FormatSize(size) + "; golem tool read_file --path " + sandbox.Shown(name) + " shows it", Becomes: version}
}

// describeReads describes the files that a call reads, if the user is asked about it. An
// approval may be given long before the call runs, and must not cover other content. It
// skips directories, and files that the changes describe.
func describeReads(files *sandbox.Sandbox, plan callPlan, prepared preparedCall) []Change {
	list := slices.Clone(prepared.Attached)
	if plan.reading == nil {
		return list
	}
	for _, e := range plan.Effects {
		isKnown := func(c Change) bool { return c.Path == e.Target }
		if e.Verb != policy.Read || slices.ContainsFunc(list, isKnown) {
			continue
		}
		info, err := files.Stat(e.Target)
		if err != nil || !info.Mode().IsRegular() {
			continue // the call reads no content there, or reports the error itself
		}
		version := info.Version() // of a file that is too large to be read at once
		if data, err := files.Read(e.Target); err == nil {
			version = sandbox.Version{}.With(data)
		}
		list = append(list, newRead(Read, e.Target, info.Size(), version.String()))
	}
	return list
}

// checkReads returns an error if a file has other content than the user approved. The call
// has read it already, and its result must not be passed on.
func checkReads(files *sandbox.Sandbox, plan callPlan, prepared preparedCall) error {
	if plan.reading == nil || len(prepared.reads) == 0 {
		return nil
	}
	now := describeReads(files, plan, prepared)
	for _, c := range prepared.reads {
		if i := slices.IndexFunc(now, func(other Change) bool { return other.Path == c.Path }); i < 0 || now[i].Becomes != c.Becomes {
			return &sandbox.Error{Op: plan.tool.currentName(), Path: c.Path, Code: sandbox.ErrConflict, Hint: "it changed after you were asked, and its content was not passed on; make the call again"}
		}
	}
	return nil
}
