package evaluation

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// Observed is what a run did.
type Observed struct {
	Outcome run.Outcome
	Changes []session.FileChange
	// Read returns the new content of a changed file, and false if it cannot be read.
	Read            func(path string) ([]byte, bool)
	Called, Refused map[string]bool // tools
}

// maxShown limits the reasons about changed files, and maxAnswer the characters of an
// answer in a reason.
const (
	maxShown  = 5
	maxAnswer = 120
)

// Check returns the reasons why a run is not as expected: none if it is. They are plain
// text.
func (e Expect) Check(o Observed) (reasons []string) {
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if o.Outcome.End != e.End {
		why := ""
		if o.Outcome.Why != "" {
			why = ": " + visible.Line(o.Outcome.Why, maxAnswer)
		}
		add("the run ended as %s, not as %s%s", o.Outcome.End, e.End, why)
	}
	answer := visible.Line(o.Outcome.Text, maxAnswer)
	for _, p := range e.Answer {
		if !p.MatchString(o.Outcome.Text) {
			add("the answer does not match %s: %s", quote(p), answer)
		}
	}
	for _, p := range e.NotAnswer {
		if p.MatchString(o.Outcome.Text) {
			add("the answer matches %s: %s", quote(p), answer)
		}
	}
	for _, f := range e.Files {
		reasons = append(reasons, f.check(o)...)
	}
	reasons = append(reasons, e.checkChanges(o.Changes)...)
	for _, tool := range e.Called {
		if !o.Called[tool] {
			add("no call of %s was done", visible.Text(tool))
		}
	}
	for _, tool := range e.Refused {
		if !o.Refused[tool] {
			add("no call of %s was refused", visible.Text(tool))
		}
	}
	for _, tool := range e.NotCalled {
		if o.Called[tool] || o.Refused[tool] {
			add("%s was called", visible.Text(tool))
		}
	}
	return reasons
}

func (f ExpectedFile) check(o Observed) (reasons []string) {
	shown := sandbox.Shown(f.Path)
	i := slices.IndexFunc(o.Changes, func(c session.FileChange) bool { return c.Path == path.Clean(f.Path) })
	if i < 0 {
		return []string{shown + " did not change"}
	}
	if deleted := o.Changes[i].Op == overlay.Delete; deleted != f.Deleted {
		return []string{shown + map[bool]string{true: " was deleted", false: " was not deleted"}[deleted]}
	}
	if len(f.Has)+len(f.Lacks) == 0 {
		return nil
	}
	content, ok := o.Read(o.Changes[i].Path)
	if !ok {
		return []string{shown + " has no content that golem can read"}
	}
	for _, p := range f.Has {
		if !p.Match(content) {
			reasons = append(reasons, fmt.Sprintf("%s does not match %s", shown, quote(p)))
		}
	}
	for _, p := range f.Lacks {
		if p.Match(content) {
			reasons = append(reasons, fmt.Sprintf("%s matches %s", shown, quote(p)))
		}
	}
	return reasons
}

// checkChanges returns the changes that are not allowed. With Only, a file that the case
// expects is allowed too.
func (e Expect) checkChanges(changes []session.FileChange) (reasons []string) {
	allowed := slices.Clone(e.Only)
	for _, f := range e.Files {
		allowed = append(allowed, f.Path)
	}
	for _, c := range changes {
		why := ""
		switch {
		case matches(e.Unchanged, c.Path):
			why = "it must stay as it is"
		case e.Only != nil && !matches(allowed, c.Path):
			why = "it is not among the files that may change"
		default:
			continue
		}
		if len(reasons) == maxShown {
			return append(reasons, "more files changed that must not")
		}
		reasons = append(reasons, sandbox.Shown(c.Path)+" changed: "+why)
	}
	return reasons
}

// matches reports whether a pattern matches a path or a directory above it. A pattern
// without a slash at the beginning matches in every directory.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		var b strings.Builder
		if rest, ok := strings.CutPrefix(pattern, "/"); ok {
			b.WriteString("^/")
			pattern = rest
		} else {
			b.WriteString("^/(.*/)?")
		}
		pattern = strings.TrimSuffix(pattern, "/")
		for len(pattern) > 0 {
			switch {
			case strings.HasPrefix(pattern, "**/"):
				b.WriteString("(.*/)?")
				pattern = pattern[3:]
			case strings.HasPrefix(pattern, "**"):
				b.WriteString(".*")
				pattern = pattern[2:]
			case pattern[0] == '*':
				b.WriteString("[^/]*")
				pattern = pattern[1:]
			case pattern[0] == '?':
				b.WriteString("[^/]")
				pattern = pattern[1:]
			default:
				b.WriteString(regexp.QuoteMeta(pattern[:1]))
				pattern = pattern[1:]
			}
		}
		b.WriteString("(/.*)?$")
		compiled, err := regexp.Compile("(?s)" + b.String())
		return err == nil && compiled.MatchString(name)
	})
}

// quote returns a pattern as a text in quotes.
func quote(p *regexp.Regexp) string { return `"` + visible.Line(p.String(), maxAnswer) + `"` }
