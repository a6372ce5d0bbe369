package checks_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/golem-forge/golem/sandbox"
)

// A block is a fenced code block of a document: its language and its lines.
type block struct {
	lang, text string
	line       int // the number of its first line
}

// blocks returns the code blocks of a document.
func blocks(t *testing.T, document string) []block {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var found []block
	var open *block
	line := 0
	for l := range strings.Lines(string(text)) {
		line++
		lang, fence := strings.CutPrefix(l, "```")
		switch {
		case fence && open == nil:
			open = &block{lang: strings.TrimSpace(lang), line: line + 1}
		case fence:
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += l
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: a code block without an end", document, open.line)
	}
	return found
}

// TestQuickstart runs the transcripts of the quickstart, in their order, in one empty
// directory, and then its program. Both print what the page says.
func TestQuickstart(t *testing.T) {
	const document = "docs/quickstart.md"
	s := newStage(t, golem(t))
	s.transcripts(document)
	var program, printed string
	for _, b := range blocks(t, document) {
		switch b.lang {
		case "go":
			program = b.text
		case "text":
			printed = b.text
		}
	}
	if program == "" || printed == "" {
		t.Fatalf("%s: a program of %d bytes: the test checks nothing", document, len(program))
	}
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	build(t, filepath.Join(s.bin, "program"), source)
	s.dir = s.home
	if got, _ := s.run(filepath.Join(s.bin, "program")); got != printed {
		t.Errorf("%s: the program prints\n%s\nwant:\n%s", document, got, printed)
	}
}

// TestGuides runs the transcripts of the guides, each in an empty directory.
func TestGuides(t *testing.T) {
	golem := golem(t)
	for _, document := range []string{"docs/tools.md", "docs/approval.md", "docs/journal.md", "docs/transactions.md", "docs/shell.md", "docs/agents.md", "docs/clearance.md", "docs/scanners.md", "docs/mcp.md", "docs/ci.md", "docs/eval.md", "docs/team.md"} {
		t.Run(document, func(t *testing.T) { newStage(t, golem).transcripts(document) })
	}
}

func build(t *testing.T, to, what string) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", to, what).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", what, err, out)
	}
}

// TestLibraryGuides compiles every Go block of the guides to the public packages.
func TestLibraryGuides(t *testing.T) {
	compileGuide(t, "docs/library.md", `import ("bytes"; "context"; "errors"; "fmt"; "testing"; "text/template"; "time"
"github.com/golem-forge/golem/sandbox"; "github.com/golem-forge/golem/sandbox/sandboxtest")`, "(ctx context.Context, s *sandbox.Sandbox)", 10)
	compileGuide(t, "docs/gate.md", `import ("context"; "fmt"; "os"; "time"
"github.com/golem-forge/golem/gate"; "github.com/golem-forge/golem/sandbox")`, "(ctx context.Context, g gate.Gate, approver gate.Approver, request gate.Request, result gate.Result) error", 5)
	compileGuide(t, "docs/embed.md", `import ("context"; "fmt"; "os"
"github.com/golem-forge/golem"; "github.com/golem-forge/golem/gate")`, "(ctx context.Context, ws *golem.Workspace, rt *golem.Runtime, approver gate.Approver, hash string) error", 3)
}

// TestTypeScriptGuide runs every Go block of the page, each in an empty directory.
func TestTypeScriptGuide(t *testing.T) {
	const document = "docs/from-typescript-api.md"
	var code, calls strings.Builder
	code.WriteString(`package main
import ("context"; "fmt"; "io"; "os"; "os/exec"; "time"
"github.com/golem-forge/golem"; "github.com/golem-forge/golem/gate"; "github.com/golem-forge/golem/sandbox")

func withRepository() (*golem.Runtime, error) {
	os.MkdirAll("other/workspace/analyses", 0o700)
	os.WriteFile("other/workspace/analyses/topic.md", []byte("text\n"), 0o600)
	os.WriteFile("other/golem-forge.config.yaml", []byte("sandbox:\n  mounts:\n    - {source: ./workspace, target: /workspace, mode: rw}\nclearance:\n  targets:\n    reports: {type: bare, at: /workspace, path: ../reports.git}\n"), 0o600)
	os.WriteFile("other/main.worker", []byte("---\ndescription: Writes\nsandbox: inherit\ntoolsets: [filesystem, git]\n---\nWrite.\n"), 0o600)
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", "reports.git").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %s", err, out)
	}
	o := golem.Options{State: "state-of-other"}
	untrusted, err := golem.Load("other", o)
	if sandbox.CodeOf(err) != golem.ErrUntrusted {
		return nil, err
	}
	o.Trust = untrusted.Hash()
	return golem.Load("other", o)
}

type yes struct{}

func (yes) Approve(_ context.Context, r gate.Request) gate.Decision {
	view := r.Render(100, 100)
	view.WriteTo(io.Discard)
	seen, err := view.Seen()
	if err != nil {
		return r.Decline("yes", err.Error())
	}
	return seen.Approve("yes")
}

func run(name string, block func(context.Context, gate.Approver, *golem.Runtime) error) {
	dir, err := os.MkdirTemp("", "block")
	if err == nil {
		err = os.Chdir(dir)
	}
	var repositories *golem.Runtime
	if err == nil {
		repositories, err = withRepository()
	}
	if err == nil {
		err = block(context.Background(), yes{}, repositories)
	}
	os.RemoveAll(dir)
	if err != nil {
		fmt.Println(name, err)
		os.Exit(1)
	}
}
var _, _, _ = time.Now, golem.Load, sandbox.New
`)
	pieces := 0
	for _, b := range blocks(t, document) {
		if b.lang == "go" {
			pieces++
			fmt.Fprintf(&code, "func piece%d(ctx context.Context, approver gate.Approver, repositories *golem.Runtime) error {\n//line %s:%d\n%s}\n", pieces, document, b.line, b.text)
			fmt.Fprintf(&calls, "run(%q, piece%d)\n", fmt.Sprintf("%s:%d", document, b.line), pieces)
		}
	}
	if pieces < 6 {
		t.Fatalf("%s: found %d pieces of Go: the test checks nothing", document, pieces)
	}
	fmt.Fprintf(&code, "func main() {\n%s}\n", calls.String())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(code.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	build(t, filepath.Join(dir, "blocks"), filepath.Join(dir, "main.go"))
	if out, err := exec.Command(filepath.Join(dir, "blocks")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// compileGuide compiles the Go blocks of a document, each as a function with these parameters.
// The only errors that it ignores are an unused variable and a missing return.
func compileGuide(t *testing.T, document, imports, parameters string, least int) {
	t.Helper()
	var code strings.Builder
	code.WriteString("package main\n" + imports + "\nfunc main() {}\n")
	pieces := 0
	for _, b := range blocks(t, document) {
		if b.lang != "go" {
			continue
		}
		pieces++
		if strings.HasPrefix(b.text, "func ") {
			fmt.Fprintf(&code, "//line %s:%d\n%s", document, b.line, b.text)
			continue
		}
		fmt.Fprintf(&code, "func piece%d%s {{\n//line %s:%d\n%s}}\n", pieces, parameters, document, b.line, b.text)
	}
	if pieces < least {
		t.Fatalf("%s: found %d pieces of Go: the test checks nothing", document, pieces)
	}
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(code.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-gcflags=-e", "-o", os.DevNull, source).CombinedOutput()
	if err == nil {
		return
	}
	lines := 0
	for l := range strings.Lines(string(out)) {
		lines++
		if !strings.HasPrefix(l, "#") && !strings.Contains(l, "declared and not used") && !strings.Contains(l, "missing return") {
			t.Error(strings.TrimSpace(l))
		}
	}
	if lines == 0 {
		t.Errorf("go build: %v", err)
	}
}

// TestErrorTable compares the guide's table of codes with the constants.
func TestErrorTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "sandbox/errors.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	matching := map[string]error{"ErrNotExist": fs.ErrNotExist, "ErrExist": fs.ErrExist, "ErrPermission": fs.ErrPermission, "ErrInvalid": fs.ErrInvalid}
	var want []string
	for n := range ast.Preorder(file) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			continue
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			continue
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("| `%s` | `%s` | %s |", code, spec.Names[0].Name, strings.TrimSpace(spec.Comment.Text()))
		for _, name := range []string{"ErrNotExist", "ErrExist", "ErrPermission", "ErrInvalid"} {
			if sandbox.Code(code).Is(matching[name]) {
				row += " `" + name + "`"
			}
		}
		want = append(want, row+" |")
	}
	if len(want) < 10 {
		t.Fatalf("sandbox/errors.go: found %d codes: the test checks nothing", len(want))
	}
	text, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile("(?m)^\\| `[a-z_]+` \\| `Err.*$").FindAllString(string(text), -1)
	if !slices.Equal(got, want) {
		t.Errorf("docs/library.md: the table of codes is\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLinks checks every link between the documents, and the headings they name.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence := regexp.MustCompile("(?ms)^```.*?^```$")
	checked := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			file, heading, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if heading != "" && !slices.Contains(headings(t, to), heading) {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 20 {
		t.Errorf("checked %d links: the test checks nothing", checked)
	}
}

// headings returns the headings of a document in the form that links use.
func headings(t *testing.T, document string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for l := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(l, "#"); title != l && strings.HasPrefix(title, " ") {
			names = append(names, strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r):
					return unicode.ToLower(r)
				}
				return -1
			}, strings.TrimSpace(title)))
		}
	}
	return names
}
