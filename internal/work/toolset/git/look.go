package git

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A CommitView is what a staged commit is shown as: to a model as text, to a program as JSON,
// to a person in colours.
type CommitView struct {
	CommitID  string        `json:"commitId"`
	Message   string        `json:"message"`
	Target    string        `json:"target"`
	Branch    string        `json:"branch"`
	CreatedAt time.Time     `json:"createdAt"`
	Workers   []string      `json:"workers"`
	Session   string        `json:"session,omitempty"`
	Flags     []review.Flag `json:"flags"` // the riskiest first
	Files     []seen        `json:"files"` // the riskiest first
	Found     []found       `json:"found"` // findings of the scanners
	Scanned   []string      `json:"scanned"`
	Intake    int64         `json:"intake"`
	Bytes     int64         `json:"bytes"`

	head   string
	all    bool // every file that was compared is shown completely
	unseen []string
	held   []string       // names of files that scanners hold back
	missed map[string]int // number of files that a scanner did not examine completely, by scanner
	whole  func(ctx context.Context, f seen) (io.ReadCloser, error)
	mark   func() error // records that the user has seen all of it
}

// A found is a finding of a scanner.
type found struct {
	Path string `json:"path,omitempty"` // "" for the message
	scan.Finding
}

// String returns the finding as one line that is safe to print.
func (f found) String() string {
	where := messageName
	if f.Path != "" {
		where = visible.Name(f.Path)
	}
	if f.Line > 0 {
		where += fmt.Sprintf(":%d", f.Line)
	}
	word := "told"
	if f.Hold {
		word = "holds it back"
	}
	return where + ": " + f.Scanner + " (" + word + "): " + visible.Line(f.What, maxWhat)
}

// messageName stands for the message in a list of files. maxWhat limits the characters
// changesToShow of a finding.
const (
	messageName = "message"
	maxWhat     = 300
)

// errScan is the code for content that scanners hold back.
const errScan sandbox.Code = "scan"

// A seen is a file of a Look.
type seen struct {
	Path      string `json:"path"`
	Operation string `json:"operation"`
	OldMode   string `json:"oldMode,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Size      int64  `json:"size"`
	Binary    bool   `json:"binary,omitempty"`
	Encoding  string `json:"encoding,omitempty"` // of a text that is shown converted
	Cut       bool   `json:"cut,omitempty"`
	Diff      string `json:"diff,omitempty"`

	inside   string // path in the repository
	old, new string // git's hashes of the contents
	change   review.FileChange
}

// examine examines a staged commit.
func (s Set) examine(ctx context.Context, commits *clearance.Commits, c *clearance.StagedCommit) (*CommitView, error) {
	var scanners *scan.Set
	if s.Scanners != nil {
		var err error
		if scanners, err = s.Scanners(); err != nil {
			return nil, &sandbox.Error{Op: "scan", Code: errScan, Hint: "golem cannot start the scanners, and clears nothing without them: " + err.Error()}
		}
	}
	found, err := commits.Examine(ctx, c, s.Limits.Ratio, scanners)
	if ctx.Err() != nil { // then the findings are of no use
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	t := s.targetOf(c)
	l := &CommitView{CommitID: c.ID, Message: c.Message, Target: c.Target, Branch: c.Branch, CreatedAt: c.CreatedAt, Workers: c.Workers, Session: c.Session,
		Flags: append([]review.Flag{}, found.Risky()...), Intake: c.Intake, Bytes: found.Bytes, head: s.describe(c)}
	shown := t.shownNames(c)
	for i, f := range l.Flags {
		if f.Path != "" {
			l.Flags[i].Path = shown(f.Path)
		}
	}
	contents := make(map[string]clearance.File, len(c.Files))
	for _, f := range c.Files {
		contents[f.Path] = f
	}
	for _, f := range found.Files {
		was := contents[f.Path]
		inside := f.Path
		f.Path = shown(f.Path)
		l.Files = append(l.Files, seen{inside: inside, Path: f.Path, Operation: f.Operation, OldMode: f.OldMode, Mode: f.Mode, Size: f.Size, Binary: f.Binary, Encoding: f.Encoding, Cut: f.Cut, Diff: f.Diff,
			old: string(was.Old), new: string(was.New), change: f.FileChange})
	}
	l.whole = func(ctx context.Context, f seen) (io.ReadCloser, error) {
		return commits.Content(ctx, c, contents[f.inside])
	}
	l.mark = func() error { return commits.MarkShown(c.ID) }
	l.addVerdicts(found, shown, scanners)
	for _, name := range found.Unseen() {
		l.unseen = append(l.unseen, shown(name))
	}
	return l, nil
}

// shownNames returns a function for the names by which a person sees the files of a commit, and
// overrides scanners for them. They are virtual names without the secrets in them. Files whose
// names differ only in a secret keep them, so that an override is for one file.
func (t Target) shownNames(c *clearance.StagedCommit) func(inside string) string {
	names := make(map[string]string, len(c.Files))
	count := make(map[string]int, len(c.Files))
	for _, f := range c.Files {
		name := scan.ShownName(t.virtualName(f.Path))
		names[f.Path] = name
		count[name]++
	}
	return func(inside string) string {
		if name, ok := names[inside]; ok && count[name] == 1 {
			return name
		}
		return t.virtualName(inside)
	}
}

// addVerdicts adds the results of the scanners.
func (l *CommitView) addVerdicts(seen *clearance.Examination, shown func(inside string) string, scanners *scan.Set) {
	l.Found = []found{}
	if scanners == nil {
		return
	}
	l.Scanned = scanners.About()
	add := func(name string, list []scan.Finding) {
		holds := false
		for _, f := range list {
			l.Found = append(l.Found, found{name, f})
			holds = holds || f.Hold
		}
		if holds {
			l.held = append(l.held, cmp.Or(name, messageName))
		}
	}
	add("", seen.Message)
	l.missed = make(map[string]int)
	for _, f := range seen.Files {
		add(shown(f.Path), f.Verdict.Findings)
		for _, line := range l.Scanned {
			name, state, _ := strings.Cut(line, " ")
			if strings.HasPrefix(state, scan.NotScanned) {
				continue // the line for the scanner says so for all files
			}
			if f.Operation != string(clearance.Delete) && !slices.Contains(f.Verdict.Scanners, name) {
				l.missed[name]++
			}
		}
	}
	slices.SortStableFunc(l.Found, func(a, b found) int {
		switch {
		case a.Hold == b.Hold:
			return 0
		case a.Hold:
			return -1
		}
		return 1
	})
}

// DescribeScanners returns a line for each scanner: whether it found something, and what it did
// not examine.
func (l *CommitView) DescribeScanners() []string {
	var list []string
	for _, line := range l.Scanned {
		name, state, _ := strings.Cut(line, " ")
		n := 0
		for _, f := range l.Found {
			if f.Scanner == name {
				n++
			}
		}
		said := name + " ok"
		switch {
		case strings.HasPrefix(state, "off"):
			list = append(list, name+" off")
			continue
		case n > 0:
			said = fmt.Sprintf("%s found %d", name, n)
		case strings.HasPrefix(state, scan.NotScanned):
			said = name + " " + scan.NotScanned + " (no engine: clearance.malware sets one)"
		}
		if missed := l.missed[name]; missed > 0 {
			said += " but " + visible.Count(missed, "file") + " not seen whole"
		}
		list = append(list, said)
	}
	return list
}

// Limits of what is shown at once.
const (
	maxFlags = 200  // lines of findings
	maxKind  = 50   // flags of one kind
	maxLines = 2000 // lines of one file
)

// Show prints the commit for a person, safe for a terminal. It prints a limited part of
// each file, or everything that was compared, and says how to see the rest.
func (l *CommitView) Show(w io.Writer, page visible.Page) error {
	how := review.How{Page: page, Most: maxLines, More: "golem review " + shortID(l.CommitID) + " --all shows all of it"}
	if l.all {
		how.Most = 0
	}
	return l.show(w, page, func(seen) review.How { return how })
}

// ShowAll prints everything, also files that are too large to compare.
func (l *CommitView) ShowAll(ctx context.Context, w io.Writer, page visible.Page) error {
	return l.show(w, page, func(f seen) review.How {
		return review.How{Page: page, Whole: func() (io.ReadCloser, error) { return l.whole(ctx, f) }}
	})
}

func (l *CommitView) show(w io.Writer, page visible.Page, how func(seen) review.How) error {
	if err := l.ShowSummary(w, page); err != nil {
		return err
	}
	for _, f := range l.Files {
		if f.Diff == "" && !f.Binary && !f.Cut {
			continue // the summary has all of it
		}
		if err := review.Text(w, f.change, how(f)); err != nil {
			return err
		}
	}
	return nil
}

// MarkPrinted records that the user has seen the commit through Show or, if all is set,
// through ShowAll. It does nothing if Show skipped something.
func (l *CommitView) MarkPrinted(all bool) error {
	for _, f := range l.Files {
		if !all && (f.Cut || strings.Count(f.Diff, "\n") > maxLines) {
			return nil
		}
	}
	return l.mark()
}

// ShowSummary prints the rows of Summary.
func (l *CommitView) ShowSummary(w io.Writer, page visible.Page) error {
	b := bufio.NewWriter(w) // keeps the error
	for _, r := range l.Summary() {
		if r.Mark == visible.About {
			page.Line(b, r.Text)
		} else {
			page.Row(b, r)
		}
	}
	return b.Flush()
}

// Summary returns the commit, the flags, and the change of each file.
func (l *CommitView) Summary() (rows []visible.Row) {
	add := func(mark, before string, lines ...string) {
		for _, text := range lines {
			rows = append(rows, visible.Row{Mark: mark, Text: before + visible.Text(text)})
		}
	}
	add(visible.About, "", l.head)
	add(visible.About, "  | ", l.restOfMessage()...)
	held, told := l.Findings()
	add(visible.Warning, "", held...)
	flags, _ := listRisky(l.Flags)
	add(visible.Warning, "", flags...)
	add("·", "", told...)
	for _, f := range l.Files {
		add(visible.About, "  ", review.Lines(f.change)...)
	}
	if len(l.Scanned) > 0 {
		add(visible.About, "scanned: ", strings.Join(l.DescribeScanners(), ", "))
	}
	if l.Intake > 0 {
		add(visible.About, "", fmt.Sprintf("read %s, staged %s (%d %%)", visible.Amount(l.Intake), visible.Amount(l.Bytes), (100*l.Bytes+l.Intake/2)/l.Intake))
	}
	return rows
}

// limitLines shortens a list of lines to what a person reads.
func limitLines(lines []string) []string {
	if more := len(lines) - maxFlags; more > 0 {
		return append(lines[:maxFlags:maxFlags], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// restOfMessage returns the lines of the message after the first, safe for a terminal. They are
// pushed too, and services act on some of them: co-authors, issues to close, CI to skip.
func (l *CommitView) restOfMessage() []string {
	_, rest, _ := strings.Cut(strings.TrimSpace(l.Message), "\n")
	var lines []string
	for line := range strings.SplitSeq(rest, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, visible.Line(line, math.MaxInt))
		}
	}
	return lines
}

// describeFindings returns the findings that hold nothing back, one line for each file and scanner.
// It skips the kind of a binary file, which is in a flag.
func (l *CommitView) describeFindings() []string {
	binary := make(map[string]bool)
	for _, f := range l.Files {
		binary[f.Path] = f.Binary
	}
	var lines []string
	var last found
	for _, f := range l.Found {
		switch {
		case f.Hold || f.Scanner == "format" && binary[f.Path]:
		case len(lines) > 0 && f.Path == last.Path && f.Scanner == last.Scanner && f.Line == last.Line:
			lines[len(lines)-1] += "; " + visible.Line(f.What, maxWhat)
		default:
			lines = append(lines, f.String())
			last = f
		}
	}
	return lines
}

// HasUnseen reports whether the push needs the user's word that some of it was not shown.
func (l *CommitView) HasUnseen() bool { return len(l.unseen) > 0 || len(l.Files) > maxAsked }

// Held returns the names that scanners hold back.
func (l *CommitView) Held() []string { return l.held }

// DiffArgs are the arguments of git_diff.
type DiffArgs struct {
	CommitID string `json:"commitId,omitempty" jsonschema:"the id, or the beginning of it; not needed if only one commit waits"`
	All      bool   `json:"all,omitempty" jsonschema:"all lines, also of files with very many"`
	Unstaged bool   `json:"unstaged,omitempty" jsonschema:"show the changes that are not staged, instead of a staged commit"`
	Path     string `json:"path,omitempty" jsonschema:"with unstaged: only this file or directory"`
}

// ToolName implements tool.Arguments.
func (DiffArgs) ToolName() string { return "git_diff" }

// diff returns the tool that shows a staged commit.
func (s Set) diff() tool.Tool {
	const op = "git_diff"
	t := newReadTool(op, "Show the changes of a staged commit, read from the objects that would be pushed. Risky changes come first. "+
		"If nothing is staged, or with unstaged, show how the files differ from the branch.")
	return tool.New(t, func(ctx context.Context, names tool.Names, a DiffArgs) (tool.Plan, error) {
		commits, err := s.openCommits(ctx, op)
		if err != nil {
			return tool.Plan{}, err
		}
		if waiting, err := commits.List(); a.Unstaged || a.Path != "" || a.CommitID == "" && err == nil && len(waiting) == 0 {
			return s.planUnstaged(names, a)
		}
		var c *clearance.StagedCommit
		if a.CommitID != "" {
			c, err = s.findByID(op, commits, names, a.CommitID)
		} else {
			c, err = s.findOnly(op, commits, "", "", func(c *clearance.StagedCommit) bool { return len(s.effectsOfClosed(names, c)) == 0 })
		}
		if err != nil { // the error may list the waiting commits
			told, _ := s.planListing(ctx, op, names, nil)
			return told, err
		}
		plan := tool.NewReadPlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
			l, err := s.examine(ctx, commits, c)
			if err != nil {
				return tool.Result{}, err
			}
			var b strings.Builder
			l.all = a.All
			err = l.Show(&b, visible.Page{})
			return tool.Result{Text: b.String(), Data: l}, err
		}, s.effectsOfClosed(names, c)...) // others may have staged files that this worker may not read
		plan.Args, plan.TaintedBy, plan.Reveals = DiffArgs{CommitID: c.ID, All: a.All}, c.Untrusted, s.names(c)
		return plan, nil
	})
}

// maxAsked limits how many files are pushed without --unseen. maxCarried limits the bytes
// of diffs in a request to push.
const (
	maxAsked   = 1000
	maxCarried = 8 << 20
)

// warnings returns what to look at first before a push, and how many more warnings there
// are.
func (l *CommitView) warnings() (list []string, more int) {
	for _, f := range l.Found {
		if f.Hold {
			list = append(list, "overridden: "+f.String())
		}
	}
	flags, more := listRisky(l.Flags)
	list = append(list, flags...)
	for _, line := range l.restOfMessage() {
		list = append(list, "message: "+line)
	}
	return list, more
}

// listRisky returns flags as lines, the riskiest first. It limits the lines of one kind, and
// for files that become code the lines of one reason, so that many flags of one kind do
// not hide another. More is the number of skipped flags.
func listRisky(flags []review.Flag) (list []string, more int) {
	var kinds []string
	count := make(map[string]int)
	for _, f := range flags {
		kind := string(f.Kind)
		if f.Kind == review.Becomes {
			why, _, _ := strings.Cut(f.Text, ";")
			kind += ": " + why
		}
		if count[kind]++; count[kind] <= maxKind {
			list = append(list, f.String())
		}
		if count[kind] == maxKind+1 {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		list = append(list, fmt.Sprintf("%s: and %d more; golem review --json lists all", kind, count[kind]-maxKind))
		more += count[kind] - maxKind
	}
	return list, more
}

// changesToShow returns the changes to show before a push. It returns an error if something
// cannot be shown and the user has not accepted that.
func (l *CommitView) changesToShow(a PushArgs) ([]tool.Change, error) {
	unseen := len(l.unseen)
	if len(l.Files) > maxAsked {
		unseen = max(unseen, len(l.Files)-maxAsked)
	}
	if unseen > 0 && !a.Unseen {
		which := ""
		if len(l.unseen) > 0 {
			which = ", " + sandbox.Shown(l.unseen[0]) + countMore(len(l.unseen)-1)
		}
		return nil, &sandbox.Error{Op: "git_push", Code: sandbox.ErrLimit,
			Hint: visible.Count(unseen, "file") + " too large or too many to be shown" + which + "; golem review " + shortID(l.CommitID) + " --all shows all of it; then push with --unseen"}
	}
	var list []tool.Change
	left := maxCarried
	for _, f := range l.Files {
		c := tool.Change{Path: f.Path, Op: tool.Op(f.Operation), Diff: f.Diff, Base: f.old, Becomes: f.new}
		if f.Mode != f.OldMode {
			c.Mode = f.Mode
		}
		if f.Diff == "" || f.Encoding != "" || f.Mode != f.OldMode && f.Operation == string(clearance.Update) {
			c.About = strings.Join(review.Lines(f.change), "; ")
			if amount := review.Amount(f.change); strings.HasSuffix(c.About, "("+amount+")") {
				c.About = amount // the name of the change has the rest
			}
		}
		switch gone := f.Operation == string(clearance.Delete); {
		case gone && f.Diff == "":
		case f.Binary:
			c.Omitted = "binary"
		case f.Cut, f.Diff == "" && f.old != f.new && f.Size > 0:
			c.Omitted = "too large to show"
		}
		if left -= len(c.Diff); left < 0 {
			c.Diff, c.Omitted, left = "", "there is too much to show", 0
		}
		list = append(list, c)
	}
	return list, nil
}

// Changes returns the files as a request to push has them.
func (l *CommitView) Changes() []tool.Change {
	list, _ := l.changesToShow(PushArgs{Unseen: true}) // the only error is about unseen files
	return list
}

// Findings returns the findings of the scanners as lines: those that hold a file back, and the
// others.
func (l *CommitView) Findings() (held, told []string) {
	for _, f := range l.Found {
		if f.Hold {
			held = append(held, f.String())
		}
	}
	return limitLines(held), limitLines(l.describeFindings())
}

// checkOverrides returns an error unless the user overrides everything that scanners hold
// back, each with a reason.
func (l *CommitView) checkOverrides(list []string) error {
	given, err := clearance.ParseOverrides("git_push", list, func(name string) bool { return slices.Contains(l.held, name) })
	if err != nil {
		return err
	}
	var left, why, words []string
	for _, name := range l.held {
		if given[name] {
			continue
		}
		left = append(left, name)
		words = append(words, clearance.OverrideFlag(name))
		if i := slices.IndexFunc(l.Found, func(f found) bool { return f.Hold && cmp.Or(f.Path, messageName) == name }); len(why) < 5 && i >= 0 {
			why = append(why, l.Found[i].String())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &sandbox.Error{Op: "git_push", Path: left[0], Code: errScan, Hint: strings.Join(why, "; ") + countMore(len(left)-len(why)) +
		"; look at it with golem review; to push it anyway: " + strings.Join(words[:min(len(words), 5)], " ") + countMore(max(0, len(words)-5))}
}
