package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// maxFiles is how many files one pull or commit may have. GitHub counts the requests.
const maxFiles = 500

// A branch is a branch of a repository at GitHub that the page has opened.
type branch struct {
	remote
	box    *box
	branch string
	staged *commit // waits for push
}

// A commit is staged. Its digest is the hash of its tree.
type commit struct {
	id      string
	digest  string
	base    string // the commit before it
	message string
	blobs   map[string][]byte // by hash
	trees   [][]entry         // those of subdirectories first
}

var (
	validRepository = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*$`)
	validBranch     = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// openBranch opens a branch.
func openBranch(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	args, err := decode[struct {
		Repository string `json:"repository"`
		Branch     string `json:"branch"`
		Token      string `json:"token"`
		API        string `json:"api"`
	}](raw)
	if err == nil && args.API == "" {
		args.API = "https://api.github.com"
	}
	if err == nil {
		err = checkAPI(args.API)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !validRepository.MatchString(args.Repository):
		return nil, nil, invalid("github", "repository must be owner/name")
	case !validBranch.MatchString(args.Branch) || strings.Contains(args.Branch, "..") || strings.HasSuffix(args.Branch, ".lock"):
		return nil, nil, invalid("github", "branch must be the name of a branch, such as main")
	case strings.ContainsFunc(args.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, nil, invalid("github", "the token has characters that no token has")
	}
	return b.server.addBranch(&branch{remote: remote{args.API, args.Repository, args.Token}, box: b, branch: args.Branch}), nil, nil
}

// pathsArgs name files of a branch, and the directory of the sandbox that holds them.
type pathsArgs struct {
	GitHub  int      `json:"github"`
	Paths   []string `json:"paths"`
	Dir     string   `json:"dir"`
	Replace bool     `json:"replace"` // pull: also files that differ
	Message string   `json:"message"` // stage
}

// decodePaths decodes and checks the arguments of pull and stage.
func decodePaths(b *box, raw json.RawMessage) (args pathsArgs, at *branch, err error) {
	if args, err = decode[pathsArgs](raw); err != nil {
		return args, nil, err
	}
	if at = b.server.branch(b, args.GitHub); at == nil {
		return args, nil, invalid("github", "it is closed; open it with sandbox.github")
	}
	if len(args.Paths) == 0 || len(args.Paths) > maxFiles || !strings.HasPrefix(args.Dir, "/") {
		return args, nil, invalid("github", fmt.Sprintf("it needs 1 to %d paths in the repository, and dir, a directory of the sandbox", maxFiles))
	}
	for _, name := range args.Paths {
		if err := checkPath(name); err != nil {
			return args, nil, err
		}
	}
	return args, at, nil
}

// checkPath returns an error unless a name can be that of a file in a repository.
func checkPath(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") || !utf8.ValidString(part) || strings.ContainsAny(part, "\\\x00") {
			return invalid("github", "paths must be names in the repository, such as docs/a.md, and not "+sandbox.Shown(name))
		}
	}
	return nil
}

// A snapshot is the content of a commit, as far as it was read.
type snapshot struct {
	*branch
	commit string
	root   string
	trees  map[string][]entry // by directory, "." for the root
}

// look reads which commit the branch has now.
func (at *branch) look() (s snapshot, err error) {
	if s, err = at.head(); err != nil {
		return s, err
	}
	var c struct {
		Tree struct {
			SHA string `json:"sha"`
		} `json:"tree"`
	}
	err = at.call("GET", "/git/commits/"+s.commit, nil, &c)
	s.root = c.Tree.SHA
	return s, err
}

func (at *branch) head() (snapshot, error) {
	var ref struct {
		Object struct {
			SHA string `json:"sha"`
		} `json:"object"`
	}
	err := at.call("GET", "/git/ref/heads/"+at.branch, nil, &ref)
	if err == nil && !validHash.MatchString(ref.Object.SHA) {
		err = at.error(errUnreachable, "GitHub names no commit for the branch")
	}
	return snapshot{branch: at, commit: ref.Object.SHA, trees: map[string][]entry{}}, err
}

var validHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// tree returns the entries of a directory, nil if there is none.
func (s *snapshot) tree(dir string) ([]entry, error) {
	if known, ok := s.trees[dir]; ok {
		return known, nil
	}
	sha := s.root
	if dir != "." {
		e, err := s.find(dir)
		if err != nil || e.Mode != modeTree {
			return nil, err
		}
		sha = e.SHA
	}
	if !validHash.MatchString(sha) {
		return nil, s.error(errUnreachable, "GitHub names no tree")
	}
	var t struct {
		Tree      []entry `json:"tree"`
		Truncated bool    `json:"truncated"`
	}
	if sha != emptyTree {
		if err := s.call("GET", "/git/trees/"+sha, nil, &t); err != nil {
			return nil, err
		}
	}
	if id, err := treeID(t.Tree); err != nil || id != sha || t.Truncated {
		return nil, s.error(sandbox.ErrConflict, "GitHub sent another directory than the commit has: "+visible.Name(dir))
	}
	s.trees[dir] = t.Tree
	return t.Tree, nil
}

// find returns the entry of a name, the zero entry if there is none.
func (s *snapshot) find(name string) (entry, error) {
	list, err := s.tree(path.Dir(name))
	i := slices.IndexFunc(list, func(e entry) bool { return e.Path == path.Base(name) })
	if i < 0 {
		return entry{}, err
	}
	return list[i], err
}

// blob returns the content of a file, which has the hash of its entry.
func (s *snapshot) blob(name string, e entry) ([]byte, error) {
	if e.Mode != modeBlob && e.Mode != modeSetX {
		return nil, s.error(sandbox.ErrNotRegular, visible.Name(name)+" is a symlink or another repository")
	}
	var b struct {
		Content  string `json:"content"`
		Encoding string `json:"encoding"`
	}
	if err := s.call("GET", "/git/blobs/"+e.SHA, nil, &b); err != nil {
		return nil, err
	}
	content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(b.Content, "\n", ""))
	if err != nil || b.Encoding != "base64" || objectID("blob", content) != e.SHA {
		return nil, s.error(sandbox.ErrConflict, "GitHub sent another content than the commit has: "+visible.Name(name))
	}
	return content, nil
}

// expand returns the files of the repository that paths name, those of directories included.
func (s *snapshot) expand(paths []string) (files []string, err error) {
	for _, name := range paths {
		e, err := s.find(name)
		switch {
		case err != nil:
			return nil, err
		case e.Path == "":
			return nil, s.error(sandbox.ErrNotFound, visible.Name(name)+" is not in the branch "+s.branch.branch)
		case e.Mode != modeTree:
			files = append(files, name)
			continue
		}
		list, err := s.tree(name)
		var below []string
		for _, e := range list {
			below = append(below, name+"/"+e.Path)
			if err == nil {
				err = checkPath(name + "/" + e.Path)
			}
		}
		if err == nil {
			below, err = s.expand(below)
		}
		if files = append(files, below...); err != nil || len(files) > maxFiles {
			return nil, cmp.Or(err, s.error(sandbox.ErrLimit, fmt.Sprintf("these are more than %d files; name fewer", maxFiles)))
		}
	}
	return files, nil
}

// pull writes files of the branch into a directory of the sandbox. It replaces no file that
// differs, unless the page says so.
func pull(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	args, at, err := decodePaths(b, raw)
	if err != nil {
		return nil, nil, err
	}
	s, err := at.look()
	if err != nil {
		return nil, nil, err
	}
	files, err := s.expand(args.Paths)
	if err != nil {
		return nil, nil, err
	}
	contents := map[string][]byte{}
	for _, name := range files {
		e, err := s.find(name)
		if err != nil {
			return nil, nil, err
		}
		old, err := b.files.Read(path.Join(args.Dir, name))
		switch {
		case err == nil && objectID("blob", old) == e.SHA:
			continue
		case err == nil && !args.Replace:
			return nil, nil, &sandbox.Error{Op: "pull", Path: path.Join(args.Dir, name), Code: sandbox.ErrExists, Hint: "it differs from the branch; nothing was pulled; {replace: true} replaces it"}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, nil, err
		}
		if contents[name], err = s.blob(name, e); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		if _, err := b.files.Write(path.Join(args.Dir, name), contents[name]); err != nil {
			return nil, nil, err
		}
	}
	return map[string]any{"commit": s.commit, "files": append([]string{}, files...)}, nil, nil
}

// stage prepares a commit, and returns what a person reviews.
func stage(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	args, at, err := decodePaths(b, raw)
	if err != nil {
		return nil, nil, err
	}
	if strings.TrimSpace(args.Message) == "" {
		return nil, nil, invalid("stage", "message is missing")
	}
	s, err := at.look()
	if err != nil {
		return nil, nil, err
	}
	c := &commit{id: rand.Text(), base: s.commit, message: args.Message, blobs: map[string][]byte{}}
	next := map[string]entry{} // by path; without a hash if the file is deleted
	shown := []stagedChange{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(args.Paths))) {
		e, err := s.find(name)
		if err != nil {
			return nil, nil, err
		}
		new, err := b.files.Read(path.Join(args.Dir, name))
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing || missing && e.SHA == "" {
			return nil, nil, err
		}
		becomes := entry{Path: path.Base(name), Mode: modeBlob, Type: "blob", SHA: objectID("blob", new)}
		if missing {
			becomes = entry{}
		} else if e.Mode == modeSetX {
			becomes.Mode = e.Mode
		}
		if becomes.SHA == e.SHA {
			continue
		}
		var old []byte
		if e.SHA != "" {
			if old, err = s.blob(name, e); err != nil {
				return nil, nil, err
			}
		}
		if !missing {
			c.blobs[becomes.SHA] = new
		}
		next[name] = becomes
		shown = append(shown, changeOf(name, e, becomes, old, new))
	}
	if len(shown) == 0 {
		return nil, nil, &sandbox.Error{Op: "stage", Code: sandbox.ErrInvalid, Hint: "these files are the same in the branch"}
	}
	if c.digest, err = s.build(c, ".", next); err != nil {
		return nil, nil, err
	}
	if c.digest == emptyTree {
		return nil, nil, &sandbox.Error{Op: "stage", Code: sandbox.ErrInvalid, Hint: "the commit would delete all files; GitHub does not take it"}
	}
	at.staged = c
	return map[string]any{"id": c.id, "digest": c.digest, "base": c.base, "message": visible.Text(c.message), "changes": shown}, nil, nil
}

// A stagedChange is a change of a file, for review. Its texts are safe to show.
type stagedChange struct {
	change
	Risks []string `json:"risks"`
}

// changeOf returns the change of a file for review.
func changeOf(name string, e, becomes entry, old, new []byte) stagedChange {
	r := review.FileChange{Path: name, Operation: "update", OldMode: e.Mode, Mode: becomes.Mode, Old: old, New: new, OldSize: int64(len(old)), Size: int64(len(new))}
	switch {
	case e.SHA == "":
		r.Operation, r.OldMode = "create", "000000"
	case becomes.SHA == "":
		r.Operation, r.Mode = "delete", "000000"
	}
	c := stagedChange{change: change{Op: r.Operation, Path: visible.Text(name)}, Risks: []string{}}
	if r.Binary = !filecontent.IsText(old) || !filecontent.IsText(new); r.Binary {
		c.Omitted = "binary"
	} else if r.Diff = filecontent.Diff("a/"+name, "b/"+name, string(old), string(new)); r.Diff == "" && len(old)+len(new) > 0 {
		c.Omitted = "too large to compare"
	}
	c.Diff = visible.Text(r.Diff)
	for _, f := range review.Flags(r) {
		c.Risks = append(c.Risks, f.Text)
	}
	return c
}

// build adds the trees of a directory to a commit, if something changes in it, and returns its
// hash.
func (s *snapshot) build(c *commit, dir string, next map[string]entry) (string, error) {
	old, err := s.tree(dir)
	if err != nil {
		return "", err
	}
	entries := slices.Clone(old)
	set := func(name string, e entry) {
		entries = slices.DeleteFunc(entries, func(old entry) bool { return old.Path == name })
		if e.SHA != "" {
			entries = append(entries, e)
		}
	}
	below := map[string]bool{} // directories with changes
	for name, e := range next {
		rest, ok := strings.CutPrefix("./"+name, "./")
		if dir != "." {
			rest, ok = strings.CutPrefix(name, dir+"/")
		}
		switch sub, _, deeper := strings.Cut(rest, "/"); {
		case !ok:
		case deeper:
			below[sub] = true
		default:
			set(sub, e)
		}
	}
	for sub := range below {
		sha, err := s.build(c, path.Join(dir, sub), next)
		if err != nil {
			return "", err
		}
		e := entry{Path: sub, Mode: modeTree, Type: "tree", SHA: sha}
		if sha == emptyTree {
			e = entry{} // git keeps no empty directory
		}
		set(sub, e)
	}
	sha, err := treeID(entries)
	if sha != emptyTree {
		c.trees = append(c.trees, entries)
	}
	return sha, err
}

// push makes the staged commit with the digest that a person reviewed, and moves the branch to
// it if nobody else has moved it.
func push(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	args, err := decode[struct {
		GitHub int    `json:"github"`
		ID     string `json:"id"`
		Digest string `json:"digest"`
		By     string `json:"by"`
	}](raw)
	if err != nil {
		return nil, nil, err
	}
	at := b.server.branch(b, args.GitHub)
	if at == nil || at.staged == nil || args.ID != at.staged.id || args.Digest != at.staged.digest {
		return nil, nil, invalid("push", "this is not the commit that stage returned last, or it was pushed; stage again")
	}
	c := at.staged
	record := gate.Record{
		Call: rand.Text(), Origin: "user", Worker: "page", Tool: "github_push", Decision: "yes", By: decision{By: args.By}.by(), Digest: c.digest,
		Args:    map[string]any{"target": at.name, "branch": at.branch, "base": c.base},
		Effects: []string{"connect " + strings.TrimPrefix(strings.TrimPrefix(at.api, "https://"), "http://"), "push " + at.name + " " + at.branch},
	}
	if err := b.journal.Begin(record); err != nil {
		return nil, nil, err
	}
	sha, err := at.push(c)
	if record.Note = "commit " + sha; err != nil {
		record.Code, record.Note = string(sandbox.CodeOf(err)), err.Error()
	}
	if err = errors.Join(err, b.journal.End(record)); err != nil {
		return nil, nil, err
	}
	at.staged = nil
	return map[string]any{"commit": sha}, nil, nil
}

// push sends a commit, and moves the branch.
func (at *branch) push(c *commit) (string, error) {
	now, err := at.head()
	if err == nil && now.commit != c.base {
		err = at.error(sandbox.ErrConflict, "the branch has other commits now; stage again")
	}
	if err != nil {
		return "", err
	}
	// send makes an object, which must get the hash that the person reviewed.
	send := func(kind, want string, in any) error {
		var made struct {
			SHA string `json:"sha"`
		}
		err := at.call("POST", "/git/"+kind+"s", in, &made)
		if err == nil && made.SHA != want {
			err = at.error(sandbox.ErrConflict, "GitHub made another "+kind+" than the one that was reviewed; the branch is unchanged")
		}
		return err
	}
	for _, sha := range slices.Sorted(maps.Keys(c.blobs)) {
		if err := send("blob", sha, map[string]string{"content": base64.StdEncoding.EncodeToString(c.blobs[sha]), "encoding": "base64"}); err != nil {
			return "", err
		}
	}
	for _, entries := range c.trees {
		want, err := treeID(entries)
		if err == nil {
			err = send("tree", want, map[string]any{"tree": entries})
		}
		if err != nil {
			return "", err
		}
	}
	var made struct {
		SHA  string `json:"sha"`
		Tree struct {
			SHA string `json:"sha"`
		} `json:"tree"`
	}
	err = at.call("POST", "/git/commits", map[string]any{"message": c.message, "tree": c.digest, "parents": []string{c.base}}, &made)
	if err == nil && (made.Tree.SHA != c.digest || !validHash.MatchString(made.SHA)) {
		err = at.error(sandbox.ErrConflict, "GitHub made another commit than the one that was reviewed; the branch is unchanged")
	}
	if err != nil {
		return "", err
	}
	var moved struct{}
	return made.SHA, at.call("PATCH", "/git/refs/heads/"+at.branch, map[string]any{"sha": made.SHA, "force": false}, &moved)
}
