package git

import (
	"path"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/golem-forge/golem/sandbox"
)

// The limits of a .gitignore.
const (
	ignoreName = ".gitignore"
	maxIgnore  = 64 << 10
)

// An ignoring reads the .gitignore files of a tree. A worker may have written them, so
// they only shorten the list of a staged directory. They do not apply to files that the
// call names, or that are already on the branch.
type ignoreFiles struct {
	files *sandbox.Sandbox
	top   string // the root of the repository

	mu    sync.Mutex
	known map[string][]ignoreRule // rules by directory, after those of the directories above
}

// An ignoreRule is one line.
type ignoreRule struct {
	pattern string // for the whole name
	not     bool   // matching names are not ignored
	folder  bool   // it applies only to directories
}

// ignores reports whether a file or directory is ignored.
func (i *ignoreFiles) ignores(dir, name string, folder bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := false
	full := path.Join(dir, name)
	for _, r := range i.rulesOf(dir) {
		if r.folder && !folder {
			continue
		}
		if ok, err := doublestar.Match(r.pattern, full); ok && err == nil {
			out = !r.not // the last match counts
		}
	}
	return out
}

// rulesOf returns the rules of a directory and of all above it.
func (i *ignoreFiles) rulesOf(dir string) []ignoreRule {
	if rules, ok := i.known[dir]; ok {
		return rules
	}
	var rules []ignoreRule
	if dir != i.top && dir != "/" {
		rules = append(rules, i.rulesOf(path.Dir(dir))...)
	}
	if data, _, err := i.files.ReadRange(path.Join(dir, ignoreName), 0, maxIgnore); err == nil {
		rules = append(rules, parseIgnore(dir, string(data))...)
	}
	i.known[dir] = rules
	return rules
}

// parseIgnore parses a .gitignore as git does.
func parseIgnore(dir, text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " \t")
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line, r.not = strings.CutPrefix(line, "!"); line == "" {
			continue
		}
		line, r.folder = strings.CutSuffix(line, "/")
		switch rest, rooted := strings.CutPrefix(line, "/"); {
		case rooted:
			line = rest
		case !strings.Contains(line, "/"):
			line = "**/" + line
		}
		r.pattern = path.Join(quoteGlob(dir), line)
		rules = append(rules, r)
	}
	return rules
}

// quoteGlob returns a pattern that matches only a name.
func quoteGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(name)
}
