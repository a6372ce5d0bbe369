package clearance_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/scan"
)

// TestManyFiles checks that the time to stage and push grows with the number of files and
// no faster. Every run tries a twentieth of 50,000 files.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	r := newRequest("local")
	n := testutil.Rounds(2500)
	for i := range n {
		r.Files = append(r.Files, newRequest("", fmt.Sprintf("many/%d/%d=%d", i/100, i, i)).Files...)
	}
	c, err := s.desk.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(runGit(t, s.local, "ls-files"), "\n") + 1; got != n+4 {
		t.Errorf("got %d files, want %d", got, n+4)
	}
	if now := runGit(t, s.local, "status", "--porcelain"); now != "" {
		t.Errorf("status: got\n%s", now)
	}
}

// zeros returns a sparse file of zero bytes.
func zeros(t *testing.T, size int64) git.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "zeros")
	writeFile(t, name, "")
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	return git.File{Path: "zeros", Mode: git.Plain, Size: size, Open: func() (io.ReadCloser, error) { return os.Open(name) }}
}

// TestLargeFile checks that a large file is streamed: no process, of git or ours, ever
// holds all of it. Every run tries 32 MB. 64 rounds try 2 GB.
func TestLargeFile(t *testing.T) {
	if os.Getenv("GOLEM_TEST_ALONE") == "" { // children of other tests would be counted too
		t.Parallel()
		cmd := exec.Command(os.Args[0], "-test.run=^TestLargeFile$")
		cmd.Env = append(os.Environ(), "GOLEM_TEST_ALONE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	s := setUp(t)
	size := int64(testutil.Rounds(32)) << 20
	r := newRequest("local")
	r.Files = append(r.Files, zeros(t, size))
	c, err := s.desk.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	err = s.desk.Diff(t.Context(), c, func(d clearance.FileDiff) error {
		if !d.Cut || d.NewSize != size || d.Text != "" {
			t.Errorf("got %+v", d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.local + "/zeros"); err != nil || info.Size() != size {
		t.Errorf("got %v, %v", info, err)
	}
	if most := peakMemory(); most > 28<<20 {
		t.Errorf("a process took %d MB", most>>20)
	}
}

// TestNoTimeToScan checks that scanners hold back files and the message when the time
// runs out.
func TestNoTimeToScan(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	r := newRequest("bare", "a.txt=new\n", "b.txt=new too\n")
	r.Message = strings.Repeat("key ", 1000)
	c, err := s.desk.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	set, err := scan.New(scan.Options{Limits: scan.Limits{Time: time.Nanosecond}})
	if err != nil {
		t.Fatal(err)
	}
	look, err := s.desk.Examine(t.Context(), c, 0, set)
	if err != nil {
		t.Fatal(err)
	}
	if held := look.Held(); len(held) != 2 || !strings.Contains(held[1].Findings[0].What, "for all files together") {
		t.Errorf("got %v", held)
	}
	if len(look.Message) != 1 || !look.Message[0].Hold {
		t.Errorf("the message: got %v", look.Message)
	}
}
