package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/people/visible"
)

// Limits of what is examined and reported.
const (
	maxLooked = 8 << 20 // bytes of added lines of one file
	maxTold   = 10      // flags of one kind in one file; one more flag counts the rest
	maxCount  = 1000    // tricks counted in one file
	longLine  = 2000    // bytes; longer lines count as minified
	longHunk  = 1500    // lines added in one piece
	largeFile = 1 << 20 // bytes
	farBlanks = 120     // columns; text after such a gap is outside of every screen
)

// A line is a line that a change adds.
type line struct {
	number int
	text   string
}

// added returns the lines that a change adds, with their numbers in the new file. If a
// file has no diff because it is cut, all of its lines count as added.
func added(c FileChange) iter.Seq[line] {
	return func(yield func(line) bool) {
		if c.Diff == "" {
			if bytes.Equal(c.Old, c.New) && !c.Cut {
				return
			}
			number := 0
			for text := range strings.Lines(string(c.New[:min(len(c.New), maxLooked+1)])) {
				if number++; !yield(line{number, strings.TrimSuffix(text, "\n")}) {
					return
				}
			}
			return
		}
		number := 0
		for text := range strings.Lines(body(c)) {
			switch text[0] {
			case '@':
				number = begins(text)
			case '+':
				if !yield(line{number, strings.TrimSuffix(text[1:], "\n")}) {
					return
				}
				number++
			case ' ', '\n':
				number++
			}
		}
	}
}

// body returns a diff without its header. A name in the header may contain line breaks.
func body(c FileChange) string {
	rest := c.Diff
	for _, side := range []struct{ mark, name string }{{"--- ", "a/"}, {"+++ ", "b/"}} {
		if !strings.HasPrefix(rest, side.mark) {
			return rest
		}
		if whole, ok := strings.CutPrefix(rest, side.mark+side.name+strings.TrimPrefix(c.Path, "/")+"\n"); ok {
			rest = whole
			continue
		}
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return rest
}

// begins returns the first line of a hunk in the new file.
func begins(head string) int {
	_, after, _ := strings.Cut(head[:min(len(head), 100)], " +")
	digits := strings.TrimLeft(after, "0123456789")
	start, _ := strconv.Atoi(after[:len(after)-len(digits)])
	return start
}

// texts returns flags for the lines that a change adds.
func texts(c FileChange) []Flag {
	if c.Binary || c.Mode == link || c.Mode == submodule {
		return nil
	}
	_, becomes := Code(c.Path)
	inCode := isCodeIf(c.Path, becomes)
	found := make(map[Kind]int)
	var list []Flag
	tell := func(f Flag) bool {
		if found[f.Kind]++; found[f.Kind] <= maxTold {
			list = append(list, f)
		}
		return found[f.Kind] < maxCount
	}
	looked, lines, longest, hunkLines, hunkAt, last := 0, 0, line{}, 0, 0, -1
	ours, unmerged := 0, 0 // first lines of conflict markers
	for l := range added(c) {
		if looked+len(l.text) > maxLooked {
			l.text = l.text[:max(0, maxLooked-looked)]
			list = append(list, flag(NotSeen, c.Path, "only the first %s of what is added were looked at", visible.Amount(maxLooked)))
			looked = maxLooked
		}
		looked += len(l.text) + 1
		lines++
		if len(l.text) > len(longest.text) {
			longest = l
		}
		if l.number != last+1 {
			hunkLines = 0
		}
		if hunkLines++; hunkLines == longHunk {
			hunkAt = l.number
		}
		last = l.number
		if l.number == 1 {
			l.text = strings.TrimPrefix(l.text, "\ufeff") // the byte order mark
		}
		switch {
		case strings.HasPrefix(l.text, "<<<<<<< "):
			ours = l.number
		case strings.HasPrefix(l.text, ">>>>>>> ") && unmerged == 0:
			unmerged = ours
		}
		for t := range visible.Tricks(l.text) {
			if !tell(trickFlag(c.Path, l.number, l.text, t)) {
				break
			}
		}
		for t := range visible.Alikes(l.text, inCode) {
			if !tell(trickFlag(c.Path, l.number, l.text, t)) {
				break
			}
		}
		if wide, behind := gap(l.text); wide > farBlanks && (inCode || becomes) {
			f := flag(Invisible, c.Path, "a gap of %d columns, and behind it, on no screen: %s", wide, visible.Line(visible.Cut(behind, 100), 100))
			f.Line = l.number
			tell(f)
		}
		if looked > maxLooked {
			break
		}
	}
	for _, kind := range []Kind{Bidi, Invisible, Control, Lookalike} {
		if more := found[kind] - maxTold; more > 0 {
			some := fmt.Sprint(more)
			if found[kind] >= maxCount {
				some = "very many"
			}
			list = append(list, flag(kind, c.Path, "and %s more in this file", some))
		}
	}
	if unmerged > 0 {
		f := flag(Unmerged, c.Path, "both sides of a merge, with its markers: it is not finished")
		f.Line = unmerged
		list = append(list, f)
	}
	if len(longest.text) > longLine {
		f := flag(Minified, c.Path, "a line of %s: nobody reads that", visible.Amount(int64(len(longest.text))))
		f.Line = longest.number
		list = append(list, f)
	}
	if hunkAt > 0 {
		f := flag(Large, c.Path, "more than %d lines are added in one piece", longHunk)
		f.Line = hunkAt - longHunk + 1
		list = append(list, f)
	}
	return list
}

// gap returns the width of the widest gap in a line that has text after it, and that
// text.
func gap(text string) (widest int, behind string) {
	wide := 0
	for i := range len(text) {
		switch text[i] {
		case ' ':
			wide++
		case '\t':
			wide += 8
		default:
			if wide > widest {
				widest, behind = wide, text[i:]
			}
			wide = 0
		}
	}
	return widest, behind
}

// Headers returns a flag if a commit has lines before its message that git shows nowhere. A
// signature and an encoding are usual.
func Headers(text string) []Flag {
	var names []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name = visible.Line(name, 40); !strings.HasPrefix(line, " ") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	f := flag(Unshown, "", "lines before the message that git log does not show: %s", strings.Join(names[:min(len(names), maxTold)], ", "))
	if !slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains([]string{"gpgsig", "gpgsig-sha256", "mergetag", "encoding"}, name)
	}) {
		f.Risk = risks[Unchanged]
	}
	return []Flag{f}
}

// Message returns flags for a commit message and the name of a branch.
func Message(text string) []Flag {
	var list []Flag
	for line := range strings.SplitSeq(text, "\n") {
		for _, tricks := range []iter.Seq[visible.Trick]{visible.Tricks(line), visible.Alikes(line, false)} {
			for t := range tricks {
				f := trickFlag("", 0, line, t)
				f.Text = "in the message or the branch: " + f.Text
				if list = append(list, f); len(list) == maxTold {
					return list
				}
			}
		}
	}
	return list
}

// trickFlag returns the flag for a trick, with the text around it.
func trickFlag(path string, number int, text string, t visible.Trick) Flag {
	const around, inside = 40, 60
	from, to := max(0, t.At-around), min(len(text), min(t.End, t.At+inside)+around)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	t.At, t.End = t.At-from, t.End-from
	shown := visible.Revealed(text[from:to], t)
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(text) {
		shown += "…"
	}
	f := flag(Kind(t.Deceit), path, "%s, shown as ⟨U+…⟩: %s", t.Says, shown)
	if r, size := utf8.DecodeRuneInString(text[from:][t.At:]); size == t.End-t.At && t.Deceit != visible.Alike {
		f.Text = fmt.Sprintf("%s, shown as ⟨U+%04X⟩: %s", t.Says, r, shown)
	}
	f.Line = number
	return f
}

// contents returns flags for a content as a whole.
func contents(c FileChange) []Flag {
	var list []Flag
	if c.Mode == link || c.Mode == submodule {
		return nil
	}
	if c.Binary {
		f := flag(Binary, c.Path, "%s", about(c))
		if kind, ok := program(c.New); ok {
			f.Text, f.Risk = kind+", "+f.Text, risks[Becomes]
		} else if isCode(c.Path) {
			f.Text, f.Risk = "zero bytes in code, which hide its text, "+f.Text, risks[Becomes]
		}
		list = append(list, f)
	}
	if c.Cut {
		looked := "nothing"
		if len(c.New) > 0 {
			looked = "only the first " + visible.Amount(int64(min(len(c.New), maxLooked)))
		}
		list = append(list, flag(NotSeen, c.Path, "%s of %s was looked at", looked, visible.Amount(c.Size)))
	}
	if c.Size > largeFile {
		list = append(list, flag(Large, c.Path, "%s", visible.Amount(c.Size)))
	}
	if c.Passed != "" {
		list = append(list, flag(Unchanged, c.Path, "its bytes are those of %s, which was read: nobody has made it, it is passed through", brief(c.Passed)))
	}
	return list
}

// about describes a content that is not shown.
func about(c FileChange) string {
	size := c.Size
	if c.Operation == remove {
		size = c.OldSize
	}
	text := visible.Amount(size)
	if c.New != nil && c.Operation != remove {
		if kind := mediaType(c.New); kind != "" {
			text += ", " + visible.Line(kind, 100)
		}
	}
	if c.Binary {
		text += ", binary"
	}
	if sum := sum(c); sum != "" {
		text += ", sha256 " + sum
	}
	return text
}

// sum returns the hash of the new content, or "" if it is not known.
func sum(c FileChange) string {
	switch {
	case c.Sum != "":
		return visible.Line(c.Sum, 64)
	case c.New == nil || c.Cut:
		return ""
	}
	h := sha256.Sum256(c.New)
	return hex.EncodeToString(h[:])
}

// program returns which kind of program a content is, if it is one.
func program(content []byte) (kind string, ok bool) {
	for _, p := range []struct{ begins, kind string }{
		{"\x7fELF", "a program for Linux"}, {"MZ", "a program for Windows"}, {"\xfe\xed\xfa", "a program for macOS"},
		{"\xcf\xfa\xed\xfe", "a program for macOS"}, {"\xce\xfa\xed\xfe", "a program for macOS"}, {"\xca\xfe\xba\xbe", "a program for Java or macOS"},
		{"\x00asm", "a program for WebAssembly"}, {"!<arch>\n", "a library"}, {"dex\n", "a program for Android"}, {"BC\xc0\xde", "a program for LLVM"}, {"#!", "a script"},
	} {
		if bytes.HasPrefix(content, []byte(p.begins)) {
			return p.kind, true
		}
	}
	// Compiled Python begins with a version number and a line break.
	if len(content) > 16 && content[2] == '\r' && content[3] == '\n' {
		return "a program for Python", true
	}
	return "", false
}

// isCode reports whether a file is code by its name. There lookalike letters matter more
// than in prose.
func isCode(name string) bool {
	_, becomes := Code(name)
	return isCodeIf(name, becomes)
}

// isCodeIf is isCode for a file that becomes code, or not, as Code says.
func isCodeIf(name string, becomes bool) bool {
	ending := strings.ToLower(path.Ext(name))
	if becomes && ending != ".md" {
		return true
	}
	switch ending {
	case ".go", ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".m", ".mm", ".rs", ".py", ".pyi", ".pyx", ".rb", ".php", ".java", ".kt", ".kts", ".scala",
		".groovy", ".swift", ".cs", ".fs", ".vb", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte", ".dart", ".lua", ".pl", ".pm",
		".sh", ".bash", ".zsh", ".fish", ".ps1", ".psm1", ".bat", ".cmd", ".sql", ".r", ".jl", ".ex", ".exs", ".erl", ".hs", ".ml", ".mli", ".clj", ".lisp",
		".el", ".zig", ".nim", ".v", ".sol", ".tf", ".hcl", ".nix", ".cmake", ".mk", ".gradle", ".s", ".asm", ".proto", ".wat", ".awk", ".tcl", ".d", ".cr":
		return true
	}
	return false
}
