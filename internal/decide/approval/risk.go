package approval

import (
	"bytes"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
)

// sortByRisk sorts the first changes of a list as golem diff does. It gives each change its flags,
// and returns the others as warnings.
func sortByRisk(list []tool.Change, first int, flags []review.Flag) (warnings []string) {
	at := make(map[string]int, len(list))
	for i, c := range list {
		at[c.Path], list[i].Flags = i, nil
	}
	for _, f := range flags {
		if i, ok := at[f.Path]; ok && f.Path != "" {
			list[i].Flags = append(list[i].Flags, f)
		} else {
			warnings = append(warnings, f.String())
		}
	}
	review.Sort(list[:first], func(c tool.Change) string { return c.Path }, flags)
	return warnings
}

// maxIgnoredCode is how many ignored files that become code a question names.
const maxIgnoredCode = 3

// describeIgnored says how many of the files git ignores, and which of them become code, "" if
// there are none.
func (l *ChangeSet) describeIgnored(flags []review.Flag) string {
	files, isIgnored := 0, make(map[string]bool)
	for _, e := range l.entries {
		if e.IgnoredIn != "" && e.Kind != overlay.Dir {
			files, isIgnored[e.name] = files+1, true
		}
	}
	if files == 0 {
		return ""
	}
	var code []string
	for _, f := range flags {
		if f.BecomesCode() && isIgnored[f.Path] && !review.IsInstalled(f.Path) {
			code = append(code, visible.Name(f.Path))
		}
	}
	text := "with " + visible.Count(files, "file") + " that git ignores"
	if n := len(code); n > 0 {
		text += "; " + visible.Number(n) + " " + visible.Verb(n, "becomes", "become") + " code: " + strings.Join(code[:min(n, maxIgnoredCode)], ", ")
		if n > maxIgnoredCode {
			text += ", …"
		}
	}
	return text
}

// ReviewChange returns a change as package review reads it. Old and new are the contents
// of files, and diff is their difference. unread is true if they were not read.
func ReviewChange(name string, c overlay.PathChange, old, new []byte, diff string, unread bool) review.FileChange {
	r := review.FileChange{Path: name, Operation: "update", OldMode: GitMode(c.OldKind, c.OldMode), Mode: GitMode(c.Kind, c.Mode), Old: old, New: new,
		OldSize: int64(len(old)), Size: c.Size, Cut: unread, Binary: !filecontent.IsText(old) || !filecontent.IsText(new), Diff: diff}
	switch {
	case c.Op == overlay.Delete:
		r.Operation, r.Mode = "delete", GitMode(overlay.Nothing, 0)
	case c.OldKind == overlay.Nothing:
		r.Operation = "create"
	}
	r.Emptied = c.Op == overlay.Modify && c.OldKind == overlay.File && (c.Kind != overlay.File || c.Size == 0 || !unread && len(old) > 0 && filecontent.IsBlank(new))
	if c.Kind == overlay.Symlink {
		r.New, r.Cut = []byte(c.LinkTarget), false
	}
	return r
}

// ScriptLine returns the first line of a script that becomes executable, nil for other
// contents. The content does not change, so that nothing else of it matters.
func ScriptLine(content []byte) []byte {
	line, _, _ := bytes.Cut(content, []byte("\n"))
	if !bytes.HasPrefix(line, []byte("#!")) || !filecontent.IsText(line) {
		return nil
	}
	return line
}

// GitMode returns the mode that git stores for a file; 000000 stands for none.
func GitMode(kind overlay.Kind, mode uint32) string {
	switch {
	case kind == overlay.Symlink:
		return "120000"
	case kind == overlay.File && mode&0o111 != 0:
		return "100755"
	case kind == overlay.File:
		return "100644"
	}
	return "000000"
}
