package clearance

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/records/state"
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
	// Untrusted is an untrusted mount that the workers had read, or the documents of golem
	// intake that they had read there, "" for none. The content may
	// have steered them.
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
func (c *StagedCommit) changes() []git.ChangedFile {
	list := make([]git.ChangedFile, len(c.Files))
	for i, f := range c.Files {
		list[i] = git.ChangedFile{Path: f.Path, OldMode: f.OldMode, NewMode: f.Mode, Old: f.Old, New: f.New}
	}
	return list
}

// A Target is a repository that results are pushed to. It comes only from the user's
// configuration.
type Target struct {
	Name   string
	Type   string       // local, bare, remote or github
	Path   sandbox.Host // for local and bare
	URL    string       // for remote; for github its server, "" for github.com
	Repo   string       // for github, owner/name
	Branch string
	Off    string            // the line of a policy that forbids the network, "" for none
	Hooks  bool              // run the target's own hooks, if it is on this machine
	Web    http.RoundTripper // transport for GitHub's API; nil connects directly
}

// far reports whether the target is reached over the network. A commit for it is staged
// on what was last pulled.
func (t Target) far() bool {
	return t.Type == "github" || t.Type == "remote" && !strings.HasPrefix(t.URL, "file:")
}

// shown returns where to see a commit of a target, without a path of the host.
func (t Target) shown(commit git.Hash) string {
	switch {
	case t.Type == "github":
		return t.server() + "/" + t.Repo + "/commit/" + string(commit)
	case t.URL == "":
		return t.Name
	}
	return t.URL
}

// target returns the target of a name. An empty name means the only target, or origin.
func (d *Commits) target(name string) (Target, error) {
	var names []string
	for _, t := range d.targets {
		if t.Name == name || name == "" && (len(d.targets) == 1 || t.Name == "origin") {
			if t.Off != "" {
				hint := t.Off + " does not allow its directory; use a target below the roots that it lists"
				if t.far() {
					hint = t.Off + " does not allow its host; use a target on this machine"
				}
				return Target{}, &sandbox.Error{Op: "target", Path: t.Name, Code: "blocked", Hint: hint}
			}
			return t, nil
		}
		names = append(names, t.Name)
	}
	hint := "the configuration has no clearance.targets; add one"
	if len(names) > 0 {
		hint = fmt.Sprintf("the targets are %q; name one", names)
	}
	return Target{}, &sandbox.Error{Op: "target", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// Commits are the staged commits of a program, for all its processes.
type Commits struct {
	stagedList
	leases  state.Leases
	store   *git.ObjectStore
	targets []Target
	proof   git.Credentials
	tree    string // session whose files are pulled into, "" for the program's own
}

// Open opens the staged commits in a program's state directory. Only a git that reaches a remote,
// the API of GitHub and hooks get values from the credentials.
func Open(folder *state.Dir, store *git.ObjectStore, targets []Target, proof git.Credentials) (*Commits, error) {
	blobs, err := folder.Blobs("staged")
	if err != nil {
		return nil, err
	}
	leases, err := folder.Leases()
	if err != nil {
		return nil, err
	}
	return &Commits{stagedList: stagedList{folder, blobs}, leases: leases, store: store, targets: targets, proof: proof}, nil
}

// In returns the commits for the files of a session, by the session's name.
func (d *Commits) In(tree string) *Commits {
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

	Untrusted string // an untrusted mount, or documents of golem intake, that the worker has read

	// Links returns the number of hard links of a file, 0 if unknown. Passed returns a
	// file with the same content that was read, "" for none. Both may be nil.
	Links  func(path string) uint64
	Passed func(size int64, content git.Hash) string
}

// Names returns the files that a branch of a target has at a path or below it. An empty
// branch means the target's own, an empty path means all files.
func (d *Commits) Names(ctx context.Context, target, branch, path string) ([]string, error) {
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
func (d *Commits) Stage(ctx context.Context, r Request) (*StagedCommit, error) {
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
func operations(asked []git.File, changes []git.ChangedFile) ([]File, error) {
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
