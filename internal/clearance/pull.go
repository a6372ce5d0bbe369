package clearance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of a pull.
const (
	maxPaths  = 1000   // paths in a request
	maxPulled = 10_000 // files in a result
)

// maxBranch limits how many files of a branch are compared with a tree.
const maxBranch = 100_000

// A Pulled is a file as the branch has it now, with its base: the version that the tree
// last got from the branch, or that a waiting commit was staged from.
type Pulled struct {
	Path      string
	Mode      git.Mode // None if the branch no longer has the file
	Hash      git.Hash
	Size      int64
	BaseMode  git.Mode // None if it did not exist or is not known
	Base      git.Hash
	Elsewhere git.Hash // what any tree got last, "" for nothing; it may have been applied here
}

// A Pull holds files of a branch to bring into a tree.
type Pull struct {
	Target, Branch string
	Commit         git.Hash
	Files          []Pulled
	commits        *Commits
	objects        string
	reader         *git.Reader
}

// Pull returns the files of a branch at the paths, or in directories at the paths, as the
// target has them now. Without paths it returns all files. An empty branch means the
// target's own. The caller closes the result.
func (d *Commits) Pull(ctx context.Context, target, branch string, paths []string) (*Pull, error) {
	if len(paths) > maxPaths {
		return nil, &sandbox.Error{Op: "pull", Code: sandbox.ErrLimit, Hint: fmt.Sprintf("%d paths, and the limit is %d; name directories", len(paths), maxPaths)}
	}
	t, err := d.target(target)
	if err != nil {
		return nil, err
	}
	if branch == "" {
		branch = t.Branch
	}
	at, err := d.reach(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := at.refresh(ctx, branch); err != nil {
		return nil, err
	}
	p := &Pull{Target: t.Name, Branch: branch, commits: d, objects: at.objects()}
	if p.Commit, err = at.branch(ctx, branch); err != nil {
		return nil, err
	}
	if p.Commit == "" {
		return nil, &sandbox.Error{Op: "pull", Path: branch, Code: sandbox.ErrNotFound, Hint: "the target has no such branch; git_branches lists its branches"}
	}
	entries, err := d.store.Entries(ctx, p.objects, p.Commit, paths, maxPulled)
	if err != nil {
		return nil, err
	}
	base, elsewhere, err := d.bases(t.Name, branch)
	if err != nil {
		return nil, err
	}
	if p.Files, err = compare(entries, base, paths); err != nil {
		return nil, err
	}
	for i, f := range p.Files {
		p.Files[i].Elsewhere = elsewhere[f.Path].Hash
	}
	p.reader, err = d.store.Reader(ctx, p.objects)
	return p, err
}

// compare combines the files of a branch with their bases. A path without any is an
// error.
func compare(entries []git.Entry, base map[string]had, paths []string) ([]Pulled, error) {
	var files []Pulled
	seen := map[string]bool{}
	found := func(path string) {
		for ; path != ""; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
			seen[path] = true
		}
	}
	for _, e := range entries {
		found(e.Path)
		was := base[e.Path]
		if was.Mode == "" {
			was.Mode = git.None
		}
		files = append(files, Pulled{Path: e.Path, Mode: e.Mode, Hash: e.Hash, Size: e.Size, BaseMode: was.Mode, Base: was.Hash})
	}
	for path, was := range base {
		within := len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
		if within && !seen[path] && was.Mode != git.None {
			found(path)
			files = append(files, Pulled{Path: path, Mode: git.None, BaseMode: was.Mode, Base: was.Hash})
		}
	}
	for _, path := range paths {
		if !seen[path] {
			return nil, &sandbox.Error{Op: "pull", Path: path, Code: sandbox.ErrNotFound, Hint: "the branch has nothing there; name files or directories by their path in the repository"}
		}
	}
	slices.SortFunc(files, func(a, b Pulled) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// Close ends the process that reads contents.
func (p *Pull) Close() { p.reader.Close() }

// Read returns a content of at most the given number of bytes, and nothing for "". The
// error is git.ErrStageAgain if the content no longer exists, such as the base of a
// rewritten branch.
func (p *Pull) Read(hash git.Hash, most int64) ([]byte, error) {
	if hash == "" {
		return nil, nil
	}
	content, size, err := p.reader.Blob(hash, most)
	if err == nil && size > most {
		err = &sandbox.Error{Op: "pull", Code: sandbox.ErrLimit, Hint: fmt.Sprintf("a file has %d bytes, and the limit is %d", size, most)}
	}
	return content, err
}

// Copy writes a content of any size.
func (p *Pull) Copy(ctx context.Context, hash git.Hash, to io.Writer) error {
	r, err := p.commits.store.Reader(ctx, p.objects)
	if err != nil {
		return err
	}
	defer r.Close()
	content, size, err := r.Stream(hash)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, content)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Took records that the tree now has files as they were pulled, or merged with them. They
// are the base of the next pull.
func (p *Pull) Took(paths ...string) error {
	took := map[string]bool{}
	for _, path := range paths {
		took[path] = true
	}
	return p.commits.folder.Update(pulledDocument, func(old []byte) ([]byte, error) {
		all, err := remembered(old)
		if err != nil {
			return nil, err
		}
		for _, tree := range []string{p.commits.tree, anyTree} {
			key := pulledKey(tree, p.Target, p.Branch)
			if all[key] == nil {
				all[key] = of{}
			}
			for _, f := range p.Files {
				if took[f.Path] {
					all[key].put(f.Path, f.Mode, f.Hash)
				}
			}
		}
		return json.Marshal(all)
	})
}

// Branches returns the branches of a target and their commits, as they are now.
func (d *Commits) Branches(ctx context.Context, target string) (map[string]git.Hash, error) {
	_, at, err := d.open(ctx, target)
	if err != nil {
		return nil, err
	}
	return at.Branches(ctx)
}

// A BranchFiles is the own branch of a target: the files that the next commit would be staged
// on.
type BranchFiles struct {
	Name   string
	Commit git.Hash // "" if there is none yet, or a remote's was never pulled
	Files  []git.Entry

	store   *git.ObjectStore
	objects string
}

// OpenBranchFiles opens the own branch of a target. It uses no network.
func OpenBranchFiles(ctx context.Context, d *Commits, target string) (*BranchFiles, error) {
	t, at, err := d.open(ctx, target)
	if err != nil {
		return nil, err
	}
	base, from, err := t.parents(ctx, at, t.Branch)
	if err != nil {
		return nil, err
	}
	b := &BranchFiles{Name: t.Branch, Commit: cmp.Or(base, from), store: d.store, objects: at.objects()}
	if b.Commit != "" {
		b.Files, err = d.store.Entries(ctx, b.objects, b.Commit, nil, maxBranch)
	}
	return b, err
}

// NewReader returns a reader of the files. The caller closes it.
func (b *BranchFiles) NewReader(ctx context.Context) (*git.Reader, error) {
	return b.store.Reader(ctx, b.objects)
}

// Merge merges two versions of a text with a common base. If they conflict, the result
// has both between markers, and clean is false.
func Merge(base, ours, theirs string) (text string, clean bool) {
	return patch.Merge(base, ours, theirs, patch.Marks{Ours: "ours", Base: "base", Theirs: "theirs"})
}
