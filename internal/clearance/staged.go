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
	ErrNoChanges sandbox.Code = "no_changes" // the target already has all of it
	ErrUnmoved   sandbox.Code = "unmoved"    // it need not be staged again
	ErrUncertain sandbox.Code = "uncertain"  // it was discarded, but may have been pushed
	ErrDirty                  = git.ErrDirty // the work tree has other changes
)

// An Operation is what a commit does with a file.
type Operation string

// The operations.
const (
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
)

// A File is a file of a staged commit.
type File struct {
	Path      string    `json:"path"`
	Operation Operation `json:"operation"`
	OldMode   git.Mode  `json:"oldMode"`
	Mode      git.Mode  `json:"mode"`
	Old       git.Hash  `json:"old,omitempty"`  // the old content
	New       git.Hash  `json:"new,omitempty"`  // the new content
	Size      int64     `json:"size,omitempty"` // the size of the new content
	// Passed is the name of a file with the same content that the worker could read: the
	// content passed through unchanged. Links is the number of hard links of the file.
	Passed string `json:"passed,omitempty"`
	Links  uint64 `json:"links,omitempty"`
}

// A StagedCommit is a commit that waits to be pushed. It never changes: its ID is the
// hash of all other fields, so another content, message or target has another ID.
type StagedCommit struct {
	ID        string    `json:"-"`
	Target    string    `json:"target"`
	Branch    string    `json:"branch"`
	Base      git.Hash  `json:"base,omitempty"` // commit of the branch when it was staged, "" for a new branch
	From      git.Hash  `json:"from,omitempty"` // commit that a new branch starts from
	Commit    git.Hash  `json:"commit"`
	Message   string    `json:"message"`
	Files     []File    `json:"files"`
	CreatedAt time.Time `json:"createdAt"`
	Workers   []string  `json:"workers"` // the workers that made it, the outermost first
	Session   string    `json:"session,omitempty"`
	Tree      string    `json:"tree,omitempty"`   // session whose files they are, "" for the program's own
	Intake    int64     `json:"intake,omitempty"` // bytes that the workers had read
	// Untrusted is an untrusted mount that the workers had read, "" for none. Its content
	// may have steered them.
	Untrusted string `json:"untrusted,omitempty"`
}

// parent returns the parent commit, "" for none.
func (c *StagedCommit) parent() git.Hash { return cmp.Or(c.Base, c.From) }

// Bytes returns the total size of the new contents.
func (c *StagedCommit) Bytes() (sum int64) {
	for _, f := range c.Files {
		sum += f.Size
	}
	return sum
}

// changes returns the files as changes of package git.
func (c *StagedCommit) changes() []git.Change {
	list := make([]git.Change, len(c.Files))
	for i, f := range c.Files {
		list[i] = git.Change{Path: f.Path, OldMode: f.OldMode, NewMode: f.Mode, Old: f.Old, New: f.New}
	}
	return list
}

// The name of the document, and limits.
const (
	document   = "staged.json"
	maxStaged  = 1000      // waiting commits
	maxPushed  = 1000      // pushed commits that are remembered
	maxContent = 256 << 20 // bytes of one stored commit
)

// A phase is the state of a staged commit.
type phase string

const (
	waits   phase = "staged"
	pushing phase = "pushing" // begun, and perhaps finished
	pushed  phase = "pushed"
)

// An entry is a staged commit in the document.
type entry struct {
	ID     string      `json:"id"`
	Phase  phase       `json:"phase"`
	Commit git.Hash    `json:"commit"`
	Result *PushResult `json:"result,omitempty"`
	Shown  bool        `json:"shown,omitempty"` // the user has seen all of it
}

// A Desk keeps staged commits, for all processes of a program.
type Desk struct {
	folder  *state.Dir
	blobs   state.Blobs
	leases  state.Leases
	store   *git.Store
	targets []Target
	proof   git.Credentials
	tree    string // session whose files are pulled into, "" for the program's own
}

// Open opens the desk in a program's state directory. Only a git that reaches a remote,
// the API of GitHub and hooks get values from the credentials.
func Open(folder *state.Dir, store *git.Store, targets []Target, proof git.Credentials) (*Desk, error) {
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

// In returns the desk for the files of a session, by the session's name.
func (d *Desk) In(tree string) *Desk {
	in := *d
	in.tree = tree
	return &in
}

// A Request is what a worker wants to stage.
type Request struct {
	Target  string // "" for the only one, or origin
	Branch  string // "" for the target's own
	Message string
	Files   []git.File
	Author  git.Person
	Commit  git.Person // the committer
	Time    time.Time
	Workers []string
	Session string
	Intake  int64

	Untrusted string // an untrusted mount that the worker has read

	// Links returns the number of hard links of a file, 0 if unknown. Passed returns a
	// file with the same content that was read, "" for none. Both may be nil.
	Links  func(path string) uint64
	Passed func(size int64, content git.Hash) string
}

// Names returns the files that a branch of a target has at a path or below it. An empty
// branch means the target's own, an empty path means all files.
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

// Stage stores a commit for a target. It uses no network. It skips files that the branch
// already has.
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

// parents returns the commit of a branch to stage on, "" if there is none. A new branch
// starts from the target's own branch, and from is the commit of that.
func (t Target) parents(ctx context.Context, at source, branch string) (base, from git.Hash, err error) {
	base, err = at.branch(ctx, branch)
	if err == nil && base == "" && branch != t.Branch {
		from, err = at.branch(ctx, t.Branch)
	}
	return base, from, err
}

// describe sets the sizes, links and passed files of staged files.
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

// operations returns what the commit does with each file. Only files of the request may
// change: a file in the place of a directory would delete everything in it.
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
				Hint: "it would be deleted, because its directory is staged as a file; stage its deletion as well"}
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

// keep writes a staged commit to the disk, and its ID to the document.
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

// MarkShown records that the user has seen all of a staged commit, by its full ID.
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

// WasShown reports whether the user has seen all of a staged commit, by its full ID.
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

// damaged returns the error for a document that cannot be read.
func damaged(name string) error {
	return &sandbox.Error{Op: "staged", Code: sandbox.ErrInternal, Hint: name + " in the state directory is damaged; move it away to start again"}
}

// list returns the entries of the document.
func (d *Desk) list() ([]entry, error) {
	data, err := d.folder.Read(document)
	if err != nil {
		return nil, err
	}
	return entries(data)
}

// Waiting returns the IDs of the waiting commits in a state directory.
func Waiting(folder *state.Dir) ([]string, error) {
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

// List returns the waiting commits, in the order in which they were staged.
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

// Get returns the waiting commit with an ID or a prefix of one. An empty ID means the
// only waiting commit.
func (d *Desk) Get(id string) (*StagedCommit, error) {
	e, err := d.find(id, false)
	if err != nil {
		return nil, err
	}
	return d.read(e.ID)
}

// minPrefix is the shortest prefix of an ID that names a commit.
const minPrefix = 6

// find returns the entry for an ID or prefix. It finds pushed commits only if done is
// set.
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

// read returns a staged commit. It is an error if the stored text was changed, because
// then it no longer matches the ID.
func (d *Desk) read(id string) (*StagedCommit, error) {
	data, err := d.blobs.Get(id, maxContent)
	if err != nil {
		return nil, err
	}
	return unpack(data, id)
}

// Discard removes a staged commit. If a push of it was begun, Discard first asks the
// target whether it happened. If the target does not answer, Discard removes the commit
// all the same, and the error ErrUncertain says that it may have been pushed.
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
	d.settleAll(ask, c.Target) // the error below covers what it does not find out
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
