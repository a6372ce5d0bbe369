package file

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxHits  = 200    // matches of a page, unless the call asks for more
	mostHits = 10_000 // matches of a page at most
)

type searchArgs struct {
	Path       string `json:"path,omitempty" jsonschema:"virtual path of a directory or file" default:"\"/\""`
	Pattern    string `json:"pattern" jsonschema:"regular expression (RE2), matched line by line"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files that match: *.go"`
	Literal    bool   `json:"literal,omitempty" jsonschema:"pattern is plain text"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Limit      int64  `json:"limit,omitempty" jsonschema:"matches" default:"200"`
	Cursor     string `json:"cursor,omitempty" jsonschema:"from an earlier answer, to continue there"`
}

// searchData is the result of a search for programs.
type searchData struct {
	Path    string        `json:"path"`
	Matches []searchMatch `json:"matches"`
	Files   int           `json:"files"`  // searched
	Binary  int           `json:"binary"` // skipped
	Large   int           `json:"large"`  // skipped
	Unread  int           `json:"unread"`
	Cursor  string        `json:"cursor,omitempty"` // set if there are more
	Cut     sandbox.Cut   `json:"cut,omitempty"`    // why the search is not complete
}

type searchMatch struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

func searchFiles() tool.Tool {
	return tool.New(reader("search_files", "Search the contents of text files. Returns path:line: text."),
		func(_ context.Context, names tool.Names, a searchArgs) (plan tool.Plan, err error) {
			if a.Path, err = names.Locate("search", a.Path, sandbox.ReadOnly, false); err != nil {
				return plan, err
			}
			invalid := func(hint string) error {
				return &sandbox.Error{Op: "search", Path: a.Path, Code: sandbox.ErrInvalid, Hint: hint}
			}
			if _, err := syntax.Parse(a.Pattern, syntax.Perl); err != nil && !a.Literal {
				return plan, invalid(sandbox.Shown(strings.TrimPrefix(err.Error(), "error parsing regexp: ")) + "; for a plain text set literal: true")
			}
			if a.Cursor, err = parseCursor("search", a.Path, a.Cursor); err != nil {
				return plan, err
			}
			after, ok := parseMatch(a.Cursor)
			if !ok {
				return plan, invalid("a cursor is what an earlier answer gave")
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				return search(ctx, files, a, after)
			}
			return tool.NewReadPlan(run, names.ReadTreeEffects(a.Path)...), nil
		})
}

// parseMatch parses a cursor, which is the position of a match: path:line.
func parseMatch(cursor string) (searchMatch, bool) {
	if cursor == "" {
		return searchMatch{}, true
	}
	i := strings.LastIndexByte(cursor, ':')
	if i < 0 {
		return searchMatch{}, false
	}
	line, err := strconv.Atoi(cursor[i+1:])
	return searchMatch{Path: cursor[:i], Line: line}, err == nil
}

// search searches the file at a located name, or the files below it, for matches after
// one.
func search(ctx context.Context, files *sandbox.Sandbox, a searchArgs, after searchMatch) (tool.Result, error) {
	q := sandbox.Query{Pattern: a.Pattern, Literal: a.Literal, IgnoreCase: a.IgnoreCase, Glob: a.Glob, AfterLine: after.Line}
	limit := a.Limit
	if limit < 1 {
		limit = maxHits
	}
	budget := sandbox.Budget{Results: int(min(limit, mostHits)), After: after.Path}
	found, err := files.Search(ctx, a.Path, q, budget)
	if errors.Is(err, sandbox.ErrNotDir) {
		// A file is searched as the only entry of its directory.
		q.Glob = ""
		q.Pick = func(dir string, e sandbox.Entry) (keep, enter bool) { return path.Join(dir, e.Name) == a.Path, false }
		found, err = files.Search(ctx, path.Dir(a.Path), q, budget)
		if err == nil && found.Large > 0 {
			err = &sandbox.Error{Op: "search", Path: a.Path, Code: sandbox.ErrTooLarge,
				Hint: fmt.Sprintf("files of more than %d MiB are not searched; read_file reads it in pages, from any line", sandbox.MaxSearch>>20)}
		}
	}
	if err != nil {
		return tool.Result{}, err
	}
	d := &searchData{Path: a.Path, Matches: []searchMatch{}, Files: found.Files, Binary: found.Binary, Large: found.Large, Unread: found.Unread, Cut: found.Cut}
	text := d.fill(found.Found)
	return tool.Result{Text: text, Data: d}, nil
}

// fill copies the matches that fit on a page, and returns the text of the page.
func (d *searchData) fill(found []sandbox.Match) string {
	var b strings.Builder
	for _, m := range found {
		if b.Len() > maxPage {
			break
		}
		d.Matches = append(d.Matches, searchMatch(m))
		fmt.Fprintf(&b, "%s:%d: %s\n", quoteName(m.Path), m.Line, m.Text)
	}
	if len(d.Matches) == 0 {
		b.WriteString("no match\n")
	}
	left := len(found) - len(d.Matches)
	if d.Cut == sandbox.CutResults || d.Cut == "" && left > 0 {
		last := d.Matches[len(d.Matches)-1]
		d.Cut, d.Cursor = "", quoteName(last.Path+":"+strconv.Itoa(last.Line))
	}
	b.WriteString(nextPageNote(d.Cursor, d.Cut, left))
	fmt.Fprintf(&b, "[%s searched", visible.Count(d.Files, "file"))
	if d.Binary > 0 {
		fmt.Fprintf(&b, ", %d binary skipped", d.Binary)
	}
	b.WriteString("]\n")
	if d.Large > 0 {
		fmt.Fprintf(&b, "[%s larger than %d MiB not searched; read_file reads them in pages]\n", visible.Count(d.Large, "file"), sandbox.MaxSearch>>20)
	}
	return b.String() + missedNote(d.Cut, d.Unread)
}
