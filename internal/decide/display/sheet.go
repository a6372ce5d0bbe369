// Package display writes a request as rows of text, for a person who decides about it.
package display

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A Sheet is a request as rows of text, for a person who decides about it. Every front shows
// these rows, so that all of them show the same.
type Sheet struct {
	tool             string
	look             string // the flag with which golem tool looks at the files of the call; "-" if it cannot
	most             int    // maximum characters of one piece of text
	Head, Body, Tail []visible.Row
	odd              bool // something had to be escaped
}

// NewSheet describes a request. It cuts each piece of text to at most most characters.
func NewSheet(r tool.Request, most int) *Sheet {
	s := &Sheet{tool: r.Tool, most: most}
	switch {
	case r.Reporter != "":
		s.look = "-"
	case r.SessionLabel != "":
		s.look = " --session " + r.SessionLabel
	}
	s.Head = append(s.Head, visible.Row{Mark: visible.About, Text: s.actor(r) + s.wish(r) + s.session(r), Item: tool.ItemCall})
	if !r.IsCommand() {
		s.Head = append(s.Head, visible.Row{Mark: visible.About, Text: s.origin(r), Item: tool.ItemCall})
	}
	if r.Why != "" {
		s.Head = append(s.Head, visible.Row{Mark: visible.About, Text: says(r) + "because of " + s.line(r.Why), Item: tool.ItemWhy})
	}
	if r.Earlier != "" {
		s.Head = append(s.Head, visible.Row{Mark: visible.About, Text: says(r) + s.line(r.Earlier)})
	}
	if r.Taint != "" {
		s.Body = append(s.Body, visible.Row{Mark: visible.Warning, Text: "tainted: the worker has read " + s.name(r.Taint) + ", which is untrusted; no rule and no earlier approval applies", Item: tool.ItemTaint})
	}
	code, others := s.flags(r)
	s.Body = append(s.Body, code...)
	for i, text := range r.Warnings {
		s.Body = append(s.Body, visible.Row{Mark: visible.Warning, Text: s.line(text), Item: tool.ItemWarning(i)})
	}
	s.Body = append(s.Body, others...)
	s.alikes(r)
	for i, text := range r.Details {
		s.Body = append(s.Body, visible.Row{Mark: visible.Detail, Text: s.line(text), Item: tool.ItemDetail(i)})
	}
	s.effects(r)
	s.directories(r)
	s.changes(r)
	s.arguments(r)
	if r.Problem != "" {
		s.Tail = append(s.Tail, visible.Row{Mark: visible.Warning, Text: "golem does not know what it would change: " + s.line(r.Problem), Item: tool.ItemProblem})
	}
	if s.odd {
		s.Tail = append(s.Tail, visible.Row{Mark: visible.Warning, Text: `it holds characters that cannot be seen or that a terminal would obey; they are shown like this: \u202e`})
	}
	return s
}

// actor names who acts: the user, or the chain of workers that made the call.
func (s *Sheet) actor(r tool.Request) string {
	if r.Origin == policy.User {
		return "You are about to "
	}
	var who []string
	for _, w := range r.Workers {
		who = append(who, s.name(w))
	}
	if len(who) == 0 {
		who = []string{caller(r.Origin)}
	}
	return strings.Join(who, " › ") + " wants to "
}

// session names the session that a call takes its changes from, if there are several.
func (s *Sheet) session(r tool.Request) string {
	if r.Session == "" {
		return ""
	}
	return ", from session " + s.line(r.Session)
}

// origin names the tool, its caller, and the reason why golem asks.
func (s *Sheet) origin(r tool.Request) string {
	text := "(tool " + s.name(r.Tool)
	switch {
	case r.Origin == policy.User && (len(r.Workers) == 0 || r.Workers[len(r.Workers)-1] == policy.NoWorker): // your own command
	case r.Origin == policy.User:
		text += " as " + s.name(r.Workers[len(r.Workers)-1])
	case r.Origin != policy.User && r.Origin != policy.Model:
		text += ", called by " + caller(r.Origin)
	}
	var said []string
	switch {
	case r.Origin == policy.User: // your own calls are not steered
	case r.Tool == tool.ConnectTool: // the call is about the network itself
	case r.Network:
		said = append(said, "network on")
	case len(r.Hosts) > 0:
		said = append(said, "network: only "+s.name(strings.Join(r.Hosts, ", ")))
	default:
		said = append(said, "network off")
	}
	switch {
	case r.Taint != "":
		said = append(said, "tainted by "+s.name(r.Taint))
	case r.Reporter != "":
		said = append(said, "not tainted")
	}
	switch {
	case r.OnlyUser:
		said = append(said, "asked every time")
	case r.Rule != "":
		said = append(said, "asked by "+s.name(r.Rule))
	default:
		said = append(said, "asked by default")
	}
	if r.Reporter != "" {
		return text + "; " + says(r) + strings.Join(said, ", ") + ")"
	}
	return text + ", " + strings.Join(said, ", ") + ")"
}

// says begins what only the reporter of a request says, "" for this golem.
func says(r tool.Request) string {
	if r.Reporter == "" {
		return ""
	}
	return r.Reporter + " says: "
}

// maxAlikes is how many look-alike names are listed.
const maxAlikes = 5

// alikes warns of names that look like other names. It checks workers, tools, paths,
// hosts, commands and short arguments.
func (s *Sheet) alikes(r tool.Request) {
	names := append(slices.Clone(r.Workers), r.Tool, r.Summary)
	for _, e := range slices.Concat(r.Effects, r.ToApprove) {
		names = append(names, e.Target)
	}
	for _, c := range r.Changes {
		names = append(names, c.Path, c.To)
	}
	var args any
	if json.Unmarshal(r.Args, &args) == nil {
		names = appendNames(names, args)
	}
	seen := map[string]bool{}
	for _, name := range names {
		for t := range visible.NameAlikes(visible.Cut(name, maxName)) {
			if seen[t.Says] {
				continue
			}
			if seen[t.Says] = true; len(seen) > maxAlikes {
				s.Body = append(s.Body, visible.Row{Mark: visible.Warning, Text: "more names have look-alike letters"})
				return
			}
			s.Body = append(s.Body, visible.Row{Mark: visible.Warning, Text: "look-alike letters: " + s.line(t.Says)})
		}
	}
}

// maxName is the maximum length of an argument that golem checks as a name.
const maxName = 4096

// appendNames appends the strings of a JSON value that may be names: short strings of one
// line, and the keys of objects.
func appendNames(names []string, value any) []string {
	switch v := value.(type) {
	case string:
		if len(v) <= maxName && !strings.Contains(v, "\n") {
			names = append(names, v)
		}
	case []any:
		for _, each := range v {
			names = appendNames(names, each)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			names = appendNames(append(names, key), v[key])
		}
	}
	return names
}

func caller(o policy.Origin) string {
	switch o {
	case policy.Model, policy.User:
		return "the " + o.String()
	case policy.Peer:
		return "another agent"
	}
	return o.String()
}

// wish describes in a few words what a call would do.
func (s *Sheet) wish(r tool.Request) string {
	if r.Summary != "" {
		return s.line(r.Summary)
	}
	changes := slices.DeleteFunc(slices.Clone(r.Changes), isRead)
	switch len(changes) {
	case 0:
		for _, e := range slices.Concat(r.ToApprove, r.Effects) {
			if e.Verb != policy.Use {
				return s.effect(e)
			}
		}
		return "use " + s.name(r.Tool)
	case 1:
		return s.change(changes[0])
	}
	verb := map[string]string{"apply_changes": "apply", "discard_changes": "discard", "undo": "undo"}[r.Tool]
	if verb == "" {
		verb = "make"
	}
	count, total := 0, tool.Counts{}
	for _, c := range changes {
		if isNewDirectory(c) {
			continue
		}
		one := c.Counts
		if one == nil {
			one = &tool.Counts{Files: 1}
			one.Added, one.Removed = filecontent.CountDiffLines(c.Diff)
		}
		count++
		total = tool.Counts{Files: total.Files + one.Files, Added: total.Added + one.Added, Removed: total.Removed + one.Removed, Unread: total.Unread + one.Unread}
	}
	text := verb + " " + visible.Count(max(count, 1), "change")
	if total.Files != count {
		text += " to " + visible.Count(total.Files, "file")
	}
	if total.Added+total.Removed > 0 {
		text += ", " + visible.LineCounts(total.Added, total.Removed)
	}
	if total.Unread > 0 {
		text += " without " + visible.Count(total.Unread, "file") + " that golem did not read"
	}
	return text
}

// isRead reports whether a change describes a file that the call reads, and changes nothing.
func isRead(c tool.Change) bool { return c.Op == tool.Read || c.Op == tool.Attach }

// isNewDirectory reports whether a change only makes a directory. The files in it are
// changes of their own.
func isNewDirectory(c tool.Change) bool {
	return c.Op == tool.Create && strings.HasPrefix(c.About, "directory")
}

// flags returns what to look at first in the changes, in the order of golem diff: the first files
// that become code, and the others. A row stands for the flags of a package.
func (s *Sheet) flags(r tool.Request) (code, others []visible.Row) {
	type flagged struct {
		visible.Row
		flag review.Flag
	}
	var list []flagged
	var installed []review.Flag
	row := func(f review.Flag, item string) visible.Row {
		return visible.Row{Mark: visible.Warning, Text: visible.Cut(f.At(s.name(f.Path)), s.most), Item: item}
	}
	for i, c := range r.Changes {
		name := c.Path
		if c.To != "" {
			name = c.To
		}
		for _, f := range c.Flags {
			shown := f
			if shown.Path = name; f.Installed {
				installed = append(installed, shown)
			} else {
				list = append(list, flagged{row(shown, tool.ItemChange(i)), f})
			}
		}
	}
	flag := func(f flagged) review.Flag { return f.flag }
	review.OrderBy(list, flag)
	first := review.FirstCode(list, flag)
	for i, f := range list {
		if i < first {
			code = append(code, f.Row)
		} else {
			others = append(others, f.Row)
		}
	}
	review.Order(installed)
	for _, f := range review.Shorten(installed) {
		others = append(others, row(f, ""))
	}
	return code, others
}

// directories counts the changes in each directory, if there are many.
func (s *Sheet) directories(r tool.Request) {
	if len(r.Changes) <= review.MostFiles {
		return
	}
	var dirs review.DirectoryCounts
	for _, c := range r.Changes {
		if isNewDirectory(c) {
			continue
		}
		added, removed := filecontent.CountDiffLines(c.Diff)
		dirs.Add(strings.TrimPrefix(c.Path, "/"), added, removed, c.Omitted == "" || c.Omitted == "binary")
	}
	dirs.Each(func(dir, counts string) {
		s.Body = append(s.Body, visible.Row{Mark: visible.Detail, Text: s.name(dir) + " " + counts})
	})
}

func (s *Sheet) effect(e policy.Effect) string {
	if e.Verb != policy.Run {
		return e.Verb.String() + " " + s.name(e.Target)
	}
	// A command may have several lines. That is not odd, and its arguments show them.
	s.odd = s.odd || visible.Text(e.Target) != e.Target
	return e.Verb.String() + " " + visible.Cut(visible.Name(e.Target), s.most)
}

// effects lists the effects that neither the first row nor the changes show.
func (s *Sheet) effects(r tool.Request) {
	asks := make(map[policy.Effect]bool, len(r.ToApprove))
	for _, e := range r.ToApprove {
		asks[e] = true
	}
	for i, e := range r.ListedEffects() {
		text := s.effect(e)
		if asks[e] {
			text += " (asks)"
		}
		s.Body = append(s.Body, visible.Row{Mark: visible.Detail, Text: text, Item: tool.ItemEffect(i)})
	}
}

// changes shows each change with its lines. It also shows the name of the file if the
// first row does not.
func (s *Sheet) changes(r tool.Request) {
	for i, c := range r.Changes {
		if len(r.Changes) > 1 || r.Summary != "" || isRead(c) {
			s.Body = append(s.Body, visible.Row{Mark: visible.Detail, Text: s.change(c), Item: tool.ItemChange(i)})
		} else {
			s.Head[0].Item = tool.ItemChange(i)
		}
		for r := range visible.Diff(c.Diff) {
			if isCommit(c) { // the lines of the message are no change of a file
				if r.Mark != visible.Added {
					continue
				}
				r.Mark = visible.Content
			}
			s.Body = append(s.Body, visible.Row{Mark: r.Mark, Text: s.text(r.Text), Item: tool.ItemContent(i)})
		}
		for _, name := range c.Tree {
			s.Body = append(s.Body, visible.Row{Mark: visible.Content, Text: s.name(name), Item: tool.ItemContent(i)})
		}
	}
}

// isCommit reports whether a change is a commit that the call takes. Its diff adds the lines
// of the message. The version of a file is shorter than the hash of a commit.
func isCommit(c tool.Change) bool {
	hash, ok := strings.CutPrefix(c.Path, "commit ")
	return ok && c.Op == tool.Create && len(c.Becomes) >= 40 && strings.HasPrefix(c.Becomes, hash)
}

// verbs says what some calls do to a file, in other words than the operation. Discarding a
// change restores the file of the directory, so discarding a new file deletes it.
var verbs = map[string]map[tool.Op]string{
	"discard_changes":   {tool.Delete: "discard the new", tool.Create: "discard the deletion of", tool.Update: "discard the changes to", tool.Move: "discard the move of"},
	"golem sessions rm": {tool.Create: "discard the new", tool.Delete: "discard the deletion of", tool.Update: "discard the changes to", tool.Move: "discard the move of"},
	"golem trust":       {tool.Create: "new:", tool.Delete: "deleted:", tool.Update: "changed since you trusted it:"},
}

// verb describes what a call does to a file.
func (s *Sheet) verb(op tool.Op) string {
	return cmp.Or(verbs[s.tool][op], s.line(string(op)))
}

// change describes what happens to a file, and the size of the change.
func (s *Sheet) change(c tool.Change) string {
	text := s.verb(c.Op) + " " + s.name(c.Path)
	if c.To != "" {
		text += " to " + s.name(c.To)
	}
	var size []string
	if c.Part != "" {
		size = append(size, s.line(c.Part))
	}
	if isCommit(c) {
		text = s.line(c.Path)
	} else if c.Diff != "" {
		more, less := filecontent.CountDiffLines(c.Diff)
		if c.Op == tool.Create && less == 0 {
			size = append(size, visible.Count(more, "line"))
		} else {
			size = append(size, visible.LineCounts(more, less))
		}
	}
	if c.About != "" {
		size = append(size, s.line(c.About))
	}
	if isRead(c) && c.Diff == "" && s.look != "-" {
		size = append(size, s.hint(c))
	}
	if c.Omitted != "" {
		size = append(size, "content not shown: "+s.line(c.Omitted))
	}
	if c.Diff == "" && c.Becomes != "" {
		word := "becomes version "
		if c.To != "" || isRead(c) {
			word = "version "
		}
		size = append(size, word+s.line(c.Becomes))
	}
	if len(size) > 0 {
		text += " (" + strings.Join(size, "; ") + ")"
	}
	return text
}

// hint says how to look at a file or directory that the call reads.
func (s *Sheet) hint(c tool.Change) string {
	if c.Directory {
		return "golem tool list_files --path " + s.name(c.Path) + s.look + " lists them"
	}
	return "golem tool read_file --path " + s.name(c.Path) + s.look + " shows it"
}

// arguments shows the arguments of the call, if neither a diff nor the summary shows what
// it does.
func (s *Sheet) arguments(r tool.Request) {
	if !r.ShowsArguments() {
		return
	}
	start := len(s.Body)
	defer func() {
		for i := start; i < len(s.Body); i++ {
			s.Body[i].Item = tool.ItemArguments
		}
	}()
	args := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.Args, &args); err != nil && len(r.Args) > 0 {
		s.Body = append(s.Body, visible.Row{Mark: visible.Argument, Text: s.line(string(r.Args))})
	}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		value := ""
		if bytes.HasPrefix(args[key], []byte(`"`)) {
			json.Unmarshal(args[key], &value)
		} else {
			value = string(args[key])
		}
		if !strings.Contains(value, "\n") {
			s.Body = append(s.Body, visible.Row{Mark: visible.Argument, Text: s.name(key) + ": " + s.text(value)})
			continue
		}
		text, ends := strings.CutSuffix(value, "\n")
		lines := strings.Split(text, "\n")
		size := visible.Count(len(lines), "line")
		if !ends && key != "command" { // there it means nothing
			size += ", without a newline at the end"
		}
		s.Body = append(s.Body, visible.Row{Mark: visible.Argument, Text: s.name(key) + ": " + size})
		for _, line := range lines {
			s.Body = append(s.Body, visible.Row{Mark: visible.Content, Text: s.text(line)})
		}
	}
}

// text makes a line of text visible.
func (s *Sheet) text(line string) string {
	text := visible.Text(line)
	s.odd = s.odd || text != line
	return visible.Cut(text, s.most)
}

// line makes words in a sentence visible.
func (s *Sheet) line(words string) string {
	text := visible.Line(words, math.MaxInt)
	s.odd = s.odd || text != words
	return visible.Cut(text, s.most)
}

// name makes a name visible. It quotes a name that could be read as a sentence.
func (s *Sheet) name(name string) string {
	s.odd = s.odd || visible.Line(name, math.MaxInt) != name
	return visible.Cut(visible.Name(name), s.most)
}

// ChangedRows warns of files that the user has seen before the question with other content.
// They belong above the other rows of the body.
func ChangedRows(paths []string) (rows []visible.Row) {
	for _, path := range paths {
		rows = append(rows, visible.Row{Mark: visible.Warning, Text: "changed since you looked at it: " + visible.Name(path) + "; the new content is below"})
	}
	return rows
}

// All returns all rows.
func (s *Sheet) All() []visible.Row { return slices.Concat(s.Head, s.Body, s.Tail) }

// Folded returns the rows without the middle of a long body. The rest of the body takes
// at most most lines of the screen; lines counts those of one row. So the question and
// its subject fit on one screen. The riskiest change is the first. If all of it fits, golem
// does not cut it to show the end of another one.
func (s *Sheet) Folded(most int, lines func(visible.Row) int) []visible.Row {
	total := 0
	for _, r := range s.Body {
		total += lines(r)
	}
	if total <= most || len(s.Body) == 0 {
		return s.All()
	}
	most -= lines(visible.Row{Mark: visible.Hidden, Text: omittedText(total, total*longestLine)})
	front, end := 0, len(s.Body)
	next := lines(s.Body[0]) // lines up to the first row after the front
	for ; next <= most*2/3 && front < end; next += lines(s.Body[front]) {
		front++
	}
	after := front + 1
	for ; after < end && s.Body[after].Item == s.Body[front].Item && next <= most; after++ {
		next += lines(s.Body[after])
	}
	rest := most / 3
	if next <= most {
		front, rest = after, min(rest, most-next)
	}
	for used := lines(s.Body[end-1]); used <= rest && end > front; used += lines(s.Body[end-1]) {
		end--
		if end == front {
			break
		}
	}
	bytes := 0
	for _, r := range s.Body[front:end] {
		bytes += len(r.Text) + 1
	}
	gap := visible.Row{Mark: visible.Hidden, Text: omittedText(end-front, bytes)}
	return slices.Concat(s.Head, s.Body[:front], []visible.Row{gap}, s.Body[end:], s.Tail)
}

// longestLine is the assumed length of lines that are not shown.
const longestLine = 200

// omittedText says how much is not shown.
func omittedText(lines, bytes int) string {
	return visible.Count(lines, "line") + " not shown (" + visible.Amount(int64(bytes)) + ") …"
}

// RenderedItems returns the items of a request that were shown completely. Each row of such an
// item was shown, and was not cut.
func RenderedItems(all, shown []visible.Row) []string {
	left := make(map[visible.Row]int, len(shown))
	for _, r := range shown {
		left[r]++
	}
	var items []string
	partly, known := make(map[string]bool), make(map[string]bool)
	for _, r := range all {
		if r.Item != "" && !known[r.Item] {
			known[r.Item] = true
			items = append(items, r.Item)
		}
		if left[r]--; left[r] < 0 {
			partly[r.Item] = true
		}
	}
	return slices.DeleteFunc(items, func(item string) bool { return partly[item] })
}
