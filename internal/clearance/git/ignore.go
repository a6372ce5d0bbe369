package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// An IgnoreFinder finds files that git ignores in a work tree of the user's.
type IgnoreFinder struct {
	Program string   // the path of git
	Environ []string // the user's variables: HOME and XDG_CONFIG_HOME say where their own rules are
}

// The limits on files with rules: bytes of one, and their number.
const (
	maxRuleFile  = 1 << 20
	maxRuleFiles = 1000
)

// Ignored returns those new files of a directory that git ignores, with the topmost ignored
// directory above each, or the file itself. Names are relative to the directory, and names of
// directories end with a slash. The rules are those of the directory, of its repository and of
// the user. A file in the index is not ignored, and neither are files of a repository in the
// directory that golem cannot read. ok is false if the directory is in no work tree, or if the
// work tree ignores all of it.
func (f IgnoreFinder) Ignored(ctx context.Context, dir string, names []string) (ignored map[string]string, ok bool, err error) {
	tops := map[string]string{".": workTreeOf(dir)} // work trees, by directories below dir
	if tops["."] == "" {
		return nil, false, nil
	}
	byTop := make(map[string][]string)
	for _, name := range names {
		top := topOf(dir, path.Dir(strings.TrimSuffix(name, "/")), tops)
		byTop[top] = append(byTop[top], name)
	}
	ignored = make(map[string]string)
	for top, list := range byTop {
		full := make([]string, len(list))
		for i, name := range list {
			rel, err := filepath.Rel(top, filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil {
				return nil, false, err
			}
			if full[i] = filepath.ToSlash(rel); strings.HasSuffix(name, "/") {
				full[i] += "/"
			}
		}
		folds, err := f.inTree(ctx, top, full)
		if err != nil && top == tops["."] {
			return nil, false, err
		}
		for i, name := range list {
			fold, isIgnored := folds[full[i]]
			if !isIgnored {
				continue
			}
			clean, err := filepath.Rel(dir, filepath.Join(top, filepath.FromSlash(fold)))
			if err != nil || !filepath.IsLocal(clean) || clean == "." {
				return nil, false, err
			}
			if ignored[name] = filepath.ToSlash(clean); strings.HasSuffix(fold, "/") {
				ignored[name] += "/"
			}
		}
	}
	return ignored, true, nil
}

// inTree returns what Ignored does, for names in one work tree that are relative to it.
func (f IgnoreFinder) inTree(ctx context.Context, top string, names []string) (map[string]string, error) {
	temp, err := os.MkdirTemp("", "golem-ignore-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	t := &ruleTree{store: ObjectStore{program: f.Program, dir: temp, home: filepath.Join(temp, "home")}, top: top, real: make(map[string]bool)}
	if err := t.make(ctx, f.Environ); err != nil {
		return nil, err
	}
	ask, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer ask.end()
	folds := make(map[string]string)
	var above, files []string
	for _, name := range names {
		fold, err := ask.directoryOf(name)
		switch {
		case err != nil:
			return nil, err
		case fold != "":
			folds[name], above = fold, append(above, fold)
		case !strings.HasSuffix(name, "/"):
			files = append(files, name)
		}
	}
	single, err := ask.check(files)
	for _, name := range single {
		folds[name], above = name, append(above, name)
	}
	if err != nil {
		return nil, err
	}
	tracked, err := t.tracked(ctx, above)
	for name := range tracked {
		delete(folds, name)
	}
	return folds, err
}

// topOf returns the work tree that a directory below dir is in. tops has the known ones.
func topOf(dir, below string, tops map[string]string) string {
	if top, ok := tops[below]; ok {
		return top
	}
	top, at := topOf(dir, path.Dir(below), tops), filepath.Join(dir, filepath.FromSlash(below))
	if info, err := os.Lstat(at); err == nil && info.IsDir() { // in no work tree beyond a symlink
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			top = at
		}
	}
	tops[below] = top
	return top
}

// workTreeOf returns the nearest directory at or above a path with a .git, "" if there is none.
func workTreeOf(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// A ruleTree has the rules of a work tree and nothing else, in a directory of golem's, so that git
// reads no other file of the work tree and none of its settings.
type ruleTree struct {
	store  ObjectStore
	top    string
	index  string          // the index of the work tree
	real   map[string]bool // whether a path is a directory of the work tree
	copied int
}

func (t *ruleTree) git() string  { return filepath.Join(t.store.dir, "git") }
func (t *ruleTree) tree() string { return filepath.Join(t.store.dir, "tree") }

// make creates the directory, with the rules of the user and of the repository.
func (t *ruleTree) make(ctx context.Context, environ []string) error {
	common, own := filepath.Join(t.top, ".git"), filepath.Join(t.top, ".git")
	if info, err := os.Lstat(own); err == nil && !info.IsDir() {
		var err error
		if common, own, err = linkedTree(t.top); err != nil {
			return err
		}
	}
	t.index = filepath.Join(own, "index")
	for _, dir := range []string{t.store.home, t.tree(), filepath.Join(t.git(), "objects"), filepath.Join(t.git(), "refs"), filepath.Join(t.git(), "info")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	rules := slices.Concat(readRules(t.store.userRules(ctx, environ)), []byte("\n"), readRules(filepath.Join(common, "info", "exclude")))
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n", "info/exclude": string(rules)} {
		if err := os.WriteFile(filepath.Join(t.git(), name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return t.copyRules(".")
}

// userRules returns the file with the user's own rules for all repositories, as git finds it.
func (s *ObjectStore) userRules(ctx context.Context, environ []string) string {
	if file, ok := s.userSetting(ctx, environ, "--type=path", "--get", "core.excludesFile"); ok {
		return file
	}
	_, config := userDirectories(environ)
	return filepath.Join(config, "git", "ignore")
}

// readRules returns the content of a file with rules, nil if there is none.
func readRules(name string) []byte {
	if !filepath.IsAbs(name) {
		return nil
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRuleFile {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	data, _ := io.ReadAll(io.LimitReader(file, maxRuleFile))
	return data
}

// copyRules copies the rules of a directory of the work tree, after those above it. Git reads none
// through a symlink.
func (t *ruleTree) copyRules(dir string) error {
	to := filepath.Join(t.tree(), filepath.FromSlash(dir))
	if err := os.MkdirAll(to, 0o700); err != nil { // git looks whether it is a directory
		return err
	}
	at := filepath.Join(t.top, filepath.FromSlash(dir))
	info, err := os.Lstat(at)
	t.real[dir] = err == nil && info.IsDir() && (dir == "." || t.real[path.Dir(dir)])
	from := filepath.Join(at, ".gitignore")
	if info, err = os.Lstat(from); !t.real[dir] || err != nil || !info.Mode().IsRegular() || t.copied == maxRuleFiles {
		return nil
	}
	t.copied++
	return os.WriteFile(filepath.Join(to, ".gitignore"), readRules(from), 0o600)
}

// command returns a git that sees only the rules.
func (t *ruleTree) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := t.store.command(ctx, place{dir: t.git()}, append([]string{"--work-tree=" + t.tree()}, args...)...)
	cmd.Dir = t.tree()
	cmd.Env = slices.DeleteFunc(cmd.Env, func(one string) bool { return strings.HasPrefix(one, "GIT_LITERAL_PATHSPECS=") }) // check-ignore refuses it
	return cmd
}

// A ruleCheck is a git that answers whether it ignores a name.
type ruleCheck struct {
	tree  *ruleTree
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	known map[string]string // the topmost ignored directory at or above a directory, "" for none
}

// begin starts git.
func (t *ruleTree) begin(ctx context.Context) (*ruleCheck, error) {
	c := &ruleCheck{tree: t, cmd: t.command(ctx, "check-ignore", "--stdin", "-z", "--no-index", "--verbose", "--non-matching"), known: map[string]string{".": ""}}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, c.cmd.Start()
}

// end ends git.
func (c *ruleCheck) end() {
	c.in.Close()
	io.Copy(io.Discard, c.out)
	c.cmd.Wait()
}

// directoryOf returns the topmost ignored directory above a name, or the name if it is one.
func (c *ruleCheck) directoryOf(name string) (string, error) {
	dir := strings.TrimSuffix(name, "/")
	if dir == name {
		dir = path.Dir(name)
	}
	fold, ok := c.known[dir]
	if ok {
		return fold, nil
	}
	fold, err := c.directoryOf(dir)
	if err == nil && fold == "" {
		if err = c.tree.copyRules(dir); err != nil {
			return "", err
		}
		var found []string
		if found, err = c.check([]string{dir}); len(found) > 0 {
			fold = dir + "/"
		}
	}
	c.known[dir] = fold
	return fold, err
}

// maxAsked is how many bytes of names git gets before it must answer. A pipe holds them.
const maxAsked = 32 << 10

// check returns those names that git ignores by themselves.
func (c *ruleCheck) check(names []string) (ignored []string, err error) {
	for len(names) > 0 {
		var asked bytes.Buffer
		n := 0
		for ; n < len(names) && (n == 0 || asked.Len()+len(names[n]) < maxAsked); n++ {
			fmt.Fprintf(&asked, "./%s\x00", names[n])
		}
		if _, err := c.in.Write(asked.Bytes()); err != nil {
			return nil, err
		}
		for _, name := range names[:n] {
			var answer [4]string // file, line, pattern, name
			for i := range answer {
				if answer[i], err = c.out.ReadString(0); err != nil {
					return nil, err
				}
			}
			if pattern := answer[2]; answer[3] != "./"+name+"\x00" {
				return nil, errors.New("git answers about another name")
			} else if pattern != "\x00" && pattern[0] != '!' {
				ignored = append(ignored, name)
			}
		}
		names = names[n:]
	}
	return ignored, nil
}

// maxPathspecs is the most paths for which git is asked by name.
const maxPathspecs = 100

// tracked returns those files at and below paths that are in the index.
func (t *ruleTree) tracked(ctx context.Context, paths []string) (map[string]bool, error) {
	tracked := make(map[string]bool)
	info, err := os.Lstat(t.index)
	if err != nil || len(paths) == 0 {
		return tracked, nil
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("the index is no file")
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); len(paths) > maxPathspecs {
		paths = nil
	}
	cmd := t.command(ctx, append([]string{"ls-files", "--cached", "-z", "--"}, paths...)...)
	cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+t.index, "GIT_LITERAL_PATHSPECS=1")
	out, err := t.store.run(cmd)
	for name := range strings.SplitSeq(string(out), "\x00") {
		tracked[name] = true
	}
	return tracked, err
}
