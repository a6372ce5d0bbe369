package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxTree   = 100_000         // names in a directory that one approval can cover
	maxHashed = sandbox.MaxRead // bytes of its files that golem reads to know their versions
	maxLooks  = 20_000          // names that golem looks up for the words of a command
)

// DescribeRead describes a file that a call reads, or attaches to a call of another worker.
// The version binds an approval to the content.
func (g Gate) DescribeRead(op Op, name string, content []byte) Change {
	c := Change{Path: name, Op: op, About: visible.Amount(int64(len(content))), Becomes: filecontent.Hash(content)}
	if g.ShowReads {
		shown := DescribeChange(name, sandbox.Version{}, nil, content)
		c.Diff, c.Omitted = shown.Diff, shown.Omitted
	}
	return c
}

// describeFile does so for a file of a sandbox.
func (g Gate) describeFile(files *sandbox.Sandbox, name string, info sandbox.Info) Change {
	if info.Size() <= sandbox.MaxRead {
		if data, err := files.Read(name); err == nil {
			return g.DescribeRead(Read, name, data)
		}
	}
	c := Change{Path: name, Op: Read, About: visible.Amount(info.Size()), Becomes: info.Version().String()}
	if g.ShowReads {
		c.Omitted = "too large to show, or unreadable"
	}
	return c
}

// isRead reports whether the change describes a file that a call reads or attaches, and
// changes nothing.
func (c Change) isRead() bool { return c.Op == Read || c.Op == Attach }

// describeReads describes the files that a call reads, if the user is asked about it. An
// approval may be given long before the call runs, and must not cover other content. It
// skips files that the changes describe.
func describeReads(ctx context.Context, g Gate, plan callPlan, prepared preparedCall) ([]Change, error) {
	list := slices.Clone(prepared.Attached)
	if plan.Words != nil {
		return describeNamed(append([]Change{}, list...), g, plan)
	}
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
			list = append(list, g.describeFile(files, e.Target, info))
		case e.Tree && info.IsDir() && g.Decide(e).Approval < policy.PreApproved:
			c, err := describeTree(ctx, files, e.Target, plan.Levels)
			if err != nil {
				return nil, err
			}
			if g.ShowReads {
				c.Omitted = "what is in the directory"
			}
			list = append(list, c)
		}
	}
	return list, nil
}

// describeNamed adds the files that the words of a command name, by themselves or from a
// directory that other words name. Words with * stand for all files that match. The command
// must see the files, so golem needs no approval to read them.
func describeNamed(list []Change, g Gate, plan callPlan) ([]Change, error) {
	start, words := plan.Words()
	names, looked, dirs, known := Names{gate: g}, 0, []string{start}, map[string]bool{start: true}
	for i := 0; i < len(dirs); i++ {
		for _, word := range words {
			if i > 0 && path.IsAbs(word) {
				continue
			}
			found := []string{word}
			if !path.IsAbs(word) {
				found[0] = path.Join(dirs[i], word)
			}
			if strings.ContainsAny(word, "*?[") {
				matches, _ := fs.Glob(g.Files, strings.TrimPrefix(path.Clean(found[0]), "/"))
				found = append(found, matches...)
			}
			for _, name := range found {
				if looked++; looked > maxLooks {
					return nil, &sandbox.Error{Op: plan.tool.currentName(), Code: sandbox.ErrLimit, Hint: "golem must ask about the command, and it names too many files for the question; write a script and run that"}
				}
				at, err := names.Locate("run", "/"+strings.TrimPrefix(name, "/"), sandbox.ReadOnly, false)
				if err != nil || known[at] || !names.IsVisibleToCommands(at) {
					continue
				}
				info, err := g.Files.Stat(at)
				switch {
				case err != nil:
				case info.IsDir():
					dirs, known[at] = append(dirs, at), true
				case info.Mode().IsRegular():
					list, known[at] = append(list, g.describeFile(g.Files, at, info)), true
				}
			}
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
		about = visible.Count(count, "file") + ", " + visible.Amount(bytes)
	}
	return Change{Path: dir, Op: Read, Directory: true, About: about, Becomes: hex.EncodeToString(sum.Sum(nil)[:16])}, nil
}

// checkReads returns an error if a file has other content than the user approved. golem checks
// a command before it runs. Any other call has read the file already, and its result must not
// be passed on.
func checkReads(ctx context.Context, g Gate, plan callPlan, prepared preparedCall) error {
	hint := "its content was not passed on"
	switch {
	case prepared.reads == nil: // nobody was asked, or there is nothing to read
		return nil
	case plan.Words != nil:
		hint = "the command did not run"
	case plan.reading == nil:
		return nil
	}
	now, err := describeReads(ctx, g, plan, prepared)
	if err != nil {
		return err
	}
	for i, c := range slices.Concat(prepared.reads, now) {
		other := now
		if i >= len(prepared.reads) {
			other = prepared.reads
		}
		if !slices.ContainsFunc(other, func(o Change) bool { return o.Path == c.Path && o.Becomes == c.Becomes }) {
			return &sandbox.Error{Op: plan.tool.currentName(), Path: c.Path, Code: sandbox.ErrConflict, Hint: "it changed after you were asked, and " + hint + "; make the call again"}
		}
	}
	return nil
}
