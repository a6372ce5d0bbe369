package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// maxStaged limits how many files one call stages if the project sets no limit.
const maxStaged = 100_000

// A gathering collects the files to stage, and lists what it skips.
type gatherer struct {
	Set
	target   Target
	files    *sandbox.Sandbox
	onBranch func(inside string) ([]string, error)
	had      func(inside string) bool // whether the tree had a file of the branch
	skip     func(dir string) bool    // directories to leave out; nil for none
	found    map[string]git.File      // by path in the repository
	links    map[string]uint64
	bytes    int64
	left     []string // names that git reserves
	other    []string // other directories of the host
	ignored  []string // files that .gitignore names
	nested   []string // repositories of their own
	kept     []string // files that no worker can have deleted; they stay on the branch
	unpulled []string // files that were never here; they stay on the branch
	away     []string // symlinks that lead out of the staged directory
	skipped  []string // what skip leaves out
}

// add adds the file, symlink or directory at a name. If nothing is there, it adds the
// deletion of what the branch has.
func (g *gatherer) add(ctx context.Context, name string) error {
	inside, err := g.target.pathInside("stage", name)
	if err != nil {
		return err
	}
	info, err := g.files.Lstat(fsName(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g.addDeletions(name, inside)
	case err != nil:
		return err
	case info.IsDir():
		return g.addDir(ctx, name, inside)
	}
	return g.addFile(name, inside, info)
}

// fsName converts a virtual name to a name of package io/fs.
func fsName(name string) string {
	if name == "/" {
		return "."
	}
	return strings.TrimPrefix(name, "/")
}

// addDeletions adds deletions of the files that the branch has at a name.
func (g *gatherer) addDeletions(name, inside string) error {
	there, err := g.onBranch(inside)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrNotFound, Hint: "it is neither here nor on the branch; name files that are on one of the two"}
	}
	for _, one := range there {
		g.found[one] = git.File{Path: one, Mode: git.None}
	}
	return nil
}

// addDir adds all files below a directory, and deletions of files that the branch has
// there and the tree no longer has. It skips names that git reserves, other directories
// of the host and nested repositories. It also skips files that .gitignore names and the
// branch does not have.
func (g *gatherer) addDir(ctx context.Context, name, inside string) error {
	if g.isRepository(name) {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrInvalid, Hint: "it is a repository of its own, with commits of its own; name files in it that are to be part of this one"}
	}
	there, err := g.onBranch(inside)
	if err != nil {
		return err
	}
	tracked := make(map[string]bool, len(there)) // and the directories above
	for _, one := range there {
		for at := g.target.virtualName(one); !tracked[at] && at != "/"; at = path.Dir(at) {
			tracked[at] = true
		}
	}
	ignore := &ignoreFiles{files: g.files, top: g.target.At, known: make(map[string][]ignoreRule)}
	var mu sync.Mutex
	leave := func(list *[]string, name string) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, name)
	}
	list, err := g.files.Walk(ctx, name, func(dir string, e sandbox.Entry) (keep, enter bool) {
		full := path.Join(dir, e.Name)
		switch {
		case git.BadName(e.Name, git.Plain) != "":
			leave(&g.left, full)
		case slices.Contains(g.Outside, full):
			leave(&g.other, full)
		case g.skip != nil && e.IsDir() && g.skip(full):
			leave(&g.skipped, full)
		case !tracked[full] && ignore.ignores(dir, e.Name, e.IsDir()):
			leave(&g.ignored, full)
		case e.IsDir() && g.isRepository(full):
			leave(&g.nested, full)
		default:
			return !e.IsDir(), true
		}
		return false, false
	}, sandbox.Budget{Results: maxStaged})
	if err != nil {
		return err
	}
	if list.Cut == sandbox.CutCancelled {
		return context.Canceled
	}
	if list.Cut != "" {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrLimit, Hint: fmt.Sprintf("it has too many files (%s); name smaller directories", list.Cut)}
	}
	if list.Unread > 0 {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("%s in it cannot be read; name the files to stage", visible.Count(list.Unread, "directory"))}
	}
	here := make(map[string]bool, len(list.Found))
	for _, f := range list.Found {
		rel, err := g.target.pathInside("stage", f.Path)
		if err != nil {
			return err
		}
		info, err := g.files.Lstat(fsName(f.Path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since
		}
		if err == nil {
			err = g.addFile(f.Path, rel, info)
		}
		here[rel] = true
		switch {
		case err != nil && info != nil && info.Mode()&fs.ModeSymlink != 0 && errors.Is(err, sandbox.ErrOutside):
			g.away = append(g.away, f.Path)
		case err != nil:
			return err
		}
	}
	for _, one := range there {
		name := g.target.virtualName(one)
		within := func(folder string) bool { return name == folder || isAbove(folder, name) }
		switch {
		case here[one] || !g.files.CanRead(name) || slices.ContainsFunc(g.Outside, within) || slices.ContainsFunc(g.nested, within) || slices.ContainsFunc(g.skipped, within):
		case g.files.Protection()(name) != "":
			g.kept = append(g.kept, name)
		case !g.had(one):
			g.unpulled = append(g.unpulled, name)
		default:
			g.found[one] = git.File{Path: one, Mode: git.None}
		}
	}
	return nil
}

// isRepository reports whether a directory is the work tree of a nested repository.
func (g *gatherer) isRepository(name string) bool {
	if name == g.target.At {
		return false
	}
	_, err := g.files.Lstat(fsName(path.Join(name, ".git")))
	return err == nil
}

// addFile adds one file or symlink.
func (g *gatherer) addFile(name, inside string, info fs.FileInfo) error {
	f := git.File{Path: inside, Mode: git.Plain, Size: info.Size()}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := g.files.ReadLink(fsName(name))
		if err != nil {
			return err
		}
		f.Mode, f.Size = git.Link, int64(len(to))
		f.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(to)), nil }
	case !info.Mode().IsRegular():
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrNotRegular, Hint: "only files, directories and symlinks can be staged"}
	default:
		if info.Mode()&0o111 != 0 {
			f.Mode = git.Executable
		}
		f.Open = func() (io.ReadCloser, error) { return g.files.Open(fsName(name)) }
		if known, ok := info.(sandbox.Info); ok {
			g.links[inside] = known.Links()
		}
	}
	if _, twice := g.found[inside]; !twice {
		g.bytes += f.Size
	}
	g.found[inside] = f
	if g.Limits.Files > 0 && int64(len(g.found)) > g.Limits.Files {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrLimit, Hint: fmt.Sprintf("golem stages at most %d files at once (clearance.limits.max_files); stage fewer", g.Limits.Files)}
	}
	// A sparse file counts with its full size.
	if most := cmp.Or(g.Limits.Bytes, sandbox.MaxCopy); g.bytes > most {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("golem stages at most %s at once (clearance.limits.max_bytes); stage less", visible.Amount(most))}
	}
	return nil
}

// describeSkipped describes what was skipped.
func (g *gatherer) describeSkipped() (notes []string) {
	for _, n := range []struct {
		list []string
		why  string
	}{
		{g.nested, "skipped, repositories of their own: "},
		{g.kept, "not deleted on the branch, because workers cannot delete it; name it to delete it: "},
		{g.unpulled, "not deleted on the branch, because it was never pulled; name it to delete it: "},
		{g.left, "skipped, because git keeps its own files there: "},
		{g.other, "skipped, because another directory is mounted there: "},
		{g.ignored, "skipped because of .gitignore; name it to stage it: "},
		{g.away, "skipped, symlinks that point out of the directory; name those that stay in the tree: "},
	} {
		if len(n.list) > 0 {
			slices.Sort(n.list)
			notes = append(notes, n.why+sandbox.Shown(n.list[0])+countMore(len(n.list)-1))
		}
	}
	return notes
}
