package changes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/sandbox"
)

// BenchmarkOverlays compares a read of a file through a session's overlay with a read in
// the directory itself. It also prints the cost of Enter and leave. `make bench` runs it.
func BenchmarkOverlays(b *testing.B) {
	folder := b.TempDir()
	const files = 10_000
	for i := range files {
		name := filepath.Join(folder, fmt.Sprintf("d%d", i/100), fmt.Sprintf("f%d", i))
		check(b, os.MkdirAll(filepath.Dir(name), 0o755))
		check(b, os.WriteFile(name, make([]byte, 4096), 0o644))
	}
	over := changes.Directory{Host: sandbox.Host(folder), Target: "/"}
	k, err := changes.Open(sandbox.Host(b.TempDir()), []changes.Directory{over}, false)
	check(b, err)
	defer k.Close()
	top, err := k.OpenDirectory(over)
	check(b, err)
	shown, err := sandbox.DirAt(top, sandbox.Traits{Host: over.Host, Through: k.Path(over)})
	check(b, err)
	plain, err := sandbox.Dir(over.Host)
	check(b, err)
	read := func(backend sandbox.Backend, around func()) func(int) {
		s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: backend, Access: sandbox.ReadWrite}}})
		check(b, err)
		i := 0
		return benchtable.Repeat(func() {
			around()
			i = (i + 7919) % files
			if _, err := s.Read(fmt.Sprintf("/d%d/f%d", i/100, i)); err != nil {
				b.Fatal(err)
			}
		})
	}
	call := func(changes bool) func() {
		return func() {
			leave, err := k.Enter(true, changes)
			check(b, err)
			check(b, leave())
		}
	}
	nothing := func() {}
	times := benchtable.Turns(benchtable.FewRounds, 50*time.Millisecond, read(shown, nothing), read(plain, nothing),
		read(shown, call(false)), benchtable.Repeat(call(false)), benchtable.Repeat(call(true)))
	table := benchtable.Peers(os.Stdout)
	table.Against("read 4 KiB through an overlay", times[0], "in the directory", times[1], 1.5)
	table.Against("the same, flushed before", times[2], "in the directory", times[1], 0)
	table.Row("flush", benchtable.Duration(times[3].Median()), "", "", "", "")
	table.Row("around a call that changes", benchtable.Duration(times[4].Median()), "", "", "", "")
	fmt.Printf("\ntargets met: %d of %d\n", table.Met, table.Met+table.Missed)
	b.SkipNow() // the table is the result
}
