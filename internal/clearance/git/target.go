package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/sandbox"
)

// A Target is a repository of the user's. Git does not run with its configuration: it
// runs in a view, a directory of the store that has a configuration of our own and
// symlinks to the target's objects and references.
type Target struct {
	store *ObjectStore
	dir   string // the repository; for one with a work tree its .git
	own   string // the directory with the work tree's own HEAD and index
	work  string // the work tree, "" for a bare repository
	view  string
	hooks []string // the environment of hooks, nil if none run
	works bool     // whether the repository has a main work tree, even if opened as a bare one
}

// linked are the parts of a repository that check looks at. A view has symlinks to all of
// them except HEAD. It hides the rest (config, hooks, info, modules, worktrees).
var linked = []string{"HEAD", "objects", "refs", "packed-refs", "logs"}

// Target opens the repository at a path: a bare one, or one with a work tree.
func (s *ObjectStore) Target(ctx context.Context, path string, bare bool) (*Target, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	t := &Target{store: s, dir: path}
	if !bare {
		t.work, t.dir = path, filepath.Join(path, ".git")
	}
	t.own = t.dir
	if info, err := os.Lstat(t.dir); err == nil && !bare && info.Mode().IsRegular() {
		if t.dir, t.own, err = linkedTree(path); err != nil {
			return nil, err
		}
	}
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(t.dir))
	t.view = filepath.Join(s.dir, "views", hex.EncodeToString(sum[:16]))
	return t, t.makeView()
}

// check refuses directories that are not plain repositories. A .git that is a symlink
// could lead anywhere.
func (t *Target) check(ctx context.Context) error {
	unfit := func(code sandbox.Code, hint string) error { return refusal("target", "", code, hint) }
	if info, err := os.Lstat(t.dir); err != nil {
		return unfit(sandbox.ErrNotFound, noRepository)
	} else if !info.IsDir() {
		return unfit(ErrUnsupported, "the target's .git is a symlink to another place; name the repository itself in clearance.targets")
	}
	for _, name := range linked {
		dir := t.dir
		if name == "HEAD" {
			dir = t.own
		}
		info, err := os.Lstat(filepath.Join(dir, name))
		switch isFile := name == "HEAD" || name == "packed-refs"; {
		case errors.Is(err, fs.ErrNotExist) && (name == "packed-refs" || name == "logs"):
		case err != nil:
			return unfit(sandbox.ErrNotFound, noRepository)
		case isFile && !info.Mode().IsRegular(), !isFile && !info.IsDir():
			return unfit(ErrUnsupported, name+" of the target's repository is not what git makes of it; look at who changed it")
		}
	}
	if err := t.ownObjects(); err != nil {
		return err
	}
	return t.format(ctx)
}

// ownObjects refuses a repository that reads objects from elsewhere, through a list of
// alternates or symlinks. Their writer chooses which files of this machine git reads, and
// git has no way to ignore them.
func (t *Target) ownObjects() error {
	borrowed := func(what string) error {
		return refusal("target", "", ErrUnsupported, "the target's repository has objects from elsewhere ("+what+"), which golem does not read; "+
			"run git repack -a -d there, then delete that entry")
	}
	for _, dir := range []string{"objects", "objects/pack", "objects/info"} {
		list, err := os.ReadDir(filepath.Join(t.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return refusal("target", "", sandbox.ErrInternal, dir+" of the target's repository cannot be read: "+cause(err).Error())
		}
		for _, e := range list {
			if e.Type()&fs.ModeSymlink != 0 {
				return borrowed("the symlink " + sandbox.Shown(dir+"/"+e.Name()))
			}
		}
	}
	const name, most = "objects/info/alternates", 1 << 20
	info, err := os.Lstat(filepath.Join(t.dir, name))
	if err != nil {
		return nil
	}
	data := []byte(nil)
	if info.Mode().IsRegular() && info.Size() <= most {
		if data, err = os.ReadFile(filepath.Join(t.dir, name)); err != nil {
			return borrowed(name)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				return borrowed(name)
			}
		}
		return nil
	}
	return borrowed(name)
}

// format refuses a repository whose format for objects or references a view does not
// support. Reading keys of a file runs no program.
func (t *Target) format(ctx context.Context) error {
	cmd := t.store.command(ctx, t.store.here(), "config", "--file", filepath.Join(t.dir, "config"), "--no-includes", "--null",
		"--get-regexp", `^(extensions\.(objectformat|refstorage|relativeworktrees)|core\.bare)$`)
	out, err := t.store.run(cmd)
	t.works = filepath.Base(t.dir) == ".git" // git's default if core.bare is not set
	var failure *failure
	if errors.As(err, &failure) && failure.Exit == 1 {
		return nil // no such key
	}
	if err != nil {
		return refusal("target", "", ErrUnsupported, "the configuration of the target's repository cannot be read; see what git status says there")
	}
	for pair := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, value, _ := strings.Cut(pair, "\n")
		switch value = strings.ToLower(value); {
		case key == "core.bare":
			t.works = slices.Contains([]string{"false", "no", "off", "0"}, value)
		case value == "sha1", value == "files", strings.HasSuffix(key, "worktrees"):
		case value == "sha256":
			return refusal("target", "", ErrUnsupported, bySHA256)
		case value == "reftable":
			return refusal("target", "", ErrUnsupported, "the target's repository keeps its branches in a reftable, which is not known here; git refs migrate --ref-format=files makes it one that is")
		default:
			return refusal("target", "", ErrUnsupported, sandbox.Shown(key+" = "+value)+" is not known here; sha1 and files are: name a repository that git init --object-format=sha1 has made")
		}
	}
	return nil
}

// noRepository is the hint for a target without a repository.
const noRepository = "there is no git repository at the path of the target; make one with git init, or change its path in clearance.targets"

// bySHA256 is the hint for a repository with SHA-256 hashes.
const bySHA256 = "the target's repository names its objects by SHA-256, and only SHA-1 is known here; name another in clearance.targets, " +
	"or copy results there with golem tool apply_changes or file_export, and commit them yourself"

// makeView creates the view if it does not exist. Another process may create it first.
func (t *Target) makeView() error {
	if to, err := os.Readlink(filepath.Join(t.view, "objects")); err == nil && to == t.Objects() {
		return nil
	}
	views := filepath.Dir(t.view)
	if err := os.MkdirAll(views, 0o700); err != nil {
		return storeError(err)
	}
	temp, err := os.MkdirTemp(views, "new-")
	if err != nil {
		return storeError(err)
	}
	defer os.RemoveAll(temp)
	for _, name := range linked[1:] {
		if err := os.Symlink(filepath.Join(t.dir, name), filepath.Join(temp, name)); err != nil {
			return storeError(err)
		}
	}
	for name, content := range map[string]string{
		"HEAD":   "ref: refs/heads/none\n", // git does not accept a symlink here
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		if err := os.WriteFile(filepath.Join(temp, name), []byte(content), 0o600); err != nil {
			return storeError(err)
		}
	}
	if err = durable.SyncTree(temp); err == nil {
		err = durable.Rename(temp, t.view)
	}
	if _, there := os.Lstat(t.view); err != nil && there != nil {
		return storeError(err)
	}
	return nil
}

// Objects returns the directory of the target's objects, for methods of Store that take
// one.
func (t *Target) Objects() string { return filepath.Join(t.dir, "objects") }

// Take copies a commit of the store, and the objects that its base lacks, into the
// target. No reference names the commit yet. When Take returns without an error, it is on
// the disk.
func (t *Target) Take(ctx context.Context, base, commit Hash) error {
	if !commit.Valid() || base != "" && !base.Valid() {
		return refusal("push", "", sandbox.ErrInvalid, "there is no commit of that name")
	}
	wanted := string(commit) + "\n"
	if base != "" {
		wanted += "^" + string(base) + "\n"
	}
	packErr, indexErr := t.store.copyObjects(ctx, t.store.here(t.Objects()), place{dir: t.view}, wanted)
	if packErr != nil {
		return t.store.explainMissing(ctx, t.Objects(), base, packErr)
	}
	return indexErr
}

// RemoteURL returns the address of a remote in the repository's own configuration, "" if there is
// none. It does not follow includes.
func (t *Target) RemoteURL(name string) string {
	for _, v := range readConfig(t.dir, "config") {
		if v.section == "remote" && v.sub == name && v.key == "url" {
			return v.value
		}
	}
	return ""
}
