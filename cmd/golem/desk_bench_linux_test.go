package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
)

// BenchmarkDesk prints what golem desk costs. `scripts/bench desk` runs it.
func BenchmarkDesk(b *testing.B) {
	golem := os.Getenv("GOLEM_BENCH_BINARY")
	if golem == "" {
		b.Skip("GOLEM_BENCH_BINARY names the golem to measure")
	}
	t := benchtable.Peers(os.Stdout)
	benchOpening(b, t, golem)
	benchInbox(b, t, golem)
	benchNews(b, t, golem)
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

// A deskClient is a browser without a screen, and the desk that it has logged in to.
type deskClient struct {
	b     *testing.B
	golem string
	dir   string
	state string
	http  *http.Client
	base  string // the address of the inbox
	desk  *os.Process
}

func newDeskClient(b *testing.B, golem string) *deskClient {
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	return &deskClient{b: b, golem: golem, dir: b.TempDir(), state: b.TempDir(), http: &http.Client{Jar: jar}}
}

func (c *deskClient) command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.golem, args...)
	cmd.Dir, cmd.Env = filepath.Join(c.dir, dir), append(os.Environ(), "GOLEM_STATE="+c.state)
	return cmd
}

// run runs golem in a directory, with the exit code that it should have.
func (c *deskClient) run(code int, dir string, args ...string) {
	c.b.Helper()
	cmd := c.command(dir, args...)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		c.b.Fatalf("golem %s: %v\n%s", args[0], err, out)
	}
}

// start starts golem desk and logs in.
func (c *deskClient) start() {
	desk := c.command(".", "desk", "--no-open")
	out, err := desk.StdoutPipe()
	if err == nil {
		err = desk.Start()
	}
	if err != nil {
		c.b.Fatal(err)
	}
	c.b.Cleanup(func() {
		desk.Process.Signal(os.Interrupt)
		desk.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.b.Fatal(err)
	}
	address = strings.TrimSpace(address)
	c.desk = desk.Process
	c.base, _, _ = strings.Cut(address, "?")
	c.body(c.http.Get(address))
}

// body returns the text of a page.
func (c *deskClient) body(r *http.Response, err error) string {
	c.b.Helper()
	if err != nil {
		c.b.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		c.b.Fatalf("%s: %s, %v", r.Request.URL.Path, r.Status, err)
	}
	return string(body)
}

// open returns how long a page takes, again and again.
func (c *deskClient) open(path string) (took benchtable.Series) {
	for range benchtable.FewRounds {
		start := time.Now()
		c.body(c.http.Get(c.base + path))
		took = append(took, time.Since(start).Seconds())
	}
	return took
}

// benchOpening measures how long golem desk takes to open the page of a session with 6,000
// changed files, and how much more memory it has then.
func benchOpening(b *testing.B, t *benchtable.Table, golem string) {
	const files = 6000
	c := newDeskClient(b, golem)
	c.run(0, ".", "exec", "sh", "-c", fmt.Sprintf(`mkdir d; i=0; while [ $i -lt %d ]; do printf 'package d\n\n// f returns a number.\nfunc f() int {\n\tfor range "ab" {\n\t}\n\treturn %%d\n}\n' $i >d/$i.go; i=$((i+1)); done`, files)) // in a language with colours
	c.start()
	before := peakMemory(b, c.desk.Pid)
	session := regexp.MustCompile(`session/[a-z0-9/-]+`).FindString(c.body(c.http.Get(c.base)))
	took := c.open(session)
	t.Row("golem desk, open a session with "+benchtable.Thousands(files)+" files", benchtable.Duration(took.Median()), "", "", benchtable.Duration(0.3), t.Judge(took.Median() <= 0.3))
	more := peakMemory(b, c.desk.Pid) - before
	t.Row("the same, more memory than before", fmt.Sprintf("%d MB", more>>20), "", "", "30 MB", t.Judge(more <= 30<<20))
}

// benchInbox measures how long golem desk takes to open the inbox with changes in 60
// directories.
func benchInbox(b *testing.B, t *benchtable.Table, golem string) {
	const directories = 60
	c := newDeskClient(b, golem)
	for i := range directories {
		name := strconv.Itoa(i)
		if err := os.Mkdir(filepath.Join(c.dir, name), 0o755); err != nil {
			b.Fatal(err)
		}
		c.run(0, name, "exec", "sh", "-c", "echo x >a; echo y >b")
	}
	c.start()
	took := c.open("")
	t.Row(fmt.Sprintf("golem desk, open the inbox with %d directories", directories), benchtable.Duration(took.Median()), "", "", benchtable.Duration(0.5), t.Judge(took.Median() <= 0.5))
}

// benchNews measures how long it takes until a page learns what another one has decided.
func benchNews(b *testing.B, t *benchtable.Table, golem string) {
	c := newDeskClient(b, golem)
	c.run(0, ".", "init", "notes")
	for i := range benchtable.FewRounds {
		c.run(3, "notes", "tool", "write_file", "--path", fmt.Sprintf("/out/%d.md", i), "--content", "x")
	}
	c.start()
	events, err := c.http.Get(c.base + "events")
	if err != nil {
		b.Fatal(err)
	}
	defer events.Body.Close()
	in := bufio.NewScanner(events.Body)
	var took benchtable.Series
	for range benchtable.FewRounds {
		call := regexp.MustCompile(`call/[a-z0-9/-]+`).FindString(c.body(c.http.Get(c.base)))
		form := url.Values{"answer": {"decline"}}
		for _, m := range regexp.MustCompile(`name="(nonce|digest)" value="([^"]+)"`).FindAllStringSubmatch(c.body(c.http.Get(c.base+call)), -1) {
			form.Set(m[1], m[2])
		}
		time.Sleep(500 * time.Millisecond) // until the desk has told the pages everything that happened before
		heard := make(chan time.Time, 1)
		start := time.Now()
		go func() {
			for in.Scan() {
				if in.Text() == "event: changed" {
					break
				}
			}
			heard <- time.Now()
		}()
		c.body(c.http.PostForm(c.base+call, form))
		took = append(took, (<-heard).Sub(start).Seconds())
	}
	t.Row("golem desk, a page learns what another one decides", benchtable.Duration(took.Median()), "", "", benchtable.Duration(0.2), t.Judge(took.Median() <= 0.2))
}

// peakMemory returns how many bytes of memory a process had at most.
func peakMemory(t testing.TB, process int) int64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
