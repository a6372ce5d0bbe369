package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/benchtable"
)

// benchDesk measures how long golem desk takes to open the page of a session with 6,000
// changed files, and how much more memory it has then.
func benchDesk(b *testing.B, t *benchtable.Table, golem string) {
	const files = 6000
	dir, state := b.TempDir(), b.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(golem, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	if out, err := command("exec", "sh", "-c", fmt.Sprintf("mkdir d; i=0; while [ $i -lt %d ]; do echo $i >d/$i.txt; i=$((i+1)); done", files)).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	desk := command("desk", "--no-open")
	out, err := desk.StdoutPipe()
	if err == nil {
		err = desk.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer desk.Wait()
	defer desk.Process.Signal(os.Interrupt)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	get := func(address string) (string, time.Duration) {
		start := time.Now()
		r, err := client.Get(address)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s, %v", address, r.Status, err)
		}
		return string(body), time.Since(start)
	}
	address = strings.TrimSpace(address)
	get(address)
	base, _, _ := strings.Cut(address, "?")
	before := peakMemory(b, desk.Process.Pid)
	inbox, _ := get(base)
	session := regexp.MustCompile(`session/[a-z0-9/-]+`).FindString(inbox)
	var took benchtable.Series
	for range benchtable.FewRounds {
		_, once := get(base + session)
		took = append(took, once.Seconds())
	}
	n := benchtable.Thousands(files)
	t.Row("golem desk, open a session with "+n+" files", benchtable.Duration(took.Median()), "", "", benchtable.Duration(0.3), t.Judge(took.Median() <= 0.3))
	more := peakMemory(b, desk.Process.Pid) - before
	t.Row("the same, more memory than before", fmt.Sprintf("%d MB", more>>20), "", "", "30 MB", t.Judge(more <= 30<<20))
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
