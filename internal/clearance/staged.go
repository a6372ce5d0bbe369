package clearance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// The codes that this package adds to those of the sandbox.
const (
	ErrNoChanges sandbox.Code = "no_changes" // the target has it all already
	ErrUnmoved   sandbox.Code = "unmoved"    // there is no need to stage it again
	ErrUncertain sandbox.Code = "uncertain"  // it is done, and something else may have been
	ErrDirty                  = git.ErrDirty // the work tree has changes of its own
)

// An Operation is what becomes of a file.
type Operation string

// The operations.
const (
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
)

// A File is one of a staged commit.
type File struct {
	Path      string    `json:"path"`
	Operation Operation `json:"operation"`
	OldMode   git.Mode  `json:"oldMode"`
	Mode      git.Mode  `json:"mode"`
	Old       git.Hash  `json:"old,omitempty"`  // the content before
	New       git.Hash  `json:"new,omitempty"`  // and after
	Size      int64     `json:"size,omitempty"` // of it
	// Passed is the name of a file that was there for the worker to read and has the
	// same content: it was passed through. Links is how many names the file had.
	Passed string `json:"passed,omitempty"`
	Links  uint64 `json:"links,omitempty"`
}

// A StagedCommit waits to be pushed. It never changes: its id is the hash of all
// the rest, so another content, message or target has another id.
type StagedCommit struct {
	ID        string    `json:"-"`
	Target    string    `json:"target"`
	Branch    string    `json:"branch"`
	Base      git.Hash  `json:"base,omitempty"` // the branch as it was, "" if it was not there
	From      git.Hash  `json:"from,omitempty"` // the commit that a new branch comes out of
	Commit    git.Hash  `json:"commit"`
	Message   string    `json:"message"`
	Files     []File    `json:"files"`
	CreatedAt time.Time `json:"createdAt"`
	Workers   []string  `json:"workers"` // who made it, from the outermost on
	Session   string    `json:"session,omitempty"`
	Tree      string    `json:"tree,omitempty"`   // whose files they are: the session's, "" for the program's own
	Intake    int64     `json:"intake,omitempty"` // bytes that who made it had taken in
	// Untrusted is a place that is not trusted and that who made it had read, "" for none:
	// who reads it may be steered by what is there.
	Untrusted string `json:"untrusted,omitempty"`
}

// parent is the commit that it comes after, "" for none.
func (c *StagedCommit) parent() git.Hash { return cmp.Or(c.Base, c.From) }

// Bytes is how much its files are in all.
func (c *StagedCommit) Bytes() (sum int64) {
	for _, f := range c.Files {
		sum += f.Size
	}
	return sum
}

// changes returns the files as git names their changes.
func (c *StagedCommit) changes() []git.Change {
	list := make([]git.Change, len(c.Files))
	for i, f := range c.Files {
		list[i] = git.Change{Path: f.Path, OldMode: f.OldMode, NewMode: f.Mode, Old: f.Old, New: f.New}
	}
	return list
}

// What is kept, and how much of it.
const (
	document   = "staged.json"
	maxStaged  = 1000      // commits that wait
	maxPushed  = 1000      // commits that are remembered to have been pushed
	maxContent = 256 << 20 // bytes of what one is kept as
)

// A phase is how far a staged commit has come.
type phase string

const (
	waits   phase = "staged"
	pushing phase = "pushing" // begun, and perhaps made
	pushed  phase = "pushed"
)

// An entry is what the document has of a staged commit.
type entry struct {
	ID     string      `json:"id"`
	Phase  phase       `json:"phase"`
	Commit git.Hash    `json:"commit"`
	Result *PushResult `json:"result,omitempty"`
	Shown  bool        `json:"shown,omitempty"` // the user was shown all of it
}

// A Desk keeps what is staged, for all processes of a program.
type Desk struct {
	folder  *state.Folder
	blobs   state.Blobs
	leases  state.Leases
	store   *git.Store
	targets []Target
	proof   git.Credentials
	tree    string // whose files are pulled into: the name of a session, "" for the program's own
}

// Open returns the desk in a program's state directory. The credentials are for
// remotes, and only for the gits that reach them.
func Open(folder *state.Folder, store *git.Store, targets []Target, proof git.Credentials) (*Desk, error) {
	blobs, err := folder.Blobs("staged")
	if err != nil {
		return nil, err
	}
	leases, err := folder.Leases()
	if err != nil {
		return nil, err
	}
	return &Desk{folder: folder, blobs: blobs, leases: leases, store: store, targets: targets, proof: proof}, nil
}

// In returns the desk for the files of a session that has its own, by the session's name.
func (d *Desk) In(tree string) *Desk {
	in := *d
	in.tree = tree
	return &in
}

// A Request is what a worker wants staged.
type Request struct {
	Target  string // "" for the only one
	Branch  string // "" for the target's own
	Message string
	Files   []git.File
	Author  git.Person
	Commit  git.Person // who commits
	Time    time.Time
	Workers []string
	Session string
	Intake  int64

	Untrusted string // a place that who stages has read

	// Links returns how many names a file has, 0 if that is not known, and Passed a
	// file that was read and has the same content. Both may be missing.
	Links  func(path string) uint64
	Passed func(size int64, content git.Hash) string
}

// Names returns the files that the branch of a target has at a path or below it, ""
// for the target's own branch and for all.
func (d *Desk) Names(ctx context.Context, target, branch, path string) ([]string, error) {
	t, at, err := d.open(ctx, target)
	if err != nil {
		return nil, err
	}
	base, from, err := t.parents(ctx, at, cmp.Or(branch, t.Branch))
	if err != nil {
		return nil, err
	}
	return d.store.Names(ctx, at.objects(), cmp.Or(base, from), path)
}

// Stage keeps a commit for a target, and reaches no network. Files that the
// branch has already are left out.
func (d *Desk) Stage(ctx context.Context, r Request) (*StagedCommit, error) {
	t, err := d.target(r.Target)
	if err != nil {
		return nil, err
	}
	c := &StagedCommit{Target: t.Name, Branch: cmp.Or(r.Branch, t.Branch), Message: r.Message, CreatedAt: r.Time.UTC(),
		Workers: r.Workers, Session: r.Session, Tree: d.tree, Intake: r.Intake, Untrusted: r.Untrusted}
	at, err := d.reach(ctx, t)
	if err != nil {
		return nil, err
	}
	if c.Base, c.From, err = t.parents(ctx, at, c.Branch); err != nil {
		return nil, err
	}
	c.Commit, err = d.store.Stage(ctx, at.objects(), git.Commit{
		Base: c.parent(), Message: r.Message, Author: r.Author, Committer: r.Commit, Time: r.Time, Files: r.Files,
	})
	if err != nil {
		return nil, err
	}
	changes, err := d.store.Changes(ctx, at.objects(), c.parent(), c.Commit)
	if err != nil {
		return nil, err
	}
	if c.Files, err = operations(r.Files, changes); err != nil {
		return nil, err
	}
	r.describe(c.Files)
	if err := d.keep(c); err != nil {
		return nil, err
	}
	d.tidy(r.Time)
	return c, nil
}

// parents returns the commit of a branch as it is staged against, "" if there is none,
// and then the one that it comes out of: a new branch comes out of the target's own.
func (t Target) parents(ctx context.Context, at source, branch string) (base, from git.Hash, err error) {
	base, err = at.branch(ctx, branch)
	if err == nil && base == "" && branch != t.Branch {
		from, err = at.branch(ctx, t.Branch)
	}
	return base, from, err
}

// describe adds what is known of the files that were staged.
func (r *Request) describe(files []File) {
	sizes := make(map[string]int64, len(r.Files))
	for _, f := range r.Files {
		sizes[f.Path] = f.Size
	}
	for i := range files {
		f := &files[i]
		if f.Mode != git.None {
			f.Size = sizes[f.Path]
		}
		if f.Mode != git.Plain && f.Mode != git.Executable {
			continue
		}
		if r.Links != nil {
			f.Links = r.Links(f.Path)
		}
		if r.Passed != nil {
			f.Passed = r.Passed(sizes[f.Path], f.New)
		}
	}
}

// operations says what becomes of each file. What was asked for is all that may
// change: a file in the place of a directory would delete all that is in it.
func operations(asked []git.File, changes []git.Change) ([]File, error) {
	wanted := make(map[string]bool, len(asked))
	for _, f := range asked {
		wanted[f.Path] = true
	}
	files := make([]File, 0, len(changes))
	gone := map[string]bool{}
	for _, c := range changes {
		if !wanted[c.Path] {
			return nil, &sandbox.Error{Op: "stage", Path: c.Path, Code: sandbox.ErrConflict,
				Hint: "it would go, for its folder is staged as a file; stage its deletion as well"}
		}
		f := File{Path: c.Path, Operation: Update, OldMode: c.OldMode, Mode: c.NewMode, Old: c.Old, New: c.New}
		switch git.None {
		case c.OldMode:
			f.Operation = Create
		case c.NewMode:
			f.Operation, gone[c.Path] = Delete, true
		}
		files = append(files, f)
	}
	for _, f := range asked {
		if f.Mode == git.None && !gone[f.Path] {
			return nil, &sandbox.Error{Op: "stage", Path: f.Path, Code: sandbox.ErrNotFound, Hint: "it is neither here nor on the branch"}
		}
	}
	if len(files) == 0 {
		return nil, &sandbox.Error{Op: "stage", Code: ErrNoChanges, Hint: "the branch has these files as they are; there is nothing to stage"}
	}
	return files, nil
}

// keep puts a staged commit on the disk, and its id in the document.
func (d *Desk) keep(c *StagedCommit) error {
	data, err := pack(c)
	if err != nil {
		return err
	}
	if c.ID, err = d.blobs.Put(bytes.NewReader(data)); err != nil {
		return err
	}
	return d.update(func(list []entry) ([]entry, error) {
		if slices.ContainsFunc(list, func(e entry) bool { return e.ID == c.ID }) {
			return list, nil
		}
		if waiting(list) >= maxStaged {
			return nil, &sandbox.Error{Op: "stage", Code: sandbox.ErrLimit, Hint: fmt.Sprintf("%d commits wait already; push or discard some", maxStaged)}
		}
		return append(list, entry{ID: c.ID, Phase: waits, Commit: c.Commit}), nil
	})
}

func waiting(list []entry) (n int) {
	for _, e := range list {
		if e.Phase != pushed {
			n++
		}
	}
	return n
}

// update changes the document.
func (d *Desk) update(change func([]entry) ([]entry, error)) error {
	return d.folder.Update(document, func(old []byte) ([]byte, error) {
		list, err := entries(old)
		if err != nil {
			return nil, err
		}
		if list, err = change(list); err != nil {
			return nil, err
		}
		for over := len(list) - waiting(list) - maxPushed; over > 0; over-- {
			i := slices.IndexFunc(list, func(e entry) bool { return e.Phase == pushed })
			list = slices.Delete(list, i, i+1)
		}
		return json.Marshal(list)
	})
}

// MarkShown notes that the user was shown all of a staged commit, by its whole id.
func (d *Desk) MarkShown(id string) error {
	return d.update(func(list []entry) ([]entry, error) {
		for i := range list {
			if list[i].ID == id {
				list[i].Shown = true
			}
		}
		return list, nil
	})
}

// WasShown reports whether the user was shown all of a staged commit, by its whole id.
func (d *Desk) WasShown(id string) (bool, error) {
	list, err := d.list()
	return slices.ContainsFunc(list, func(e entry) bool { return e.ID == id && e.Shown }), err
}

func entries(data []byte) (list []entry, err error) {
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, damaged(document)
	}
	return list, nil
}

// damaged is the error of a document that cannot be read.
func damaged(name string) error {
	return &sandbox.Error{Op: "staged", Code: sandbox.ErrInternal, Hint: name + " in the state folder is damaged; move it away to start anew"}
}

// list returns the entries of the document.
func (d *Desk) list() ([]entry, error) {
	data, err := d.folder.Read(document)
	if err != nil {
		return nil, err
	}
	return entries(data)
}

// Waiting returns the ids of the staged commits that wait, as a state directory has them.
func Waiting(folder *state.Folder) ([]string, error) {
	data, err := folder.Read(document)
	if err != nil {
		return nil, err
	}
	list, err := entries(data)
	var ids []string
	for _, e := range list {
		if e.Phase != pushed {
			ids = append(ids, e.ID)
		}
	}
	return ids, err
}

// List returns what waits, in the order in which it was staged.
func (d *Desk) List() ([]*StagedCommit, error) {
	list, err := d.list()
	if err != nil {
		return nil, err
	}
	var all []*StagedCommit
	for _, e := range list {
		if e.Phase == pushed {
			continue
		}
		c, err := d.read(e.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Get returns what waits under an id or the beginning of one, "" for the only
// one that waits.
func (d *Desk) Get(id string) (*StagedCommit, error) {
	e, err := d.find(id, false)
	if err != nil {
		return nil, err
	}
	return d.read(e.ID)
}

// minPrefix is how much of an id names a commit.
const minPrefix = 6

// find returns the entry of an id. One that was pushed is found by its id if
// that is wanted.
func (d *Desk) find(id string, done bool) (entry, error) {
	list, err := d.list()
	if err != nil {
		return entry{}, err
	}
	var fits []entry
	var ids []string
	for _, e := range list {
		if e.Phase != pushed {
			ids = append(ids, e.ID[:min(12, len(e.ID))])
		}
		switch {
		case id == "" && e.Phase != pushed, id == e.ID && (done || e.Phase != pushed),
			len(id) >= minPrefix && strings.HasPrefix(e.ID, id) && (done || e.Phase != pushed):
			fits = append(fits, e)
		}
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	hint := "nothing is staged; stage something first"
	if len(ids) > 0 {
		hint = fmt.Sprintf("staged are %s; name one, or at least %d characters of it", strings.Join(ids[:min(len(ids), 20)], ", "), minPrefix)
	}
	return entry{}, &sandbox.Error{Op: "staged", Path: id, Code: sandbox.ErrNotFound, Hint: hint}
}

// read returns a staged commit as it was kept. One that was changed since no
// longer has its id, and is an error.
func (d *Desk) read(id string) (*StagedCommit, error) {
	data, err := d.blobs.Get(id, maxContent)
	if err != nil {
		return nil, err
	}
	return unpack(data, id)
}

// Discard lets a staged commit go. One of which a push was begun is asked after
// first; if the target does not answer it goes all the same, and the error, which
// is ErrUncertain, says that it may have been pushed.
func (d *Desk) Discard(ctx context.Context, id string) error {
	e, err := d.find(id, false)
	if err != nil {
		return err
	}
	c, err := d.read(e.ID)
	if err != nil {
		return err
	}
	release, err := d.leases.Take(ctx, "push "+c.Target, "golem discard")
	if err != nil {
		return err
	}
	defer release()
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d.settleAll(ask, c.Target) // what it does not find out is told below
	if e, err = d.find(e.ID, true); err != nil {
		return err
	}
	if e.Phase == pushed {
		return &sandbox.Error{Op: "discard", Path: e.ID[:12], Code: sandbox.ErrConflict, Hint: "it was pushed as " + e.Result.CommitSHA}
	}
	err = d.update(func(list []entry) ([]entry, error) {
		return slices.DeleteFunc(list, func(have entry) bool { return have.ID == e.ID }), nil
	})
	if err = errors.Join(err, d.blobs.Remove(e.ID)); err != nil {
		return err
	}
	d.drop(c.Commit)
	if e.Phase == pushing {
		return &sandbox.Error{Op: "discard", Path: e.ID[:12], Code: ErrUncertain,
			Hint: "it is discarded, but a push of it was begun, and the target does not say whether it was made; look there for commit " + string(c.Commit)}
	}
	return nil
}
