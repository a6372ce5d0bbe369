package git

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/sandbox"
)

// ErrDirty is the code of a work tree with changes that are not in the commit.
const ErrDirty sandbox.Code = "dirty"

// Advance moves the checked-out branch to a commit that the target has, with its index
// and work tree. If applying fails, it undoes what it did. Each file of the work tree
// must be as in the branch or as in the commit. Resume cleans up after a killed Advance,
// so the caller must record what it is about to do.
func (t *Target) Advance(ctx context.Context, branch string, base, commit Hash, changes []ChangedFile) error {
	if err := t.requireCheckedOut(branch); err != nil {
		return err
	}
	w, err := t.begin(commit, changes)
	if err != nil {
		return err
	}
	defer w.end()
	left, err := w.findRemaining(ctx, base, changes)
	if err != nil {
		return err
	}
	defer w.removePrepared(left)
	if err := w.prepare(ctx, changes, left); err != nil {
		return err
	}
	if err := t.runHooksBefore(ctx, branch, base, commit); err != nil {
		return err
	}
	if err := t.move(ctx, branch, base, commit); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // once the branch has moved, finish or undo
	if done, err := w.apply(ctx, left); err != nil {
		w.removePrepared(left)
		return errors.Join(err, w.undo(ctx, left[:done]), t.moveBack(ctx, branch, commit, base))
	}
	return w.replaceIndex(ctx)
}

// Resume cleans up after a killed Advance. If the branch has moved and is still checked
// out, it finishes the work, and otherwise removes what was prepared. It does not touch
// files that were changed since.
func (t *Target) Resume(ctx context.Context, branch string, commit Hash, changes []ChangedFile) error {
	scratch := t.scratch(commit)
	if _, err := os.Lstat(scratch); errors.Is(err, fs.ErrNotExist) {
		return nil // it had not begun, or it was finished
	}
	lock := filepath.Join(t.own, "index.lock")
	ours, err := os.Lstat(filepath.Join(scratch, "lock"))
	if there, look := os.Lstat(lock); err == nil && look == nil && os.SameFile(ours, there) {
		if err := os.Remove(lock); err != nil {
			return storeError(err)
		}
	}
	w, err := t.begin(commit, changes)
	if err != nil {
		return err
	}
	defer w.end()
	w.removePrepared(changes)
	head, err := t.Head()
	if err != nil || head != branch {
		return err
	}
	if now, err := t.Branch(ctx, branch); err != nil || now != commit {
		return err
	}
	var left, same []ChangedFile
	for _, c := range changes {
		have, err := w.state(c.Path)
		if err != nil {
			continue
		}
		if have == (content{c.OldMode, c.Old}) {
			left = append(left, c)
		}
		if have == (content{c.OldMode, c.Old}) || have == (content{c.NewMode, c.New}) {
			same = append(same, c)
		}
	}
	defer w.removePrepared(left)
	if err := w.copyIndex(); err != nil {
		return err
	}
	if err := w.prepare(ctx, same, left); err != nil {
		return err
	}
	if _, err := w.apply(ctx, left); err != nil {
		return err
	}
	return w.replaceIndex(ctx)
}

// A worktree is a work tree that is about to change. After begin it holds the lock of the
// index, as git does.
type worktree struct {
	target  *Target
	root    *os.Root
	deleted map[string]bool // deleted files; a new file may need their name for its directory
	scratch string          // a directory in the repository for what is prepared
	fresh   string          // the prepared index, under a name that no killed git uses
}

// scratch returns the directory in which a commit is prepared.
func (t *Target) scratch(commit Hash) string { return filepath.Join(t.own, "golem-"+string(commit)) }

// tree opens the work tree, with a directory for what is prepared.
func (t *Target) tree(scratch string, changes []ChangedFile) (*worktree, error) {
	root, err := os.OpenRoot(t.work)
	if err != nil {
		return nil, refusal("push", "", sandbox.ErrNotFound, "the target's work tree cannot be opened: "+cause(err).Error()+"; see that it is there, and yours")
	}
	w := &worktree{target: t, root: root, scratch: scratch, fresh: filepath.Join(scratch, "index-"+rand.Text()), deleted: map[string]bool{}}
	for _, c := range changes {
		if c.NewMode == None {
			w.deleted[c.Path] = true
		}
	}
	return w, nil
}

// begin takes the lock of the index. The lock is a hard link to a file of ours, so that
// Resume can tell after a kill that it is ours.
func (t *Target) begin(commit Hash, changes []ChangedFile) (*worktree, error) {
	w, err := t.tree(t.scratch(commit), changes)
	if err != nil {
		return nil, err
	}
	err = os.RemoveAll(w.scratch)
	if err == nil {
		err = os.Mkdir(w.scratch, 0o700)
	}
	lock := filepath.Join(w.scratch, "lock")
	if err == nil {
		err = os.WriteFile(lock, nil, 0o600)
	}
	if err == nil {
		err = os.Link(lock, filepath.Join(t.own, "index.lock"))
	}
	if err != nil {
		os.RemoveAll(w.scratch)
		w.root.Close()
		if errors.Is(err, fs.ErrExist) {
			return nil, refusal("push", "", sandbox.ErrConflict, "another git is at work in the target; let it end, or remove the index.lock that it left in .git, and try again")
		}
		return nil, refusal("push", "", sandbox.ErrInternal, "the target's repository cannot be written to: "+cause(err).Error()+"; free disk space or fix its permissions, and push again")
	}
	return w, nil
}

// end releases the lock and removes what was prepared.
func (w *worktree) end() {
	os.Remove(filepath.Join(w.target.own, "index.lock"))
	os.RemoveAll(w.scratch)
	w.root.Close()
}

// run runs a git with the prepared index, in the work tree. Attributes of the tree may
// name filters, but the configuration here defines none.
func (w *worktree) run(ctx context.Context, input string, args ...string) ([]byte, error) {
	s := w.target.store
	cmd := s.command(ctx, place{dir: w.target.view}, args...)
	cmd.Dir = w.target.work
	cmd.Env = append(cmd.Env, "GIT_WORK_TREE="+w.target.work, "GIT_INDEX_FILE="+w.fresh)
	cmd.Stdin = strings.NewReader(input)
	return s.run(cmd)
}

// findRemaining refuses a tree with changes that are not in the commit, and returns the
// changes of the commit that the tree does not have yet.
func (w *worktree) findRemaining(ctx context.Context, base Hash, changes []ChangedFile) (left []ChangedFile, err error) {
	wanted := make(map[string]ChangedFile, len(changes))
	for _, c := range changes {
		wanted[c.Path] = c
		have, err := w.state(c.Path)
		switch {
		case err != nil:
			return nil, err
		case have == content{c.NewMode, c.New}:
		case have == content{c.OldMode, c.Old}:
			if c.NewMode != None {
				err = w.refuseOccupied(c.Path)
			}
			if err != nil {
				return nil, err
			}
			left = append(left, c)
		default:
			return nil, dirtyError(c.Path)
		}
	}
	if err := w.copyIndex(); err != nil {
		return nil, err
	}
	from := base
	if base == "" {
		from = emptyTree
	}
	indexed, err := w.compare(ctx, "diff-index", "--cached", "-r", "--ignore-submodules=none", string(from))
	if err != nil {
		return nil, err
	}
	for _, c := range indexed {
		if want, ok := wanted[c.Path]; !ok || c.NewMode != want.NewMode || c.New != want.New {
			return nil, dirtyError(c.Path)
		}
	}
	// The refresh changes only the copy of the index, for files that have a new time and
	// the same content. It fails if a file has changed.
	w.run(ctx, "", "update-index", "-q", "--really-refresh", "--ignore-submodules")
	found, err := w.compare(ctx, "diff-files", "--ignore-submodules=all")
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if _, ok := wanted[c.Path]; !ok { // wanted files were compared above
			return nil, dirtyError(c.Path)
		}
	}
	return left, nil
}

// emptyTree is the hash of a tree without files.
const emptyTree Hash = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// compare runs a git command that compares, and returns the changes it prints.
func (w *worktree) compare(ctx context.Context, command string, args ...string) ([]ChangedFile, error) {
	all := append([]string{command, "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv"}, args...)
	out, err := w.run(ctx, "", append(all, "--")...)
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

func dirtyError(path string) error {
	return refusal("push", path, ErrDirty, "the target's work tree has a change there that is not the staged one; commit or stash it first; if git status shows none there, git stores that file differently from the disk (line ends, LFS, modes): refresh the index with git status, or push to a bare repository or a remote")
}

// copyIndex copies the user's index. A missing index counts as empty.
func (w *worktree) copyIndex() error {
	data, err := os.ReadFile(filepath.Join(w.target.own, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(w.fresh, data, 0o600)
	}
	if err != nil {
		return refusal("push", "", sandbox.ErrInternal, "the target's index cannot be copied: "+cause(err).Error()+"; free disk space or repair the index, and push again")
	}
	// Git looks for the other part of a split index in the view. It writes a whole index.
	list, _ := os.ReadDir(w.target.own)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "sharedindex.") {
			os.Symlink(filepath.Join(w.target.own, e.Name()), filepath.Join(w.target.view, e.Name())) // it may exist already
		}
	}
	return nil
}

// prepare writes the new files next to the files that they will replace, and an index
// with all changes. A full disk or missing permissions show up here, before the branch
// moves.
func (w *worktree) prepare(ctx context.Context, changes, left []ChangedFile) error {
	if err := w.writeNew(ctx, slices.DeleteFunc(slices.Clone(left), w.waitsForDeletion)); err != nil {
		return err
	}
	var entries bytes.Buffer
	for _, c := range changes {
		mode, hash := c.NewMode, c.New
		if mode == None {
			mode, hash = "0", nothing
		}
		fmt.Fprintf(&entries, "%s %s\t%s\x00", mode, hash, c.Path)
	}
	_, err := w.run(ctx, entries.String(), "update-index", "-z", "--index-info")
	return err
}

// waitsForDeletion reports whether a file needs a directory in the place of a file that
// the commit deletes. It can only be written after that.
func (w *worktree) waitsForDeletion(c ChangedFile) bool {
	for dir := parent(c.Path); dir != ""; dir = parent(dir) {
		if w.deleted[dir] {
			return true
		}
	}
	return false
}

// writeNew writes the new files next to their final names. For a deleted file it writes
// an empty one, which shows that the directory can be changed.
func (w *worktree) writeNew(ctx context.Context, left []ChangedFile) error {
	r, err := w.target.store.Reader(ctx, w.target.Objects())
	if err != nil {
		return err
	}
	defer r.Close()
	for _, c := range left {
		if err := w.writeBeside(r, c); err != nil {
			return err
		}
	}
	return nil
}

// writeBeside writes a new file next to its final name.
func (w *worktree) writeBeside(r *Reader, c ChangedFile) error {
	dir, base, err := w.openParent(c.Path, true)
	if err != nil {
		return err
	}
	dir.Remove(w.tempName(base))
	err = r.save(c.New, c.NewMode, dir, w.tempName(base))
	dir.Close()
	if err != nil {
		return refusal("push", c.Path, sandbox.ErrInternal, "it cannot be written in the target's work tree: "+cause(err).Error()+"; free disk space or fix the permissions of the directory, and push again")
	}
	return nil
}

// tempName returns the name under which a file is prepared. It has a fixed length,
// because the name of the file may have the maximum length. File tools neither show nor
// write such names, because a worker may have the tree too.
func (w *worktree) tempName(base string) string {
	sum := sha1.Sum([]byte(w.scratch + "/" + base))
	return ".golem-tmp-" + hex.EncodeToString(sum[:])
}

// removePrepared removes prepared files, and directories that were made for them.
func (w *worktree) removePrepared(changes []ChangedFile) {
	for _, c := range changes {
		dir, base, err := w.openParent(c.Path, false)
		if err != nil || dir == nil {
			continue
		}
		gone := dir.Remove(w.tempName(base)) == nil
		dir.Close()
		if gone {
			w.prune(parent(c.Path))
		}
	}
}

// prune removes a directory and its parents, as long as they are empty.
func (w *worktree) prune(path string) {
	for ; path != ""; path = parent(path) {
		dir, base, err := w.openParent(path, false)
		if err != nil || dir == nil {
			return
		}
		err = dir.Remove(base)
		dir.Close()
		if err != nil {
			return
		}
	}
}

// apply renames the new files over the old ones, and returns how many changes it made. It
// sorts deletions first, because a new file may need their name for its directory.
func (w *worktree) apply(ctx context.Context, left []ChangedFile) (done int, err error) {
	slices.SortStableFunc(left, func(a, b ChangedFile) int { return goneFirst(a.NewMode, b.NewMode) })
	for _, c := range left {
		if c.NewMode != None && w.waitsForDeletion(c) {
			if err := w.writeNew(ctx, []ChangedFile{c}); err != nil {
				w.prune(parent(c.Path))
				return done, err
			}
		}
		// Somebody may have written there since the check.
		if have, err := w.state(c.Path); err != nil || have != (content{c.OldMode, c.Old}) {
			return done, cmp.Or(err, dirtyError(c.Path))
		}
		dir, base, err := w.openParent(c.Path, false)
		if err == nil && dir == nil {
			err = dirtyError(c.Path)
		}
		if err != nil {
			return done, err
		}
		if c.NewMode == None {
			dir.Remove(w.tempName(base))
			err = dir.Remove(base)
		} else {
			removeEmpty(dir, base) // otherwise the rename fails
			err = dir.Rename(w.tempName(base), base)
		}
		dir.Close()
		if err != nil {
			return done, refusal("push", c.Path, sandbox.ErrInternal, "it cannot be renamed into place in the target's work tree: "+cause(err).Error()+"; nothing was pushed")
		}
		done++
		if c.NewMode == None {
			w.prune(parent(c.Path))
		}
	}
	return done, nil
}

// undo restores what apply replaced, in reverse order. It keeps files that somebody has
// changed since.
func (w *worktree) undo(ctx context.Context, done []ChangedFile) error {
	r, err := w.target.store.Reader(ctx, w.target.Objects())
	if err != nil {
		return err
	}
	defer r.Close()
	w.deleted = map[string]bool{}
	var all []error
	for _, c := range slices.Backward(done) {
		back := ChangedFile{Path: c.Path, OldMode: c.NewMode, NewMode: c.OldMode, Old: c.New, New: c.Old}
		err := w.writeBeside(r, back)
		if err == nil {
			_, err = w.apply(ctx, []ChangedFile{back})
			w.removePrepared([]ChangedFile{back})
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// cause returns the system's error without a path of the host.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	if errors.As(err, &path) {
		return path.Err
	}
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

// save writes a blob to a new file or symlink in a directory. For mode None it writes an
// empty file.
func (r *Reader) save(hash Hash, mode Mode, dir *os.Root, name string) error {
	var size int64
	var err error
	if mode != None {
		if _, size, err = r.request(string(hash)); err != nil {
			return err
		}
	}
	if mode == Link {
		to := make([]byte, size+1)
		if _, err = io.ReadFull(r.out, to); err == nil {
			err = dir.Symlink(string(to[:size]), name)
		}
		return err
	}
	perm := fs.FileMode(0o666) // less the user's umask, as with git
	if mode == Executable {
		perm = 0o777
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if mode == None {
		return f.Close()
	}
	_, err = io.CopyN(f, r.out, size) // no sync, because the objects are on the disk
	if err = errors.Join(err, f.Close()); err == nil {
		_, err = io.CopyN(io.Discard, r.out, 1)
	}
	return err
}

// replaceIndex renames the prepared index over the user's.
func (w *worktree) replaceIndex(ctx context.Context) error {
	w.run(ctx, "", "update-index", "-q", "--refresh", "--ignore-submodules") // the index is correct without this, but slower
	if err := durable.Move(w.fresh, filepath.Join(w.target.own, "index")); err != nil {
		return refusal("push", "", sandbox.ErrInternal, "the target's index cannot be written; git reset there makes it new")
	}
	return nil
}
