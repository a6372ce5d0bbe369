package settle

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// A Committer reads the commits that a session has made in repositories of the user.
type Committer interface {
	// Imports returns an import for each repository with new commits. The caller closes
	// them. skipped says what cannot be read, in words for the user. If beyond is not nil, it
	// returns the commits of a remote of a repository, by the sandbox's name of its work tree:
	// see git.Target.Import. If changes is not nil and the session has no commits, Imports makes
	// one of the changes of the session, with the files, the base and the time.
	Imports(ctx context.Context, beyond Beyond, changes *git.Commit) (list []RepositoryImport, skipped []string, err error)
	// Names returns the id of the session, for the names of references, and its name.
	naming.Named
	// MarkTaken records which versions of files the taken commits hold: the hashes of the
	// contents by the names of the files, "" for a deleted file.
	MarkTaken(versions map[string][]string) error
}

// A Beyond returns the commits that a remote of a repository has, nil if there is no remote.
type Beyond func(ctx context.Context, name string, t *git.Target) ([]git.Hash, error)

// A RepositoryImport is the import of the new commits of one repository.
type RepositoryImport struct {
	*git.Import
	Name string // the sandbox's name of the work tree
}

// A Commit is a commit that an agent has made. Nobody has verified its author.
type Commit struct {
	Hash    git.Hash      `json:"hash"`
	Author  string        `json:"author"`            // with the committer, if that is another; unverified
	Time    time.Time     `json:"time"`              // unverified
	Headers string        `json:"headers,omitempty"` // lines that git keeps before the message, such as a signature
	Message string        `json:"message"`
	Added   int           `json:"added"`
	Removed int           `json:"removed"`
	Files   []tool.Change `json:"files"`
	Flags   []review.Flag `json:"flags"` // the riskiest first
	Merge   bool          `json:"merge,omitempty"`

	authored time.Time // what the author says; Time is what the committer says
	persons  string    // author and committer, whole and not made safe to print
}

// Dates returns the date of the author, and that of the committer if it is another minute.
func (c Commit) Dates() string {
	const layout = "2006-01-02 15:04 MST"
	text := c.Time.Format(layout)
	if authored := c.authored.Format(layout); authored != text {
		text = authored + " (committed " + text + ")"
	}
	return text
}

// Text returns everything that the author wrote in the commit besides its files and its own
// name: the message after the lines before it.
func (c Commit) Text() string {
	text := strings.TrimSuffix(c.Message, "\n") + "\n"
	if c.Headers != "" {
		text = c.Headers + "\n" + text
	}
	return text
}

// Subject returns the first line of the message, safe to print.
func (c Commit) Subject() string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return visible.Line(line, 100)
}

// Short returns the beginning of the hash.
func (c Commit) Short() string { return string(c.Hash[:min(7, len(c.Hash))]) }

// A CommitRepository is a repository with new commits of a session.
type CommitRepository struct {
	Name     string            `json:"name"`
	Branches []string          `json:"branches"` // the references that golem makes
	Tips     map[string]string `json:"tips"`     // by reference
	Commits  []Commit          `json:"commits"`
}

// Limits on the contents of commits that are read to show them.
const (
	maxCommitFile  = filecontent.MaxCompared / 2
	maxCommitBytes = 32 << 20
)

// ReadCommits reads the commits of an import: each with its differences from its first
// parent and what to look at first.
func ReadCommits(ctx context.Context, session string, im RepositoryImport) (CommitRepository, error) {
	r := CommitRepository{Name: im.Name, Branches: RefNames(session, im.Branches), Tips: make(map[string]string)}
	for i, name := range r.Branches {
		r.Tips[name] = string(im.Branches[i].Commit)
	}
	reader, err := im.Store().Reader(ctx, im.Objects())
	if err != nil {
		return r, err
	}
	defer reader.Close()
	left := int64(maxCommitBytes)
	for _, hash := range im.Commits {
		object, err := reader.Commit(hash)
		if err != nil {
			return r, err
		}
		c := Commit{Hash: hash, Author: personText(object.Author), Time: object.Time, authored: object.Authored, Headers: object.Headers, Message: object.Message, Merge: len(object.Parents) > 1, Flags: []review.Flag{}, Files: []tool.Change{}}
		if object.Committer != object.Author {
			c.Author += ", committed by " + personText(object.Committer)
		}
		for _, p := range []git.Person{object.Author, object.Committer} {
			text := p.Name + " <" + p.Email + ">"
			if c.persons += text + "\n"; personText(p) != visible.Text(text) {
				c.Headers += "person " + text + "\n"
			}
		}
		base := git.Hash("")
		if len(object.Parents) > 0 {
			base = object.Parents[0]
		}
		list, err := im.Store().Changes(ctx, im.Objects(), base, hash)
		if err != nil {
			return r, err
		}
		var flags review.Collector
		for _, change := range list {
			one, shown, err := readChange(reader, im.Name, change, &left)
			if err != nil {
				return r, err
			}
			added, removed := filecontent.CountDiffLines(shown.Diff)
			c.Added, c.Removed = c.Added+added, c.Removed+removed
			shown.Flags = flags.Add(one)
			c.Files = append(c.Files, shown)
		}
		c.Flags = slices.Concat(c.Flags, review.Headers(c.Headers), review.Message(c.Text()), flags.Flags())
		review.Sort(c.Files, func(t tool.Change) string { return t.Path }, c.Flags)
		r.Commits = append(r.Commits, c)
	}
	return r, nil
}

// personText returns the name and address in a commit, safe to print.
func personText(p git.Person) string { return visible.Line(p.Name+" <"+p.Email+">", maxPerson) }

// maxPerson is how many characters of a name and address stand in a line. Commit.Headers has
// those that do not fit.
const maxPerson = 200

// readChange reads a change of a file of a commit, as package review and a prompt show
// it.
func readChange(r *git.Reader, dir string, c git.ChangedFile, left *int64) (review.FileChange, tool.Change, error) {
	name := path.Join(dir, c.Path)
	one := review.FileChange{Path: name, Operation: "update", OldMode: string(c.OldMode), Mode: string(c.NewMode)}
	read := func(hash git.Hash, mode git.Mode) ([]byte, int64, error) {
		if hash == "" {
			return nil, 0, nil
		}
		if mode == git.Submodule {
			return []byte("commit " + string(hash) + "\n"), 0, nil
		}
		content, size, err := r.Blob(hash, min(maxCommitFile, max(*left, 0)))
		if size <= maxCommitFile { // a file that is too large takes nothing from the others
			*left -= int64(len(content))
		}
		one.Cut = one.Cut || err == nil && int64(len(content)) < size
		return content, size, err
	}
	var err error
	if one.Old, one.OldSize, err = read(c.Old, c.OldMode); err == nil {
		one.New, one.Size, err = read(c.New, c.NewMode)
	}
	if err != nil {
		return one, tool.Change{}, err
	}
	base := sandbox.Version{}
	if c.Old != "" {
		base = base.With(one.Old)
	}
	shown := tool.DescribeChange(name, base, one.Old, one.New)
	shown.Base, shown.Becomes, shown.Original = string(c.Old), string(c.New), nil
	switch {
	case c.New == "":
		one.Operation, shown.Op = "delete", tool.Delete
	case c.Old == "":
		one.Operation = "create"
	}
	if one.Cut {
		shown.Diff, shown.Omitted = "", "too large to show"
		if max(one.OldSize, one.Size) <= maxCommitFile {
			shown.Omitted = "there is too much to show"
		}
	}
	switch {
	case c.Old != "" && c.New != "" && c.OldMode != c.NewMode:
		shown.About += fmt.Sprintf(", mode %s → %s", c.OldMode, c.NewMode)
	case c.New != "" && c.NewMode != git.Plain:
		shown.About += ", mode " + string(c.NewMode)
	}
	one.Binary, one.Diff = shown.Omitted == "binary", shown.Diff
	return one, shown, nil
}

// RefNames returns the names below refs/golem that golem gives to branches: the session
// and the branch, or a number for a branch whose name is not a usual one.
func RefNames(session string, branches []git.ImportedBranch) (names []string) {
	for i, b := range branches {
		name := session + "/" + b.Name
		if b.Name == "HEAD" {
			name = session + "/detached"
		} else if git.BadBranch(b.Name) != "" || len(name) > 150 {
			name = fmt.Sprintf("%s/branch-%d", session, i+1)
		}
		names = append(names, name)
	}
	return names
}

// applyCommits plans to take the commits of a session.
func applyCommits(c Committer, branch string) (tool.Plan, error) {
	const op = "apply_changes"
	if c == nil {
		return tool.Plan{}, noSession(op)
	}
	if why := git.BadBranch(branch); branch != "" && why != "" {
		return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "branch: " + why}
	}
	return tool.NewChangePlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Preparation, error) {
		return prepareCommits(ctx, c, branch, "")
	}), nil // no effects: no file of a mount changes
}

// prepareCommits prepares to take the commits of a session. next says what the user types then, ""
// for the usual commands.
func prepareCommits(ctx context.Context, c Committer, branch, next string) (tool.Preparation, error) {
	const op = "apply_changes"
	list, skipped, err := readAll(ctx, c)
	if err != nil {
		return tool.Preparation{}, err
	}
	if branch != "" && (len(list) != 1 || len(list[0].Branches) != 1) {
		return tool.Preparation{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "branch needs commits on one branch, and there are several: leave it out, and golem makes references"}
	}
	seen := tipsOf(list)
	p := tool.NewPreparation(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
		r, err := takeCommits(ctx, c, branch, seen)
		if err == nil && c.MarkTaken(versionsIn(list)) != nil {
			r.Notes = append(r.Notes, "golem could not record that the commits were taken; golem status still lists the session")
		}
		if taken, _, ok := strings.Cut(r.Text, "\nnext: "); ok && next != "" {
			r.Text = taken + "\nnext: " + next
		}
		return r, err
	}, commitChanges(list)...)
	p.Summary, p.Warnings = describeCommits(list, branch)
	p.Warnings = append(p.Warnings, skipped...)
	return p, nil
}

// readAll reads the commits of all repositories. skipped says what it did not read.
func readAll(ctx context.Context, c Committer) (list []CommitRepository, skipped []string, err error) {
	imports, skipped, err := c.Imports(ctx, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(imports)
	for _, im := range imports {
		r, err := ReadCommits(ctx, idOf(c), im)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		hint := "the session has no commits that your repository lacks; git for-each-ref refs/golem lists those that you took"
		if len(skipped) > 0 {
			hint += "; " + strings.Join(skipped, "; ")
		}
		return nil, nil, &sandbox.Error{Op: "apply_changes", Code: sandbox.ErrNotFound, Hint: hint}
	}
	return list, skipped, nil
}

func closeAll(list []RepositoryImport) {
	for _, im := range list {
		im.Close()
	}
}

// tipsOf returns the commits that references will name, as one text.
func tipsOf(list []CommitRepository) string {
	var b strings.Builder
	for _, r := range list {
		for _, name := range r.Branches {
			fmt.Fprintf(&b, "%q %s %s\n", r.Name, name, r.Tips[name])
		}
	}
	return b.String()
}

// takeCommits takes exactly the commits that were shown. The hash of a commit covers all
// that is in it.
func takeCommits(ctx context.Context, c Committer, branch, seen string) (tool.Result, error) {
	imports, _, err := c.Imports(ctx, nil, nil)
	if err != nil {
		return tool.Result{}, err
	}
	defer closeAll(imports)
	var list []CommitRepository
	for _, im := range imports {
		r := CommitRepository{Name: im.Name, Branches: RefNames(idOf(c), im.Branches), Tips: make(map[string]string)}
		for i, name := range r.Branches {
			r.Tips[name] = string(im.Branches[i].Commit)
		}
		list = append(list, r)
	}
	if tipsOf(list) != seen {
		return tool.Result{}, &sandbox.Error{Op: "apply_changes", Code: sandbox.ErrConflict, Hint: "the session has made other commits since these were shown; nothing was taken; look at them with golem diff --commits"}
	}
	var lines []string
	for i, im := range imports {
		if err := im.Take(ctx, list[i].Branches, branch); err != nil {
			return tool.Result{}, err
		}
		for _, name := range list[i].Branches {
			lines = append(lines, "refs/golem/"+name)
		}
	}
	if branch != "" {
		lines = append(lines, "branch "+branch)
	}
	name := strings.TrimPrefix(lines[len(lines)-1], "branch ")
	return tool.Result{Text: "taken: " + strings.Join(lines, ", ") + "\nnext: git log " + name + " shows the commits, git merge " + name +
		" adds them to your branch, golem discard --session " + naming.Label(c) + " deletes the session", Brief: true}, nil
}

// idOf returns the id of the session of a Committer.
func idOf(c Committer) string {
	id, _ := c.Names()
	return id
}

// versionsIn returns the versions of files that commits hold, as MarkTaken takes them.
func versionsIn(list []CommitRepository) map[string][]string {
	versions := make(map[string][]string)
	for _, r := range list {
		for _, c := range r.Commits {
			for _, f := range c.Files {
				versions[f.Path] = append(versions[f.Path], f.Becomes)
			}
		}
	}
	return versions
}

// commitChanges returns commits as a prompt shows them: each message, and then the files.
func commitChanges(list []CommitRepository) (rows []tool.Change) {
	for _, r := range list {
		for _, c := range r.Commits {
			about := "by " + c.Author + ", " + c.Dates() + ", unverified"
			if c.Merge {
				about += "; a merge, compared with its first parent"
			}
			rows = append(rows, tool.Change{Path: "commit " + c.Short(), Op: tool.Create, Becomes: string(c.Hash), About: about,
				Diff: filecontent.Diff("", "message", "", c.Text())})
			for _, f := range c.Files {
				f.About = strings.TrimPrefix(f.About+", in commit "+c.Short(), ", ")
				f.Flags = slices.Clone(f.Flags)
				for i := range f.Flags {
					f.Flags[i].Text += ", in commit " + c.Short()
				}
				rows = append(rows, f)
			}
		}
	}
	return rows
}

// maxCommitWarnings is how many warnings a request lists.
const maxCommitWarnings = 100

// describeCommits returns what a request for commits says first.
func describeCommits(list []CommitRepository, branch string) (summary string, warnings []string) {
	n := 0
	var refs []string
	for _, r := range list {
		n += len(r.Commits)
		for _, name := range r.Branches {
			refs = append(refs, "refs/golem/"+name)
		}
		for _, c := range r.Commits {
			for _, f := range c.Flags {
				if !slices.ContainsFunc(c.Files, func(t tool.Change) bool { return t.Path == f.Path }) { // a file has its own flags
					warnings = append(warnings, "commit "+c.Short()+": "+f.String())
				}
			}
		}
	}
	if len(warnings) > maxCommitWarnings {
		warnings = append(warnings[:maxCommitWarnings], fmt.Sprintf("and %d more warnings; golem diff --commits lists all", len(warnings)-maxCommitWarnings))
	}
	summary = "take " + visible.Count(n, "commit") + " as " + strings.Join(refs, ", ")
	if branch != "" {
		summary += " and as the new branch " + branch
	}
	return summary, warnings
}
