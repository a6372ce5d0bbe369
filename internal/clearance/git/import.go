package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A GitFiles gives access to the changed files of an untrusted git directory. Names are
// relative to it. Read fails for anything but a regular file of at most most bytes.
type GitFiles struct {
	Names []string
	Read  func(name string, most int64) ([]byte, error)
	// Staged, if not "", is a commit that Stage made, in place of the files.
	Staged Hash
}

// Limits on what Import reads.
const (
	maxImportFile    = 256 << 20 // bytes of one object or pack
	maxImport        = 512 << 20 // bytes of all
	maxImportObject  = 512 << 20 // bytes of one object, uncompressed
	maxImportContent = 4 << 30   // bytes of all objects, uncompressed
	maxImportFiles   = 200_000
	maxImportCommits = 1000
	maxImportRefs    = 100
	maxRefFile       = 4 << 20
)

// An Import holds commits of an untrusted git directory that the repository of the user
// does not have, or that a remote does not have. Git has checked each of their objects. The configuration, hooks, grafts,
// notes, replace references and alternates of the untrusted directory play no part: Import
// copies only objects and reads only branches.
type Import struct {
	target *Target
	dir    string // a private repository with the checked objects
	wanted string // the commits of the untrusted directory, and those of the user's repository with ^, for git rev-list
	made   []Hash // the commits of the untrusted directory that the user's repository does not have

	trailer string
	beyond  []Hash

	Branches []ImportedBranch
	Commits  []Hash // the commits, parents first
	Skipped  []string
}

// An ImportedBranch is a branch of the untrusted directory with new commits.
type ImportedBranch struct {
	Name   string // as the untrusted directory has it, not to be used as a name
	Commit Hash
}

// Import reads the commits of an untrusted git directory that t does not have. Close the
// result. It has no commits if there are none.
//
// Every commit of the untrusted directory gets the trailer at the end of its message, unless it
// is "". A commit that gets one has another hash. If beyond is not nil, it has commits of a
// remote, and the import holds the commits that the remote lacks, also those that t has.
func (t *Target) Import(ctx context.Context, files GitFiles, trailer string, beyond []Hash) (*Import, error) {
	im := &Import{target: t, trailer: trailer, beyond: beyond}
	read := im.read
	if files.Staged != "" {
		read = im.readStaged
	}
	if err := read(ctx, files); err != nil {
		im.Close()
		return nil, err
	}
	return im, nil
}

// readStaged takes a commit of the store in place of an untrusted directory.
func (im *Import) readStaged(ctx context.Context, files GitFiles) error {
	im.Branches = []ImportedBranch{{"changes", files.Staged}}
	if err := im.makeRepositories(ctx, []string{im.target.Objects(), filepath.Join(im.target.store.repository(), "objects")}, "checked.git"); err != nil {
		return err
	}
	return im.list(ctx)
}

// makeRepositories makes private repositories that also see the objects in other directories.
func (im *Import) makeRepositories(ctx context.Context, objects []string, names ...string) (err error) {
	t := im.target
	if im.dir, err = os.MkdirTemp(t.store.dir, "import-"); err != nil {
		return storeError(err)
	}
	others := ""
	for _, dir := range objects {
		others += quote(dir) + "\n"
	}
	for _, name := range names {
		dir := filepath.Join(im.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return storeError(err)
		}
		if _, err := t.store.run(t.store.command(ctx, place{dir: dir}, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--initial-branch=none")); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, "objects/info"), 0o700); err != nil {
			return storeError(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "objects/info/alternates"), []byte(others), 0o600); err != nil {
			return storeError(err)
		}
	}
	return nil
}

// read copies and checks the commits.
func (im *Import) read(ctx context.Context, files GitFiles) (err error) {
	tips := im.readBranches(files)
	if len(tips) == 0 {
		return nil
	}
	if err := im.makeRepositories(ctx, []string{im.target.Objects()}, "raw.git", "checked.git"); err != nil {
		return err
	}
	raw := filepath.Join(im.dir, "raw.git")
	if err := im.copyObjects(ctx, raw, files); err != nil {
		return err
	}
	if err := im.findCommits(ctx, raw, tips); err != nil {
		return err
	}
	if len(im.made) > 0 {
		if err := im.checkSizes(ctx, raw); err != nil {
			return err
		}
		if err := im.check(ctx, raw); err != nil {
			return err
		}
		if err := im.addTrailers(ctx); err != nil {
			return err
		}
	}
	return im.list(ctx)
}

// checkSizes refuses objects that are very large when git uncompresses them. A few
// kilobytes can become terabytes. It reads only the headers of objects.
func (im *Import) checkSizes(ctx context.Context, raw string) error {
	s := im.target.store
	list := s.command(ctx, place{dir: raw}, "rev-list", "--objects", "--no-object-names", "--stdin")
	list.Stdin = strings.NewReader(im.wanted)
	objects, err := s.run(list)
	if err != nil {
		return brokenError(err)
	}
	sizes := s.command(ctx, place{dir: raw}, "cat-file", "--batch-check=%(objectsize)")
	sizes.Stdin = bytes.NewReader(objects)
	out, err := s.run(sizes)
	if err != nil {
		return brokenError(err)
	}
	total := int64(0)
	for line := range strings.Lines(string(out)) {
		size, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return refusal("commits", "", sandbox.ErrInvalid, "git refuses the commits of the session: an object is missing; nothing was taken")
		}
		if size > maxImportObject || total > maxImportContent-size {
			return refusal("commits", "", sandbox.ErrLimit, fmt.Sprintf("the commits have a file of more than %d MiB, or more than %d GiB in all; commit less at a time", maxImportObject>>20, maxImportContent>>30))
		}
		total += size
	}
	return nil
}

// checked returns the repository with the checked objects.
func (im *Import) checked() string { return filepath.Join(im.dir, "checked.git") }

// Objects returns the directory of the checked objects, for methods of Store that take
// one. Git also finds those of the user's repository there.
func (im *Import) Objects() string { return filepath.Join(im.checked(), "objects") }

// Close removes the private repository.
func (im *Import) Close() {
	if im.dir != "" {
		os.RemoveAll(im.dir)
	}
}

// readBranches returns the branches of the untrusted directory that changed.
func (im *Import) readBranches(files GitFiles) (tips []ImportedBranch) {
	add := func(name, hash string) {
		skip := func(what string) {
			if !slices.Contains(im.Skipped, what) {
				im.Skipped = append(im.Skipped, what)
			}
		}
		switch h := Hash(strings.TrimSuffix(hash, "\n")); {
		case strings.HasPrefix(hash, "ref: "):
			skip("branches that are other names for branches")
		case !h.Valid():
			skip("branches that name no commit")
		case len(tips) >= maxImportRefs:
			skip("branches after the first " + fmt.Sprint(maxImportRefs))
		case !slices.ContainsFunc(tips, func(b ImportedBranch) bool { return b.Name == name }):
			tips = append(tips, ImportedBranch{name, h})
		}
	}
	for _, name := range files.Names {
		branch, ok := strings.CutPrefix(name, "refs/heads/")
		if !ok || strings.HasSuffix(name, ".lock") {
			continue
		}
		if data, err := files.Read(name, 1024); err == nil {
			add(branch, string(data))
		}
	}
	if slices.Contains(files.Names, "HEAD") { // a commit without a branch
		if data, err := files.Read("HEAD", 1024); err == nil && Hash(strings.TrimSpace(string(data))).Valid() {
			add("HEAD", string(data))
		}
	}
	if slices.Contains(files.Names, "packed-refs") {
		data, err := files.Read("packed-refs", maxRefFile)
		if err != nil {
			im.Skipped = append(im.Skipped, "packed-refs, which cannot be read")
		}
		for line := range strings.Lines(string(data)) {
			hash, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if branch, is := strings.CutPrefix(name, "refs/heads/"); ok && is && !strings.HasPrefix(line, "#") {
				add(branch, hash)
			}
		}
	}
	slices.SortFunc(tips, func(a, b ImportedBranch) int { return strings.Compare(a.Name, b.Name) })
	return tips
}

// copyObjects copies the objects of the untrusted directory. Names other than those that
// git gives to objects and packs are skipped. Git makes the index of a pack anew.
func (im *Import) copyObjects(ctx context.Context, raw string, files GitFiles) error {
	total, count := int64(0), 0
	for _, name := range files.Names {
		loose, pack := isLooseObject(name), isPack(name)
		if !loose && !pack {
			continue
		}
		data, err := files.Read(name, maxImportFile)
		if err != nil {
			return refusal("commits", "", sandbox.ErrInvalid, "an object of the session cannot be read, or is larger than "+fmt.Sprint(maxImportFile>>20)+" MiB")
		}
		total += int64(len(data))
		if count++; total > maxImport || count > maxImportFiles {
			return refusal("commits", "", sandbox.ErrLimit, fmt.Sprintf("the session has more than %d MiB or %d files of new git objects; commit less at a time", maxImport>>20, maxImportFiles))
		}
		to := filepath.Join(raw, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return storeError(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return storeError(err)
		}
		if pack {
			if _, err := im.target.store.run(im.target.store.command(ctx, place{dir: raw}, "index-pack", to)); err != nil {
				return brokenError(err)
			}
		}
	}
	return nil
}

// isLooseObject reports whether a file of a git directory is a loose object.
func isLooseObject(name string) bool {
	hash, ok := strings.CutPrefix(name, "objects/")
	return ok && len(hash) == hashLength+1 && hash[2] == '/' && Hash(hash[:2]+hash[3:]).Valid()
}

// isPack reports whether a file of a git directory is a pack.
func isPack(name string) bool {
	hash, ok := strings.CutPrefix(name, "objects/pack/pack-")
	hash, pack := strings.CutSuffix(hash, ".pack")
	return ok && pack && Hash(hash).Valid() && path.Base(name) == "pack-"+hash+".pack"
}

// findCommits lists the commits that the branches have and the user's repository does
// not.
func (im *Import) findCommits(ctx context.Context, raw string, tips []ImportedBranch) error {
	known, err := im.target.refs(ctx)
	if err != nil {
		return err
	}
	isKnown := make(map[Hash]bool)
	var input strings.Builder
	for _, hash := range known {
		isKnown[hash] = true
		input.WriteString("^" + string(hash) + "\n")
	}
	for _, tip := range tips {
		if !isKnown[tip.Commit] {
			input.WriteString(string(tip.Commit) + "\n")
		}
		if im.beyond != nil || !isKnown[tip.Commit] {
			im.Branches = append(im.Branches, tip)
		}
	}
	im.wanted = input.String()
	im.made, err = im.revisions(ctx, raw, im.wanted)
	return err
}

// list sets the commits of the import: those that the branches have and that the user's
// repository, or the remote, does not have. It removes branches without such a commit.
func (im *Import) list(ctx context.Context) error {
	if len(im.Branches) == 0 {
		return nil
	}
	known := im.beyond
	if known == nil {
		var err error
		if known, err = im.target.refs(ctx); err != nil {
			return err
		}
	}
	r, err := im.target.store.Reader(ctx, im.Objects())
	if err != nil {
		return err
	}
	defer r.Close()
	var input strings.Builder
	for _, hash := range known {
		if hash.Valid() && r.has(hash) { // a remote has commits that were never fetched
			input.WriteString("^" + string(hash) + "\n")
		}
	}
	for _, b := range im.Branches {
		input.WriteString(string(b.Commit) + "\n")
	}
	im.Commits, err = im.revisions(ctx, im.checked(), input.String())
	im.Branches = slices.DeleteFunc(im.Branches, func(b ImportedBranch) bool { return !slices.Contains(im.Commits, b.Commit) })
	return err
}

// refs returns the commits that the references of the user's repository name.
func (t *Target) refs(ctx context.Context) (list []Hash, err error) {
	out, err := t.store.run(t.store.command(ctx, place{dir: t.view}, "for-each-ref", "--format=%(objectname)"))
	for line := range strings.Lines(string(out)) {
		list = append(list, Hash(strings.TrimSpace(line)))
	}
	return list, err
}

// revisions lists commits, parents first.
func (im *Import) revisions(ctx context.Context, dir, wanted string) (list []Hash, err error) {
	s := im.target.store
	cmd := s.command(ctx, place{dir: dir}, "rev-list", "--topo-order", "--reverse", "--max-count="+fmt.Sprint(maxImportCommits+1), "--stdin")
	cmd.Stdin = strings.NewReader(wanted)
	out, err := s.run(cmd)
	if err != nil {
		return nil, brokenError(err)
	}
	for line := range strings.Lines(string(out)) {
		list = append(list, Hash(strings.TrimSpace(line)))
	}
	if len(list) > maxImportCommits {
		if im.beyond != nil {
			return nil, refusal("commits", "", sandbox.ErrLimit, fmt.Sprintf("the remote lacks more than %d of the commits, or your repository does not have its newest commits; run git fetch", maxImportCommits))
		}
		return nil, refusal("commits", "", sandbox.ErrLimit, fmt.Sprintf("the session has more than %d new commits", maxImportCommits))
	}
	return list, nil
}

// check copies the new objects to the repository of checked objects. Git computes each
// name from the content, and refuses objects that are malformed or dangerous, such as a
// file .git in any spelling. It also refuses commits with missing objects.
func (im *Import) check(ctx context.Context, raw string) error {
	if err := im.send(ctx, place{dir: raw}, place{dir: im.checked()}, "--max-input-size="+fmt.Sprint(maxImport)); err != nil {
		return brokenError(err)
	}
	s := im.target.store
	for _, commit := range im.made {
		base, err := im.base(ctx, commit)
		if err != nil {
			return brokenError(err)
		}
		changes, err := s.Changes(ctx, im.Objects(), base, commit)
		if err != nil {
			return brokenError(err)
		}
		for _, c := range changes {
			if why := BadName(c.Path, c.NewMode); why != "" {
				return refusal("commits", "", sandbox.ErrInvalid, "commit "+string(commit[:7])+" has the name "+sandbox.Shown(c.Path)+": "+why)
			}
		}
	}
	return nil
}

// base returns the first parent of a commit, "" if it has none.
func (im *Import) base(ctx context.Context, commit Hash) (Hash, error) {
	r, err := im.target.store.Reader(ctx, im.Objects())
	if err != nil {
		return "", err
	}
	defer r.Close()
	c, err := r.Commit(commit)
	if err != nil || len(c.Parents) == 0 {
		return "", err
	}
	return c.Parents[0], nil
}

// Push sets a branch of a remote to the commit of the only branch, as Remote.Push does.
func (im *Import) Push(ctx context.Context, r *Remote, branch string, base Hash) error {
	if len(im.Branches) != 1 {
		return refusal("push", branch, sandbox.ErrInvalid, "the commits are on several branches")
	}
	return r.push(ctx, im.checked(), branch, base, im.Branches[0].Commit)
}

// Store returns the private store, to read the commits.
func (im *Import) Store() *ObjectStore { return im.target.store }

// Take copies the commits to the user's repository, and makes references to them: for
// each branch refs/golem/ and the name that it is given, and newBranch, if it is not "",
// at the commit of the only branch. It replaces a reference below refs/golem/, and never a
// branch. When it returns without an error, everything is on the disk.
func (im *Import) Take(ctx context.Context, names []string, newBranch string) error {
	if len(names) != len(im.Branches) || len(names) == 0 || newBranch != "" && len(names) != 1 {
		return refusal("commits", "", sandbox.ErrInvalid, "each branch needs one name")
	}
	t := im.target
	if newBranch != "" {
		if now, err := t.Branch(ctx, newBranch); err != nil {
			return err
		} else if now != "" {
			return refusal("commits", newBranch, sandbox.ErrExists, "the branch exists, and golem does not replace it; name another with --branch")
		}
	}
	if err := im.send(ctx, place{dir: im.checked()}, place{dir: t.view}); err != nil {
		return brokenError(err)
	}
	var input strings.Builder
	for i, name := range names {
		ref := "refs/golem/" + name
		if BadBranch(name) != "" {
			return refusal("commits", name, sandbox.ErrInvalid, "golem cannot name a reference like this")
		}
		if err := t.refuseSymlinks(ref); err != nil {
			return err
		}
		input.WriteString("update " + ref + "\x00" + string(im.Branches[i].Commit) + "\x00\x00")
	}
	if newBranch != "" {
		ref, err := branchRef("commits", newBranch)
		if err == nil {
			err = t.refuseSymlinks(ref)
		}
		if err != nil {
			return err
		}
		input.WriteString("create " + ref + "\x00" + string(im.Branches[0].Commit) + "\x00")
	}
	cmd := t.store.command(ctx, place{dir: t.view}, "-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref", "--stdin", "-z")
	return t.store.commit(cmd, input.String())
}

// send copies the new commits from one repository to another. Git checks them on the way.
func (im *Import) send(ctx context.Context, from, to place, more ...string) error {
	s := im.target.store
	var wanted strings.Builder
	for _, b := range im.Branches {
		wanted.WriteString(string(b.Commit) + "\n")
	}
	own, err := s.run(s.command(ctx, place{dir: im.target.view}, "for-each-ref", "--format=^%(objectname)", "refs/heads/", "refs/tags/"))
	if err != nil {
		return err
	}
	wanted.Write(own)
	packErr, indexErr := s.copyObjects(ctx, from, to, wanted.String(), more...)
	if packErr != nil {
		return packErr
	}
	return indexErr
}

// brokenError says that git refuses the commits of a session.
func brokenError(err error) error {
	why := "git failed"
	var failure *failure
	if errors.As(err, &failure) {
		why = sandbox.Shown(strings.TrimSpace(lastLines(failure.Said)))
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return refusal("commits", "", sandbox.ErrInvalid, "git refuses the commits of the session: "+why+"; nothing was taken")
}
