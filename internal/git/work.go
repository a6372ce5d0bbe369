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

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/sandbox"
)

// ErrDirty is the code of a work tree that has changes of its own.
const ErrDirty sandbox.Code = "dirty"

// Advance moves the branch that is checked out to a commit that the target has,
// and its index and work tree with it, or nothing of it. The tree must be as the
// branch is, or have the changes of the commit already. What is killed is
// finished or taken back by Resume, so the caller writes down what it is about to
// do.
func (t *Target) Advance(ctx context.Context, branch string, base, commit Hash, changes []Change) error {
	if err := t.checkedOut(branch); err != nil {
		return err
	}
	w, err := t.begin(commit, changes)
	if err != nil {
		return err
	}
	defer w.end()
	left, err := w.clean(ctx, base, changes)
	if err != nil {
		return err
	}
	defer w.clear(left)
	if err := w.prepare(ctx, changes, left); err != nil {
		return err
	}
	if err := t.consult(ctx, branch, base, commit); err != nil {
		return err
	}
	if err := t.move(ctx, branch, base, commit); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // what was begun is ended
	if done, err := w.apply(ctx, left); err != nil {
		w.clear(left)
		return errors.Join(err, w.undo(ctx, left[:done]), t.moveBack(ctx, branch, commit, base))
	}
	return w.index(ctx)
}

// Resume finishes what a killed Advance left, if the branch has moved and is still
// checked out as it was, or takes it back. Files that were changed since are left alone.
func (t *Target) Resume(ctx context.Context, branch string, commit Hash, changes []Change) error {
	room := t.room(commit)
	if _, err := os.Lstat(room); errors.Is(err, fs.ErrNotExist) {
		return nil // it had not begun, or was finished
	}
	lock := filepath.Join(t.own, "index.lock")
	ours, err := os.Lstat(filepath.Join(room, "lock"))
	if there, look := os.Lstat(lock); err == nil && look == nil && os.SameFile(ours, there) {
		if err := os.Remove(lock); err != nil {
			return trouble(err)
		}
	}
	w, err := t.begin(commit, changes)
	if err != nil {
		return err
	}
	defer w.end()
	w.clear(changes)
	head, err := t.Head()
	if err != nil || head != branch {
		return err
	}
	if now, err := t.Branch(ctx, branch); err != nil || now != commit {
		return err
	}
	var left, same []Change
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
	defer w.clear(left)
	if err := w.copyIndex(); err != nil {
		return err
	}
	if err := w.prepare(ctx, same, left); err != nil {
		return err
	}
	if _, err := w.apply(ctx, left); err != nil {
		return err
	}
	return w.index(ctx)
}

// A worktree is one that is about to change. It holds the lock of the index, as
// every git does that changes it.
type worktree struct {
	target *Target
	root   *os.Root
	goes   map[string]bool // the files that go, for another may need their name for its directory
	room   string          // a directory in the repository, for what is prepared
	fresh  string          // the index in it, under a name that no killed git knows
}

// room is the directory in which a commit is prepared.
func (t *Target) room(commit Hash) string { return filepath.Join(t.own, "golem-"+string(commit)) }

// tree opens the work tree, with a room for what is prepared.
func (t *Target) tree(room string, changes []Change) (*worktree, error) {
	root, err := os.OpenRoot(t.work)
	if err != nil {
		return nil, refusal("push", "", sandbox.ErrNotFound, "the target's work tree cannot be opened: "+cause(err).Error()+"; see that it is there, and yours")
	}
	w := &worktree{target: t, root: root, room: room, fresh: filepath.Join(room, "index-"+rand.Text()), goes: map[string]bool{}}
	for _, c := range changes {
		if c.NewMode == None {
			w.goes[c.Path] = true
		}
	}
	return w, nil
}

// begin takes the lock of the index. It is a second name for a file of ours, so
// that whose it is can be told after a kill.
func (t *Target) begin(commit Hash, changes []Change) (*worktree, error) {
	w, err := t.tree(t.room(commit), changes)
	if err != nil {
		return nil, err
	}
	err = os.RemoveAll(w.room)
	if err == nil {
		err = os.Mkdir(w.room, 0o700)
	}
	lock := filepath.Join(w.room, "lock")
	if err == nil {
		err = os.WriteFile(lock, nil, 0o600)
	}
	if err == nil {
		err = os.Link(lock, filepath.Join(t.own, "index.lock"))
	}
	if err != nil {
		os.RemoveAll(w.room)
		w.root.Close()
		if errors.Is(err, fs.ErrExist) {
			return nil, refusal("push", "", sandbox.ErrConflict, "another git is at work in the target; let it end, or remove the index.lock that it left in .git, and try again")
		}
		return nil, refusal("push", "", sandbox.ErrInternal, "the target's repository cannot be written to: "+cause(err).Error()+"; make room, or make it yours to write, and push again")
	}
	return w, nil
}

// end gives the lock back and removes what was prepared.
func (w *worktree) end() {
	os.Remove(filepath.Join(w.target.own, "index.lock"))
	os.RemoveAll(w.room)
	w.root.Close()
}

// run runs a git with the prepared index, in the work tree. Attributes of the
// tree name filters, but no configuration here says what these are.
func (w *worktree) run(ctx context.Context, input string, args ...string) ([]byte, error) {
	s := w.target.store
	cmd := s.command(ctx, place{dir: w.target.view}, args...)
	cmd.Dir = w.target.work
	cmd.Env = append(cmd.Env, "GIT_WORK_TREE="+w.target.work, "GIT_INDEX_FILE="+w.fresh)
	cmd.Stdin = strings.NewReader(input)
	return s.run(cmd)
}

// clean refuses a tree with changes that are not those of the commit, and
// returns those of the commit that the tree does not have yet.
func (w *worktree) clean(ctx context.Context, base Hash, changes []Change) (left []Change, err error) {
	wanted := make(map[string]Change, len(changes))
	for _, c := range changes {
		wanted[c.Path] = c
		have, err := w.state(c.Path)
		switch {
		case err != nil:
			return nil, err
		case have == content{c.NewMode, c.New}:
		case have == content{c.OldMode, c.Old}:
			if c.NewMode != None {
				err = w.vacant(c.Path)
			}
			if err != nil {
				return nil, err
			}
			left = append(left, c)
		default:
			return nil, dirty(c.Path)
		}
	}
	if err := w.copyIndex(); err != nil {
		return nil, err
	}
	from := base
	if base == "" {
		from = emptyTree
	}
	indexed, err := w.differ(ctx, "diff-index", "--cached", "-r", "--ignore-submodules=none", string(from))
	if err != nil {
		return nil, err
	}
	for _, c := range indexed {
		if want, ok := wanted[c.Path]; !ok || c.NewMode != want.NewMode || c.New != want.New {
			return nil, dirty(c.Path)
		}
	}
	// The refresh is of the copy, for files of which the time alone has changed;
	// nothing of the user's is written. It fails where something has changed.
	w.run(ctx, "", "update-index", "-q", "--really-refresh", "--ignore-submodules")
	found, err := w.differ(ctx, "diff-files", "--ignore-submodules=all")
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if _, ok := wanted[c.Path]; !ok { // those that are wanted were compared above
			return nil, dirty(c.Path)
		}
	}
	return left, nil
}

// emptyTree is the tree of no files.
const emptyTree Hash = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// differ runs one of git's commands that compare.
func (w *worktree) differ(ctx context.Context, command string, args ...string) ([]Change, error) {
	all := append([]string{command, "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv"}, args...)
	out, err := w.run(ctx, "", append(all, "--")...)
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

func dirty(path string) error {
	return refusal("push", path, ErrDirty, "the target's work tree has a change there that is not the staged one; commit it or put it away first; if git status shows none there, git keeps that file otherwise than it is on the disk (line ends, LFS, modes): let it look again with git status, or push to a bare repository or a remote")
}

// copyIndex makes a copy of the user's index. One that is missing is empty.
func (w *worktree) copyIndex() error {
	data, err := os.ReadFile(filepath.Join(w.target.own, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(w.fresh, data, 0o600)
	}
	if err != nil {
		return refusal("push", "", sandbox.ErrInternal, "the target's index cannot be copied: "+cause(err).Error()+"; make room, or the index one that git reads, and push again")
	}
	// The rest of an index that is split is looked for in the view. What is written is whole.
	list, _ := os.ReadDir(w.target.own)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "sharedindex.") {
			os.Symlink(filepath.Join(w.target.own, e.Name()), filepath.Join(w.target.view, e.Name())) // it may be there
		}
	}
	return nil
}

// prepare writes the new files beside those that they will replace, and an index
// that has all changes. What fails for want of room or rights fails here.
func (w *worktree) prepare(ctx context.Context, changes, left []Change) error {
	if err := w.place(ctx, slices.DeleteFunc(slices.Clone(left), w.late)); err != nil {
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

// late reports whether a file comes to a directory of which a file that goes has the
// name. It can only be written when that is gone.
func (w *worktree) late(c Change) bool {
	for dir := parent(c.Path); dir != ""; dir = parent(dir) {
		if w.goes[dir] {
			return true
		}
	}
	return false
}

// place writes the new files. For one that goes, an empty one shows that its
// directory can be changed.
func (w *worktree) place(ctx context.Context, left []Change) error {
	r, err := w.target.store.Reader(ctx, w.target.Objects())
	if err != nil {
		return err
	}
	defer r.Close()
	for _, c := range left {
		if err := w.put(r, c); err != nil {
			return err
		}
	}
	return nil
}

// put writes a new file beside its place.
func (w *worktree) put(r *Reader, c Change) error {
	dir, base, err := w.enter(c.Path, true)
	if err != nil {
		return err
	}
	dir.Remove(w.beside(base))
	err = r.save(c.New, c.NewMode, dir, w.beside(base))
	dir.Close()
	if err != nil {
		return refusal("push", c.Path, sandbox.ErrInternal, "it cannot be written in the target's work tree: "+cause(err).Error()+"; make room, or the folder yours to write, and push again")
	}
	return nil
}

// beside returns the name under which a file is prepared: of one length, for
// that of the file may be as long as names can be, and one that no file tool shows or
// writes, for the tree may be a worker's, too.
func (w *worktree) beside(base string) string {
	sum := sha1.Sum([]byte(w.room + "/" + base))
	return ".golem-tmp-" + hex.EncodeToString(sum[:])
}

// clear removes what was prepared, and directories that were made for it.
func (w *worktree) clear(changes []Change) {
	for _, c := range changes {
		dir, base, err := w.enter(c.Path, false)
		if err != nil || dir == nil {
			continue
		}
		gone := dir.Remove(w.beside(base)) == nil
		dir.Close()
		if gone {
			w.prune(parent(c.Path))
		}
	}
}

// prune removes a directory and those above it, as far as they are empty.
func (w *worktree) prune(path string) {
	for ; path != ""; path = parent(path) {
		dir, base, err := w.enter(path, false)
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

// apply puts the new files in the place of the old ones: first those that go, for
// another may have the name of their directory. It sorts them so, and returns how many of
// them were done.
func (w *worktree) apply(ctx context.Context, left []Change) (done int, err error) {
	slices.SortStableFunc(left, func(a, b Change) int { return goneFirst(a.NewMode, b.NewMode) })
	for _, c := range left {
		if c.NewMode != None && w.late(c) {
			if err := w.place(ctx, []Change{c}); err != nil {
				w.prune(parent(c.Path))
				return done, err
			}
		}
		// Somebody may have written there since it was looked at.
		if have, err := w.state(c.Path); err != nil || have != (content{c.OldMode, c.Old}) {
			return done, cmp.Or(err, dirty(c.Path))
		}
		dir, base, err := w.enter(c.Path, false)
		if err == nil && dir == nil {
			err = dirty(c.Path)
		}
		if err != nil {
			return done, err
		}
		if c.NewMode == None {
			dir.Remove(w.beside(base))
			err = dir.Remove(base)
		} else {
			hollow(dir, base) // or else the next step fails
			err = dir.Rename(w.beside(base), base)
		}
		dir.Close()
		if err != nil {
			return done, refusal("push", c.Path, sandbox.ErrInternal, "it cannot get its place in the target's work tree: "+cause(err).Error()+"; nothing was pushed")
		}
		done++
		if c.NewMode == None {
			w.prune(parent(c.Path))
		}
	}
	return done, nil
}

// undo brings back what was replaced, the last first. What somebody has written there
// since stays.
func (w *worktree) undo(ctx context.Context, done []Change) error {
	r, err := w.target.store.Reader(ctx, w.target.Objects())
	if err != nil {
		return err
	}
	defer r.Close()
	w.goes = map[string]bool{}
	var all []error
	for _, c := range slices.Backward(done) {
		back := Change{Path: c.Path, OldMode: c.NewMode, NewMode: c.OldMode, Old: c.New, New: c.Old}
		err := w.put(r, back)
		if err == nil {
			_, err = w.apply(ctx, []Change{back})
			w.clear([]Change{back})
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// cause returns what the system says, without a path of the host.
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

// save writes a blob to a new file or link of a directory; of mode None, nothing
// to a file.
func (r *Reader) save(hash Hash, mode Mode, dir *os.Root, name string) error {
	var size int64
	var err error
	if mode != None {
		if _, size, err = r.ask(string(hash)); err != nil {
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
	perm := fs.FileMode(0o666) // the user's umask takes from it, as with git
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
	_, err = io.CopyN(f, r.out, size) // and no sync: the objects are on the disk
	if err = errors.Join(err, f.Close()); err == nil {
		_, err = io.CopyN(io.Discard, r.out, 1)
	}
	return err
}

// index puts the prepared index in the place of the user's.
func (w *worktree) index(ctx context.Context) error {
	w.run(ctx, "", "update-index", "-q", "--refresh", "--ignore-submodules") // it is right without, and slower
	if err := durable.Move(w.fresh, filepath.Join(w.target.own, "index")); err != nil {
		return refusal("push", "", sandbox.ErrInternal, "the target's index cannot be written; git reset there makes it new")
	}
	return nil
}
