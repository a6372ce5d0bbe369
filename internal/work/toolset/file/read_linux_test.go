package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestFIFOs reads eight named pipes without a writer at once, and then calls every reader
// for one of them. No call waits: P27.
func TestFIFOs(t *testing.T) {
	g, dir := newGate(t, map[string]string{"a": "needle\n"})
	for i := range 8 {
		if err := syscall.Mkfifo(filepath.Join(dir, fmt.Sprint("fifo", i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := call(t, g, "read_file", fmt.Sprintf(`{"path":"fifo%d"}`, i))
			if r.Err == nil || r.Err.Code != sandbox.ErrNotRegular {
				t.Errorf("fifo%d: %v", i, r)
			}
		})
	}
	all.Wait()
	for name, want := range map[string]string{
		"read_file": "not_regular", "read_files": "not_regular", "sandbox_read_text": "not_regular", "list_files": "not_",
		"find_files": "not_", "search_files": "not_", "sandbox_list": "not_", "file_info": "not a regular file", "file_exists": "yes, not a regular file",
	} {
		checkContains(t, askAll(t, g, "/fifo1")[name].String(), want)
	}
	checkContains(t, callOK(t, g, "list_files", `{}`), "fifo7 (not a regular file)\n")
	if got, want := callOK(t, g, "find_files", `{"pattern":"*"}`), "/a\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	checkContains(t, callOK(t, g, "search_files", `{"pattern":"needle"}`), "/a:1: needle\n[1 file searched]")
}

// TestSparse calls the readers for a sparse file of a tebibyte. The results are limited
// and take little memory: P29.
func TestSparse(t *testing.T) {
	g, dir := newGate(t, map[string]string{"big": "", "text": "one\ntwo\n"})
	for name, size := range map[string]int64{"big": 1 << 40, "text": 1 << 40} {
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	used := countAllocated(func() {
		checkContains(t, callRefused(t, g, "read_file", `{"path":"big"}`, sandbox.ErrInvalid), "1099511627776 bytes")
		callRefused(t, g, "read_file", `{"path":"text","offset":-1}`, sandbox.ErrInvalid)
		callRefused(t, g, "sandbox_read_text", `{"path":"big"}`, sandbox.ErrTooLarge)
		checkContains(t, callOK(t, g, "file_info", `{"path":"big"}`), "1099511627776 bytes")
		checkContains(t, callOK(t, g, "search_files", `{"pattern":"one"}`), "no match", "2 binary skipped")
	})
	if used > 32<<20 {
		t.Errorf("allocates %d bytes", used)
	}
	// Text before a hole can be read.
	name := filepath.Join(dir, "text")
	hostFile(t, name, strings.Repeat("text\n", 4000))
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Fatal(err)
	}
	checkContains(t, callOK(t, g, "read_file", `{"path":"text","offset":3999,"limit":2}`), "lines 3999 to 4000", "  4000\ttext\n[more: cursor 4001@20000]")
	checkContains(t, callOK(t, g, "read_file", `{"path":"text","offset":9999}`), "the same offset with cursor 4001@")
}
