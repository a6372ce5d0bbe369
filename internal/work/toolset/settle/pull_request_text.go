package settle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/people/visible"
)

// maxTitle is how many bytes the title of a pull request has, as GitHub shows it.
const maxTitle = 120

// maxBodyRows is how many rows a list in the body of a pull request has.
const maxBodyRows = 50

// titleOf returns the title of a pull request for commits.
func titleOf(list []Commit) string {
	line, _, _ := strings.Cut(strings.TrimSpace(list[0].Message), "\n")
	return visible.Line(line, maxTitle)
}

// describePullRequest returns the body of a pull request: what a reviewer should look at first, and
// who has looked. Everything that an agent wrote is in code spans, where GitHub makes no links,
// mentions or pictures of it.
func describePullRequest(list []Commit, root, approver string, unseen bool) string {
	var b strings.Builder
	files, added, removed := make(map[string]bool), 0, 0
	var code, others, subjects []string
	add := func(to *[]string, row string) {
		if !slices.Contains(*to, row) {
			*to = append(*to, row)
		}
	}
	for _, c := range list {
		added, removed = added+c.Added, removed+c.Removed
		subjects = append(subjects, codeSpan(c.Short())+" "+codeSpan(c.Subject()))
		for _, f := range c.Files {
			files[f.Path] = true
		}
		for _, f := range c.Flags {
			name := strings.TrimPrefix(strings.TrimPrefix(f.Path, root), "/")
			if name == "" {
				name = "commit " + c.Short()
			}
			if row := codeSpan(name) + ": "; f.Kind == review.Becomes {
				add(&code, row+codeSpan(f.Text))
			} else {
				add(&others, row+codeSpan(string(f.Kind)+": "+f.Text))
			}
		}
	}
	fmt.Fprintf(&b, "%s, %s, %s. The authors of the commits are unverified.\n", visible.Count(len(list), "commit"), visible.Count(len(files), "changed file"), visible.LineCounts(added, removed))
	section := func(title string, rows []string) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n**%s**\n\n", title)
		for _, row := range rows[:min(len(rows), maxBodyRows)] {
			b.WriteString("- " + row + "\n")
		}
		if more := len(rows) - maxBodyRows; more > 0 {
			fmt.Fprintf(&b, "- and %s more\n", visible.Number(more))
		}
	}
	section("Files that become code", code)
	section("Look at these, too", others)
	section("Commits", subjects)
	by := "The user"
	if approver != "" {
		by = codeSpan(approver)
	}
	if unseen {
		b.WriteString("\n" + by + " let `golem pr` push these commits without looking at them.\n")
	} else {
		b.WriteString("\n" + by + " let `golem pr` push exactly these commits.\n")
	}
	return b.String()
}

// codeSpan returns a text as a code span of Markdown, in one line.
func codeSpan(text string) string {
	text = visible.Line(text, 300)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.TrimSpace(text) == "" {
		text = " " + text + " "
	}
	return fence + text + fence
}
