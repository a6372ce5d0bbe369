package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxTree   = 100_000         // names in a directory that one approval can cover
	maxHashed = sandbox.MaxRead // bytes of its files that golem reads to know their versions
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
// skips files that the changes describe.
func describeReads(ctx context.Context, g Gate, plan callPlan, prepared preparedCall) ([]Change, error) {
	list := slices.Clone(prepared.Attached)
	if plan.reading == nil {
		return list, nil
	}
	needs, _ := g.sandboxLimits(plan.Effects, true)
	files, err := g.Files.Restrict(needs...)
	if err != nil {
		return nil, err
	}
	for _, e := range plan.Effects {
		isKnown := func(c Change) bool { return c.Path == e.Target }
		if e.Verb != policy.Read || slices.ContainsFunc(list, isKnown) {
			continue
		}
		info, err := files.Stat(e.Target)
		switch {
		case err != nil: // the call reports the error itself
		case info.Mode().IsRegular():
			list = append(list, newRead(Read, e.Target, info.Size(), versionOf(files, info, sandbox.MaxRead)))
		case e.Tree && info.IsDir() && g.Decide(e).Approval < policy.PreApproved:
			c, err := describeTree(ctx, files, e.Target, plan.Levels)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
	}
	return list, nil
}

// versionOf returns the version of a file: the hash of its content, or what the host
// reports for a file that has more bytes than most.
func versionOf(files *sandbox.Sandbox, info sandbox.Info, most int64) string {
	if info.Size() <= most {
		if data, err := files.Read(info.Path()); err == nil {
			return sandbox.Version{}.With(data).String()
		}
	}
	return info.Version().String()
}

// describeTree describes a directory of which a call reads everything, or only names if
// levels is not zero. The version covers the names, and the versions of the files if the
// call reads them. A directory with too many names is an error, because an approval would
// cover names that golem has not seen.
func describeTree(ctx context.Context, files *sandbox.Sandbox, dir string, levels int) (Change, error) {
	top := strings.Count(strings.TrimSuffix(dir, "/"), "/")
	pick := func(in string, _ sandbox.Entry) (keep, enter bool) {
		return true, levels == 0 || strings.Count(strings.TrimSuffix(in, "/"), "/")-top+1 < levels
	}
	tree, err := files.Walk(ctx, dir, pick, sandbox.Budget{Results: maxTree})
	if err != nil {
		return Change{}, err
	}
	if tree.Cut != "" {
		return Change{}, &sandbox.Error{Op: "read", Path: dir, Code: sandbox.ErrLimit,
			Hint: fmt.Sprintf("golem must ask about it, and cannot list its files for the question (%s; at most %d names); name a directory further down", tree.Cut, maxTree)}
	}
	sum, count, bytes := sha256.New(), 0, int64(0)
	fmt.Fprintln(sum, levels, tree.Unread)
	for _, f := range tree.Found {
		version := ""
		switch {
		case f.Type&fs.ModeSymlink != 0:
			version, _ = files.ReadLink(strings.TrimPrefix(f.Path, "/")) // empty if the target is outside the sandbox
		case f.Type.IsRegular() && levels == 0:
			info, err := files.Stat(f.Path)
			if err != nil {
				version = "unreadable"
				break
			}
			count, bytes = count+1, bytes+info.Size()
			version = versionOf(files, info, maxHashed-bytes)
		}
		fmt.Fprintf(sum, "%q %v %q\n", f.Path, f.Type, version)
	}
	about := visible.Count(len(tree.Found), "name")
	if levels == 0 {
		about = visible.Count(count, "file") + ", " + FormatSize(bytes)
	}
	return Change{Path: dir, Op: Read, About: about + "; golem tool list_files --path " + sandbox.Shown(dir) + " lists them", Becomes: hex.EncodeToString(sum.Sum(nil)[:16])}, nil
}

// checkReads returns an error if a file has other content than the user approved. The call
// has read it already, and its result must not be passed on.
func checkReads(ctx context.Context, g Gate, plan callPlan, prepared preparedCall) error {
	if plan.reading == nil || len(prepared.reads) == 0 {
		return nil
	}
	now, err := describeReads(ctx, g, plan, prepared)
	if err != nil {
		return err
	}
	for _, c := range prepared.reads {
		if i := slices.IndexFunc(now, func(other Change) bool { return other.Path == c.Path }); i < 0 || now[i].Becomes != c.Becomes {
			return &sandbox.Error{Op: plan.tool.currentName(), Path: c.Path, Code: sandbox.ErrConflict, Hint: "it changed after you were asked, and its content was not passed on; make the call again"}
		}
	}
	return nil
}
