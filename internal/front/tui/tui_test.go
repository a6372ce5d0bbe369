package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	flags "github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// A stage is a model with files, without a terminal.
type stage struct {
	*testing.T
	m    *model
	real map[string]string // contents in the directory; "" for no file
	own  map[string]string
}

// newStage returns a model at a terminal of some size.
func newStage(t *testing.T, columns, height int) *stage {
	t.Helper()
	s := &stage{T: t, real: map[string]string{}, own: map[string]string{}}
	o := inbox.ExploreOptions{Front: "a test", Environ: os.Environ(),
		Path:  func(_ *program.Program, name string) string { return strings.TrimPrefix(name, "/") },
		Age:   func(time.Time) string { return "just now" },
		Local: func(_ *program.Program, r tool.Request) tool.Request { return r }}
	s.m = newModel(context.Background(), o)
	s.m.do = func(func() tea.Msg) {} // load reads the files
	s.m.Update(tea.WindowSizeMsg{Width: columns, Height: height})
	s.m.review = newReview(inbox.ProgramSession{Session: &session.Session{ID: "abc", Command: "sh"}}, &session.Review{}, o.Path, nil)
	return s
}

// show shows files, given as name, old and new content.
func (s *stage) show(files ...[3]string) {
	s.Helper()
	r := &session.Review{}
	for _, f := range files {
		c := session.FileChange{Path: f[0], Op: overlay.Modify, Kind: overlay.File, OldKind: overlay.File}
		if f[1] == "" {
			c.Op, c.OldKind = overlay.Create, overlay.Nothing
		}
		s.real[f[0]], s.own[f[0]] = f[1], f[2]
		c.Added, c.Removed = filecontent.CountDiffLines(filecontent.Diff("a", "b", f[1], f[2]))
		r.Files = append(r.Files, c)
	}
	one := inbox.ProgramSession{Session: &session.Session{ID: "abc", Command: "sh"}}
	s.m.review = newReview(one, r, s.m.o.Path, nil)
	s.load()
}

// load reads the file under the cursor, as the reader of files would.
func (s *stage) load() {
	s.m.Update(nil)
	if s.m.review == nil {
		s.m.Update(drawn{s.m.frame})
		return
	}
	for f := s.m.review.file(); f != nil && !f.loaded; {
		var real []byte
		if f.OldKind == overlay.File {
			real = []byte(s.real[f.Path])
		}
		s.m.Update(loaded{f, real, []byte(s.own[f.Path]), nil})
	}
	s.m.Update(drawn{s.m.frame})
}

// press presses keys. Each frame is on the screen long enough.
func (s *stage) press(keys ...string) {
	s.Helper()
	for _, k := range keys {
		s.m.Update(keyOf(k))
		s.load()
		s.check()
	}
}

// keyOf returns the message for a key.
func keyOf(name string) tea.KeyPressMsg {
	switch name {
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "tab":
		return tea.KeyPressMsg{Code: tea.KeyTab}
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// screen returns what is on the screen.
func (s *stage) screen() string { return s.m.View().Content }

// check checks that no line of the screen is wider than the terminal, and that there are not
// too many.
func (s *stage) check() {
	s.Helper()
	lines := strings.Split(s.screen(), "\n")
	if len(lines) != s.m.height {
		s.Errorf("got %d lines, want %d", len(lines), s.m.height)
	}
	for i, l := range lines {
		if visible.Width(l) > s.m.columns {
			s.Errorf("line %d is wider than %d columns: %q", i, s.m.columns, l)
		}
		if strings.ContainsAny(l, "\x1b\t\r\u202e") {
			s.Errorf("line %d has characters that a terminal obeys: %q", i, l)
		}
	}
}

func (s *stage) want(text string) {
	s.Helper()
	if !strings.Contains(s.screen(), text) {
		s.Errorf("the screen lacks %q:\n%s", text, s.screen())
	}
}

// numbered returns lines 1 to n, with some of them replaced.
func numbered(n int, replaced map[int]string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		text := replaced[i]
		if text == "" {
			text = fmt.Sprintf("line %d", i)
		}
		fmt.Fprintln(&b, text)
	}
	return b.String()
}

// TestChooseHunks chooses hunks, and splits one. Exactly these are picked, and only lines
// that were on the screen count as seen.
func TestChooseHunks(t *testing.T) {
	s := newStage(t, 100, 30)
	s.show([3]string{"/a.txt", numbered(40, nil), numbered(40, map[int]string{3: "three", 5: "five", 30: "thirty"})}, [3]string{"/b.txt", "", "new\n"})
	s.want("> hunk 1 of 2, +2 -2")
	s.press("s")
	s.want("> hunk 1 of 3, +1 -1")
	s.press("y", "n", "y")
	s.want("b.txt")
	items, what := s.m.review.pick()
	parts, shown, err := choice.Parts(items)
	if err != nil || what != "1 file" || len(parts) != 1 || parts[0].Whole || strings.Contains(parts[0].Patch, "+five") || !strings.Contains(parts[0].Patch, "+three") || !strings.Contains(parts[0].Patch, "+thirty") {
		t.Errorf("got %s %+v %v", what, parts, err)
	}
	request := tool.Request{Changes: []tool.Change{tool.DescribeChange("/a.txt", sandbox.Version{}.With([]byte(numbered(40, nil))), []byte(numbered(40, nil)), []byte(numbered(40, map[int]string{3: "three", 30: "thirty"})))}}
	if got := shown.Items(request); len(got) != 1 {
		t.Errorf("the chosen hunks were on the screen, but got items %v", got)
	}
	request.Changes[0].Becomes = "another"
	if got, changed := shown.Items(request), shown.Changed(request); len(got) != 0 || len(changed) != 1 {
		t.Errorf("other content: got items %v, changed %v", got, changed)
	}
}

// TestUnseenHunk: a hunk that is longer than the screen cannot be chosen before its end was
// on the screen, and keys that come faster than frames show nothing.
func TestUnseenHunk(t *testing.T) {
	s := newStage(t, 80, 20)
	s.show([3]string{"/a.txt", "", numbered(60, nil)})
	s.press("y")
	s.want("this is not shown completely")
	for range 10 { // too fast: no frame is drawn
		s.m.Update(keyOf("space"))
	}
	s.m.Update(drawn{s.m.frame})
	if f := s.m.review.file(); f.isViewed() {
		t.Error("pages that were never drawn count as viewed")
	}
	s.press("tab", "g")
	for range 10 {
		s.press("space")
	}
	if f := s.m.review.file(); !f.isViewed() {
		t.Errorf("%d lines are left after all pages", f.sheet.left)
	}
	s.want("1 of 1 viewed")
	s.press("y")
	if f := s.m.review.file(); f.decided[0] != chosen {
		t.Error("y after all pages does not choose the file")
	}
}

// TestResize: after another size, lines count as seen only if all of their row was.
func TestResize(t *testing.T) {
	s := newStage(t, 120, 20)
	s.show([3]string{"/a.txt", "", numbered(8, map[int]string{8: strings.Repeat("word ", 300)})})
	f := s.m.review.file()
	before := f.sheet.left
	if before == 0 {
		t.Fatal("the long line fits on the screen: the test checks nothing")
	}
	s.m.Update(tea.WindowSizeMsg{Width: 70, Height: 12})
	if f.sheet.hasSeen(0) || f.sheet.left == 0 {
		t.Error("a smaller window shows more")
	}
	s.check()
	s.press("w") // side by side needs more columns
	s.want("side by side needs a wider terminal")
	s.m.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	s.press("w", "w")
}

// TestHostileNames: names and contents never move the layout.
func TestHostileNames(t *testing.T) {
	for _, columns := range []int{60, 100, 200} {
		s := newStage(t, columns, 20)
		s.show([3]string{"/b\u202eidi\x1b[31m/" + strings.Repeat("x", 300) + ".txt", "", "a\x1b]0;title\x07\t\u202eb\r\n" + strings.Repeat("x", 100_000)},
			[3]string{"/漢字/👩‍👩‍👧‍👦 family.txt", "old 漢字 text\n", "new 漢字 text 👩‍👩‍👧‍👦\n"}, [3]string{"/zero\u200bwidth\nname", "a\n", "b\n"}, [3]string{"/┃ > y", "a\n", "b\n"})
		for range 6 {
			s.press("j", "space", "w", "?", "?")
		}
		s.press("/", "x", "enter", "g", "enter", "A")
	}
}

// TestManyFiles: thousands of files open and scroll.
func TestManyFiles(t *testing.T) {
	s := newStage(t, 100, 30)
	var files [][3]string
	for i := range 6000 {
		files = append(files, [3]string{fmt.Sprintf("/dir%d/sub/file%d.txt", i%50, i), "", "x\n"})
	}
	begin := time.Now()
	s.show(files...)
	for range 20 {
		s.press("j")
	}
	s.press("G", "v")
	s.want("of 6000 viewed")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if items, what := s.m.review.pick(); len(items) != 6000 || what != "6,000 files" {
		t.Errorf("got %d items, %s", len(items), what)
	}
}

// ask shows a question about a call.
func (s *stage) ask(r tool.Request, shown choice.Shown) <-chan approval.Reply {
	reply := make(chan approval.Reply, 1)
	s.m.Update(asked{nil, r, shown, reply})
	s.m.Update(settled{s.m.question()})
	s.m.Update(drawn{s.m.frame})
	s.check()
	return reply
}

// TestQuestion: a plain yes counts only when every row was on the screen. What was not is
// named, and approving it needs the digest.
func TestQuestion(t *testing.T) {
	r := tool.Request{Digest: "0123456789abcdef", Origin: policy.User, Tool: "apply_changes", Summary: "apply 2 changes"}
	for _, name := range []string{"/long.txt", "/short.txt"} {
		n := 60
		if name == "/short.txt" {
			n = 2
		}
		r.Changes = append(r.Changes, tool.DescribeChange(name, sandbox.Version{}, nil, []byte(numbered(n, nil))))
	}
	t.Run("pages", func(t *testing.T) {
		s := newStage(t, 80, 20)
		reply := s.ask(r, nil)
		s.want("2 files not viewed: /long.txt, /short.txt")
		s.press("y")
		s.want("u approves it unseen")
		for range 5 {
			s.press("space")
		}
		s.want("[y]es")
		s.press("y")
		if got := <-reply; got.Verdict != tool.Approved || got.DigestPrefix != "" || len(got.Rendered) != len(r.Items()) || got.Front != "a test" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("seen before", func(t *testing.T) {
		s := newStage(t, 80, 20)
		reply := s.ask(r, choice.Shown{"/long.txt": r.Changes[0]})
		s.press("y")
		if got := <-reply; got.Verdict != tool.Approved || len(got.Rendered) != len(r.Items()) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("changed", func(t *testing.T) {
		s := newStage(t, 80, 20)
		was := r.Changes[0]
		was.Becomes = "another"
		s.ask(r, choice.Shown{"/long.txt": was})
		s.want("changed since you looked at it: long.txt")
		s.press("y")
		s.want("not viewed: /long.txt")
	})
	t.Run("unseen", func(t *testing.T) {
		s := newStage(t, 80, 20)
		reply := s.ask(r, nil)
		s.press("u", "0", "1", "enter")
		s.want("not approved: type exactly 01234567")
		s.press("u")
		for _, c := range "01234567" {
			s.press(string(c))
		}
		s.press("enter")
		if got := <-reply; got.Verdict != tool.Approved || got.DigestPrefix != "01234567" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("no", func(t *testing.T) {
		for _, key := range []string{"n", "esc", "ctrl+c"} {
			s := newStage(t, 80, 20)
			reply := s.ask(r, nil)
			s.m.Update(keyOf(key))
			if got := <-reply; got.Verdict == tool.Approved {
				t.Errorf("%s: got %+v", key, got)
			}
		}
	})
	t.Run("too early", func(t *testing.T) {
		s := newStage(t, 80, 20)
		reply := make(chan approval.Reply, 1)
		s.m.Update(asked{nil, r, choice.Shown{"/long.txt": r.Changes[0]}, reply})
		s.press("y")
		s.want("pressed before the question")
		if len(reply) > 0 {
			t.Error("a key from before the question answers it")
		}
	})
}

// TestObstacles: a conflict cannot be chosen, and a protected file only by its own key.
func TestObstacles(t *testing.T) {
	s := newStage(t, 100, 24)
	r := &session.Review{Flags: []flags.Flag{{Kind: flags.Becomes, Path: "/Makefile", Text: "a build runs it"}}}
	for _, c := range []session.FileChange{{Path: "/Makefile", Protected: "Makefile"}, {Path: "/c.txt", Conflict: true}, {Path: "/x.txt"}} {
		c.Op, c.Kind, c.OldKind = overlay.Modify, overlay.File, overlay.File
		r.Files = append(r.Files, c)
		s.real[c.Path], s.own[c.Path] = "a\n", "b\n"
	}
	s.m.review = newReview(inbox.ProgramSession{Session: &session.Session{ID: "abc", Command: "sh"}}, r, s.m.o.Path, nil)
	s.load()
	s.want("becomes code")
	if items, _ := s.m.review.pick(); len(items) != 1 || items[0].File.Path != "/x.txt" {
		t.Errorf("without a choice: got %+v", items)
	}
	s.press("y")
	s.press("y")
	s.want("it changed in your directory too")
	items, _ := s.m.review.pick()
	if parts, _, err := choice.Parts(items); err != nil || len(parts) != 1 || parts[0].Path != "/Makefile" {
		t.Errorf("after y: got %+v, %v", parts, err)
	}
}

// TestChangedWords marks the words in which two lines differ.
func TestChangedWords(t *testing.T) {
	for _, c := range []struct{ old, new, was, is string }{
		{"line 3 of the file", "line three of the file", "3", "three"},
		{"return a + b", "return a - b", "+", "-"},
		{"foobar(x)", "foobaz(x)", "foobar", "foobaz"},
		{"nothing", "in common at all", "", ""},
		{"", "new", "", ""},
		{"same", "same, more", "", ", more"},
	} {
		x, y := changedWords(c.old, c.new)
		if got := c.old[x.from:x.to]; got != c.was {
			t.Errorf("%q → %q: got %q in the old line, want %q", c.old, c.new, got, c.was)
		}
		if got := c.new[y.from:y.to]; got != c.is {
			t.Errorf("%q → %q: got %q in the new line, want %q", c.old, c.new, got, c.is)
		}
	}
}

// TestList: the list keeps its cursor, hostile titles stay in their line, and a call is
// answered only after all of it was on the screen.
func TestList(t *testing.T) {
	hostile := "b\u202eidi\x1b[31m ┃ > y\n" + strings.Repeat("x", 400)
	for _, size := range [][2]int{{60, 20}, {80, 24}, {200, 50}} {
		s := newStage(t, size[0], size[1])
		s.m.review, s.m.list = nil, &list{}
		items := []inbox.Item{
			{Kind: inbox.KindCall, ID: "c1", Title: hostile, Who: hostile, Directory: "/" + hostile, Risk: inbox.High, Reasons: []string{hostile}},
			{Kind: inbox.KindChanges, ID: "s1", Title: "3 files changed", Directory: "/home/shop"},
			{Kind: inbox.KindRun, ID: "r1", Name: "fix-notes", Title: "continue the run", Directory: "/home/notes"},
		}
		s.m.Update(listed{items: items, problems: []inbox.Problem{{Directory: hostile, Text: hostile}}})
		s.check()
		s.want("waiting for you: 3 items, 1 with high risk")
		s.press("j", "k", "/", "r", "u", "n", "enter")
		s.want(">   run")
		s.press("enter")
		s.want("--resume fix-notes")
		s.want("session fix-notes, in")
		s.m.Update(listed{items: items[1:]})
		if it := s.m.list.item(); it == nil || it.ID != "r1" {
			t.Errorf("the cursor moved to %+v", it)
		}
		s.press("x", "A", "?", "?", "G", "g", "space", "b")
		s.m.Update(listed{})
		s.want("nothing waits for you")
		s.press("enter", "j")
	}
}

// TestWaitingCall: Esc and Ctrl-C leave a call waiting, and only y and n answer it.
func TestWaitingCall(t *testing.T) {
	r := tool.Request{Digest: "0123456789abcdef", Origin: policy.Model, Tool: "write_file", Summary: "write"}
	r.Changes = []tool.Change{tool.DescribeChange("/x", sandbox.Version{}, nil, []byte("x\n"))}
	for key, want := range map[string]tool.Verdict{"y": tool.Approved, "esc": tool.Undecided, "ctrl+c": tool.Undecided, "n": tool.Declined} {
		s := newStage(t, 80, 24)
		s.m.review, s.m.list = nil, &list{}
		var replies []approval.Reply
		s.m.Update(opened{request: r})
		q := s.m.question()
		q.answer = func(r approval.Reply) { replies = append(replies, r) }
		s.m.Update(settled{q})
		s.m.Update(drawn{s.m.frame})
		s.m.Update(keyOf(key))
		if key == "n" {
			s.m.Update(keyOf("enter"))
			s.m.Update(drawn{s.m.frame})
		}
		switch {
		case want == tool.Undecided && len(replies) > 0:
			t.Errorf("%s: answered with %+v", key, replies)
		case want != tool.Undecided && (len(replies) != 1 || replies[0].Verdict != want || len(replies[0].Rendered) != len(r.Items())):
			t.Errorf("%s: got %+v", key, replies)
		}
	}
}

// TestReadAgain: after the changes were read again, the user's choice and what was on the
// screen count further if the content is the same. Until that is known, A waits.
func TestReadAgain(t *testing.T) {
	for _, changes := range []bool{false, true} {
		s := newStage(t, 100, 30)
		s.show([3]string{"/a.txt", "a\n", "b\n"}, [3]string{"/c.txt", "c\n", "d\n"})
		s.press("y")
		old := s.m.review
		s.m.Update(reviewed{session: old.session, list: old.list})
		f := s.m.review.files[0]
		s.m.Update(drawn{s.m.frame})
		s.press("A")
		s.want("please wait: reading the files again")
		own := "b\n"
		if changes {
			own = "evil\n"
		}
		s.m.Update(reloaded{s.m.review, []loaded{{f, []byte("a\n"), []byte(own), nil}}})
		items, _ := s.m.review.pick()
		_, shown, err := choice.Parts(items)
		if _, seen := shown["/a.txt"]; err != nil || f.isViewed() == changes || seen == changes || s.m.busy != "" {
			t.Errorf("changed %v: viewed %v, shown %v, busy %q, %v", changes, f.isViewed(), shown, s.m.busy, err)
		}
		if decided := f.decided[0] == chosen; decided == changes {
			t.Errorf("changed %v: the choice counts: %v", changes, decided)
		}
	}
}

// TestQuestionAboutSeen: a question about one file that was on the screen before still says
// what it asks.
func TestQuestionAboutSeen(t *testing.T) {
	r := tool.Request{Digest: "0123456789abcdef", Origin: policy.User, Tool: "apply_changes"}
	r.Changes = []tool.Change{tool.DescribeChange("/a.txt", sandbox.Version{}, nil, []byte("a\n"))}
	s := newStage(t, 80, 20)
	reply := s.ask(r, choice.Shown{"/a.txt": r.Changes[0]})
	s.want("You are about to create /a.txt (1 line")
	s.want("you have seen the content of 1 file before this question")
	s.want("[y]es")
	s.press("y")
	if got := <-reply; got.Verdict != tool.Approved || len(got.Rendered) != len(r.Items()) {
		t.Errorf("got %+v", got)
	}
}

// TestStillRuns: the screen says that a command still works in the session.
func TestStillRuns(t *testing.T) {
	s := newStage(t, 100, 24)
	s.show([3]string{"/a.txt", "a\n", "b\n"})
	if strings.Contains(s.screen(), "still works") {
		t.Error("a session without a command runs")
	}
	old := s.m.review
	s.m.Update(reviewed{session: old.session, list: old.list, holder: &changes.Holder{Command: "claude", Process: 77}})
	s.want("claude (process 77) still works in this session; r reads its changes again")
}

// TestKeysFit: the line of the keys omits keys that are easy to guess before it omits what
// the others do.
func TestKeysFit(t *testing.T) {
	for columns, want := range map[int]string{
		140: "[j k] move  [space] page  [v]iewed  [y n a d s e] hunk  [A]pply  [X] discard  [/]  [?] help  [q]uit",
		80:  "[v]iewed  [y n a d s e] hunk  [A]pply  [X] discard  [?] help  [q]uit",
		60:  "[y n a d s e] hunk  [A]pply  [X] discard  [?] help  [q]uit",
	} {
		s := newStage(t, columns, 24)
		s.show([3]string{"/a.txt", "a\n", "b\n"})
		lines := strings.Split(s.screen(), "\n")
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
	}
}

// TestHelpOfReview: the help lists only keys that do something.
func TestHelpOfReview(t *testing.T) {
	s := newStage(t, 100, 30)
	s.show([3]string{"/a.txt", "a\n", "b\n"})
	s.press("?")
	s.want("split this hunk")
	if strings.Contains(s.screen(), "push") || strings.Contains(s.screen(), "list") {
		t.Errorf("the changes of a session have no P and no list:\n%s", s.screen())
	}
	s.press("?")
	s.m.review.commit = &commit{&git.CommitView{}}
	s.press("?")
	s.want("push the commit")
	for _, not := range []string{"hunk", "declined", "read the changes again", "apply"} {
		if strings.Contains(s.screen(), not) {
			t.Errorf("the help of a commit has %q:\n%s", not, s.screen())
		}
	}
}

// TestAlways checks that a allows a host always after the user has read the rule, and that no
// other call and no call of a hub has it.
func TestAlways(t *testing.T) {
	host := tool.Request{Digest: "0123456789abcdef", Origin: policy.Model, Tool: tool.ConnectTool, Effects: []policy.Effect{{Verb: policy.Connect, Target: "api.example.org:443"}}}
	host.ToApprove = host.Effects
	want, ok := approval.AlwaysRule(host)
	if !ok {
		t.Fatal("there is no rule for the host")
	}
	file := host
	file.Tool = "write_file"
	for _, c := range []struct {
		msg  opened
		keys []string
		rule bool
	}{{opened{request: host}, []string{"a", "y", "enter"}, true}, {opened{request: host}, []string{"a", "n", "enter", "y"}, false}, {opened{request: file}, []string{"a", "y"}, false}, {opened{request: host, call: waiting{hub: &inbox.HubCall{}}}, []string{"a", "y"}, false}} {
		s := newStage(t, 100, 24)
		s.m.review, s.m.list = nil, &list{}
		var replies []approval.Reply
		s.m.Update(c.msg)
		q := s.m.question()
		q.answer = func(r approval.Reply) { replies = append(replies, r) }
		s.m.Update(settled{q})
		s.m.Update(drawn{s.m.frame})
		for i, key := range c.keys {
			if s.m.Update(keyOf(key)); i == 0 && c.rule && !strings.Contains(strings.Join(strings.Fields(s.screen()), " "), want.String()) {
				t.Errorf("the rule %s is not on the screen:\n%s", want, s.screen())
			}
			s.m.Update(drawn{s.m.frame})
		}
		if len(replies) != 1 || replies[0].Verdict != tool.Approved || (replies[0].Remember != nil) != c.rule {
			t.Errorf("%q: got %+v", c.keys, replies)
		}
	}
}

// TestLongRule checks that golem remembers no rule that does not fit on the screen.
func TestLongRule(t *testing.T) {
	s := newStage(t, 100, 24)
	s.m.review, s.m.list = nil, &list{}
	r := tool.Request{Digest: "0123456789abcdef", Origin: policy.Model, Tool: tool.ConnectTool, Effects: []policy.Effect{{Verb: policy.Connect, Target: "api.example.org:443"}}}
	r.ToApprove = r.Effects
	s.m.Update(opened{request: r})
	q := s.m.question()
	q.always.Workers = []string{strings.Repeat("long-", 500)}
	var replies []approval.Reply
	q.answer = func(r approval.Reply) { replies = append(replies, r) }
	s.m.Update(settled{q})
	s.m.Update(drawn{s.m.frame})
	s.m.Update(keyOf("a"))
	if !strings.Contains(s.screen(), "the rule does not fit") {
		t.Errorf("the screen is\n%s", s.screen())
	}
	s.m.Update(drawn{s.m.frame})
	s.m.Update(keyOf("y"))
	if len(replies) != 1 || replies[0].Verdict != tool.Approved || replies[0].Remember != nil {
		t.Errorf("got %+v", replies)
	}
}

// TestLeaveWhileReading checks that changes which arrive after the user has left a review do
// not open it again.
func TestLeaveWhileReading(t *testing.T) {
	s := newStage(t, 100, 24)
	s.show([3]string{"/a.txt", "a\n", "b\n"})
	s.m.list = &list{}
	old := s.m.review
	s.press("q")
	s.m.Update(reviewed{session: old.session, list: old.list, again: true})
	if s.m.review != nil {
		t.Error("the review is open again")
	}
	s.m.Update(reviewed{session: old.session, list: old.list})
	if s.m.review == nil {
		t.Error("the user opened the review, and it is not open")
	}
}

// TestHubItems checks that the list has what waits at a hub, and what the user can do there.
func TestHubItems(t *testing.T) {
	s := newStage(t, 100, 24)
	s.m.review, s.m.list = nil, &list{}
	s.m.o.Items = func(context.Context) ([]inbox.Item, []inbox.Problem, error) {
		return []inbox.Item{{Kind: inbox.KindChanges, ID: "s1", Title: "3 files changed", Directory: "/home/shop"}}, nil, nil
	}
	now := func() time.Time { return time.Unix(1000, 0) }
	s.m.o.Hub = inbox.NewHubWatcher(program.Options{Now: now}, func() (hub.Credentials, error) { return hub.Credentials{}, errors.New("no credentials for a hub") })
	var msg tea.Msg
	s.m.do = func(job func() tea.Msg) { msg = job() }
	ctx, cancel := context.WithCancel(t.Context())
	s.m.o.Hub.OnChange = cancel
	s.m.o.Hub.Watch(ctx)
	s.m.Update(heard{})
	s.m.Update(msg)
	s.want("waiting for you: 1 item")
	s.want("golem cannot tell what waits in your hub: no credentials for a hub")
	s.m.Update(listed{items: []inbox.Item{{Kind: inbox.KindJob, ID: "j1", Job: "j1", Title: "a job is in doubt"}, {Kind: inbox.KindFetch, ID: "j2", Job: "j2", Title: "a job is done"}, {Kind: inbox.KindCall, ID: "c1", Job: "j3", Title: "write_file: x"}}})
	s.press("enter")
	s.want("golem jobs retry j1")
	s.press("j", "enter")
	s.want("fetch the changes of the job")
	s.press("y", "enter")
	s.m.Update(msg)
	s.want("no credentials for a hub")
	s.press("j", "enter") // the call at the hub, which does not answer
	s.m.Update(msg)
	s.want("no credentials for a hub")
}

// TestColoursOfSyntax checks that the colours of a language change no text, and that the
// changed words stay marked.
func TestColoursOfSyntax(t *testing.T) {
	for _, wide := range []bool{false, true} {
		var screens []string
		for _, colours := range []bool{false, true} {
			s := newStage(t, 160, 20)
			s.m.wide = wide
			s.show([3]string{"/a.go", "func f() int { // one\n\treturn 1\n}\n", "func f() int { // one\n\treturn \"\x1b[31m\u202e\" + 12\n}\n"})
			s.press("j", "down") // checks that nothing on the screen is an escape sequence
			s.m.paint = paint(colours)
			s.m.arrange()
			screens = append(screens, s.m.View().Content)
		}
		bare := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(screens[1], "")
		if bare != screens[0] {
			t.Errorf("wide %v: with colours\n%s\nwithout\n%s", wide, bare, screens[0])
		}
		for _, part := range []string{"\x1b[35mfunc", "\x1b[94mf\x1b", "\x1b[2m// one", "\x1b[35mreturn", "\x1b[1;4;36m1", "\x1b[1;4;33m\"\\x1b[31m\\u202e\""} {
			if !strings.Contains(screens[1], part) {
				t.Errorf("wide %v: %q lacks %q", wide, screens[1], part)
			}
		}
	}
}

// TestCommitRows checks that the summary of a staged commit marks its warnings.
func TestCommitRows(t *testing.T) {
	c := commit{&git.CommitView{Flags: []flags.Flag{{Path: "/Makefile", Kind: flags.Becomes, Risk: 90}}}}
	if !slices.ContainsFunc(c.rows(), func(r visible.Row) bool { return r.Mark == visible.Warning && strings.Contains(r.Text, "/Makefile") }) {
		t.Errorf("no row is a warning about the file: %+v", c.rows())
	}
}
