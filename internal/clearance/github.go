package clearance

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of a push through the API. GitHub accepts no larger files, and requests for
// more files would exceed its rate limits. A target of type remote has neither limit.
const (
	maxHubFile  = 100 << 20 // bytes
	maxHubFiles = 1000      // not counting deleted files
	maxHubTree  = 500       // files in one request
)

// A hub is a repository on GitHub. golem reads it with git, like every remote, and writes
// to it through the API. The first commit of an empty repository is pushed with git.
type hub struct {
	network
	store  *git.ObjectStore
	target Target
}

// hub opens a GitHub target.
func (d *Commits) hub(t Target) (place, error) {
	at, err := d.store.Hub(t.server(), t.Repo, d.proof)
	if err == nil {
		at.Name = t.Name
	}
	return hub{network{at}, d.store, t}, err
}

// op returns what golem does in the repository, for errors. Only targets of the configuration
// have a name.
func (h hub) op() string {
	if h.target.Name == "" {
		return pullRequestOp
	}
	return "push"
}

// server returns the server of a target, without a slash at its end.
func (t Target) server() string {
	if t.URL == "" {
		return git.GitHub
	}
	return strings.TrimRight(t.URL, "/")
}

// push creates the objects of a commit on GitHub one by one, and checks that each has the
// hash that was staged. Only the last step moves the branch.
func (h hub) push(ctx context.Context, c *StagedCommit) error {
	if c.parent() == "" {
		return h.network.push(ctx, c) // the API does not write to an empty repository
	}
	if err := h.checkLimits(c); err != nil {
		return err
	}
	if err := h.refuseMoved(ctx, c); err != nil {
		return err
	}
	api, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer api.close()
	r, err := h.store.Reader(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	commit, err := r.Commit(c.Commit)
	if err != nil {
		return err
	}
	if !utf8.ValidString(commit.Message + commit.Author.Name + commit.Author.Email + commit.Committer.Name + commit.Committer.Email) {
		return h.unfit("", sandbox.ErrInvalid, "the message or the author is not UTF-8")
	}
	if err := api.blobs(ctx, h.store, c); err != nil {
		return err
	}
	base := git.Hash("")
	if c.parent() != "" {
		from, err := r.Commit(c.parent())
		if err != nil {
			return err
		}
		base = from.Tree
	}
	if err := api.tree(ctx, base, commit.Tree, c); err != nil {
		return err
	}
	if err := api.commit(ctx, c.Commit, commit); err != nil {
		return err
	}
	if err := h.refuseMoved(ctx, c); err != nil { // the API alone would accept any fast-forward
		return err
	}
	if err := api.move(ctx, c); err != nil {
		return err
	}
	h.follow(ctx, c.Branch)
	return nil
}

// checkLimits refuses a commit that the API does not accept.
func (h hub) checkLimits(c *StagedCommit) error {
	files := 0
	for _, f := range c.Files {
		if f.Mode != git.None {
			files++
		}
		if !utf8.ValidString(f.Path) {
			return h.unfit(f.Path, sandbox.ErrInvalid, "its name is not UTF-8")
		}
	}
	if files > maxHubFiles {
		return h.unfit("", sandbox.ErrLimit, fmt.Sprintf("%d files are too many for GitHub's API, which takes %d from here", files, maxHubFiles))
	}
	return nil
}

// unfit returns the error for a commit that can be pushed another way.
func (h hub) unfit(path string, code sandbox.Code, why string) error {
	return &sandbox.Error{Op: "push", Path: path, Code: code, Hint: why + "; a target of type remote takes it, with url: " + h.target.server() + "/" + h.target.Repo + ".git"}
}

// refuseMoved refuses to push to a branch that is neither at the base nor at the commit.
func (h hub) refuseMoved(ctx context.Context, c *StagedCommit) error {
	now, err := h.Now(ctx, c.Branch)
	if err == nil && now != c.Base && now != c.Commit {
		err = moved(c.Branch)
	}
	return err
}

// moved returns the conflict for a branch that has moved.
func moved(branch string) error {
	return &sandbox.Error{Op: "push", Path: branch, Code: sandbox.ErrConflict, Hint: "the branch has moved since it was last pulled; stage it again, on the branch as it is now"}
}

// differs returns the conflict for an object that got another hash on GitHub.
func differs(what string, got string, want git.Hash) error {
	return &sandbox.Error{Op: "push", Code: sandbox.ErrConflict,
		Hint: fmt.Sprintf("GitHub made another %s of it (%s, not %s), and the branch was not moved; push by a target of type remote", what, sandbox.Shown(got), want)}
}

// blobs creates the blobs of the files, each content once.
func (a *api) blobs(ctx context.Context, store *git.ObjectStore, c *StagedCommit) error {
	done := map[git.Hash]bool{}
	for _, f := range c.Files {
		if f.Mode == git.None || done[f.New] {
			continue
		}
		done[f.New] = true
		if err := a.blob(ctx, store, f); err != nil {
			return err
		}
	}
	return nil
}

// blob creates the blob of a file. It streams the content.
func (a *api) blob(ctx context.Context, store *git.ObjectStore, f File) error {
	var got object
	err := a.call(ctx, func(ctx context.Context) error {
		r, err := store.Reader(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		content, size, err := r.Stream(f.New)
		if err != nil {
			return err
		}
		if size > maxHubFile {
			return &sandbox.Error{Op: "push", Path: f.Path, Code: sandbox.ErrLimit, Hint: "GitHub takes files of 100 MB at most"}
		}
		const head, tail = `{"encoding":"base64","content":"`, `"}`
		body := io.MultiReader(strings.NewReader(head), &encoder{from: content}, strings.NewReader(tail))
		return a.send(ctx, http.MethodPost, "/git/blobs", body, int64(len(head))+(size+2)/3*4+int64(len(tail)), &got)
	})
	if err == nil && got.SHA != string(f.New) {
		err = differs("file "+sandbox.Shown(f.Path), got.SHA, f.New)
	}
	return err
}

// An encoder reads the base64 encoding of another reader.
type encoder struct {
	from io.Reader
	text []byte // not read yet
	end  error
}

func (e *encoder) Read(p []byte) (int, error) {
	if len(e.text) == 0 {
		if e.end != nil {
			return 0, e.end
		}
		chunk := make([]byte, 48<<10) // 3 bytes become 4 characters
		n, err := io.ReadFull(e.from, chunk)
		if e.end = err; errors.Is(err, io.ErrUnexpectedEOF) {
			e.end = io.EOF
		}
		e.text = base64.StdEncoding.AppendEncode(nil, chunk[:n])
		if n == 0 {
			return 0, e.end
		}
	}
	n := copy(p, e.text)
	e.text = e.text[n:]
	return n, nil
}

// tree creates the trees, starting from the tree of the base. Deleted files come first,
// because a directory may need their name.
func (a *api) tree(ctx context.Context, base, want git.Hash, c *StagedCommit) error {
	files := slices.Clone(c.Files)
	slices.SortStableFunc(files, func(x, y File) int { return strings.Compare(goesFirst(x), goesFirst(y)) })
	now := object{string(base)}
	for part := range slices.Chunk(files, maxHubTree) {
		body := struct {
			Base string      `json:"base_tree,omitempty"`
			Tree []treeEntry `json:"tree"`
		}{Base: now.SHA}
		for _, f := range part {
			body.Tree = append(body.Tree, newTreeEntry(f))
		}
		if err := a.call(ctx, func(ctx context.Context) error { return a.sendJSON(ctx, http.MethodPost, "/git/trees", body, &now) }); err != nil {
			return err
		}
	}
	if now.SHA != string(want) {
		return differs("tree", now.SHA, want)
	}
	return nil
}

// A treeEntry is the change of a file in a tree. Without a hash, it deletes the file.
type treeEntry struct {
	Path string  `json:"path"`
	Mode string  `json:"mode"`
	Type string  `json:"type"`
	SHA  *string `json:"sha"`
}

func newTreeEntry(f File) treeEntry {
	if f.Mode == git.None {
		e := treeEntry{Path: f.Path, Mode: string(f.OldMode), Type: "blob"}
		if f.OldMode == git.Submodule {
			e.Type = "commit"
		}
		return e
	}
	hash := string(f.New)
	return treeEntry{Path: f.Path, Mode: string(f.Mode), Type: "blob", SHA: &hash}
}

func goesFirst(f File) string {
	if f.Mode == git.None {
		return ""
	}
	return "then"
}

// commit creates the commit.
func (a *api) commit(ctx context.Context, want git.Hash, c *git.CommitObject) error {
	type person struct {
		Name  string    `json:"name"`
		Email string    `json:"email"`
		Date  time.Time `json:"date"`
	}
	body := struct {
		Message   string     `json:"message"`
		Tree      git.Hash   `json:"tree"`
		Parents   []git.Hash `json:"parents,omitempty"`
		Author    person     `json:"author"`
		Committer person     `json:"committer"`
	}{c.Message, c.Tree, c.Parents, person{c.Author.Name, c.Author.Email, c.Time}, person{c.Committer.Name, c.Committer.Email, c.Time}}
	return a.call(ctx, func(ctx context.Context) error {
		var got object
		err := a.sendJSON(ctx, http.MethodPost, "/git/commits", body, &got)
		if err == nil && got.SHA != string(want) {
			err = differs("commit", got.SHA, want)
		}
		return err
	})
}

// move moves the branch or creates it.
func (a *api) move(ctx context.Context, c *StagedCommit) error {
	method, what, body := http.MethodPatch, "/git/refs/heads/"+escapePath(c.Branch), map[string]any{"sha": c.Commit, "force": false}
	if c.Base == "" {
		method, what, body = http.MethodPost, "/git/refs", map[string]any{"ref": "refs/heads/" + c.Branch, "sha": c.Commit}
	}
	return a.call(ctx, func(ctx context.Context) error {
		var got struct {
			Object object `json:"object"`
		}
		err := a.sendJSON(ctx, method, what, body, &got)
		if err == nil && got.Object.SHA != string(c.Commit) {
			return &sandbox.Error{Op: "push", Path: c.Branch, Code: git.ErrUnreachable, Hint: "GitHub does not say that the branch was moved; push again to find out"}
		}
		var r *refusal
		if errors.As(err, &r) && r.status == http.StatusUnprocessableEntity && movedBy(r) {
			return moved(c.Branch)
		}
		return err
	})
}

// escapePath escapes each part of a branch's name for a URL.
func escapePath(branch string) string {
	parts := strings.Split(branch, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// movedBy reports whether GitHub refused because the branch was not where golem expected.
func movedBy(r *refusal) bool {
	text := strings.ToLower(r.says)
	return strings.Contains(text, "fast forward") || strings.Contains(text, "fast-forward") ||
		strings.Contains(text, "already exists") || strings.Contains(text, "does not exist")
}
