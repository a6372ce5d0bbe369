package scan

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/benchtable"
)

// BenchmarkTable compares the speed of each scanner with gitleaks, if it is
// installed. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	table := benchtable.Peers(os.Stdout)
	files, size, dir := listGoSources(b)
	all := newSet(b, Options{})
	for _, l := range all.looks {
		if l.Name() == malwareName {
			continue // it has no engine unless a project sets one
		}
		one := &Set{looks: []look{l}, limits: all.limits, budget: all.budget}
		benchSet(b, table, l.Name(), one, files, size, peerOf(b, l.Name(), dir))
	}
	benchSet(b, table, "all of ours", all, files, size, nil)
	kept := newSet(b, Options{Cache: memory{}})
	benchSet(b, table, "all of ours, verdicts kept", kept, files, size, nil)
	fmt.Printf("\ntargets met: %d of %d\n", table.Met, table.Met+table.Missed)
	b.SkipNow() // the table is the result
}

// listGoSources is the source code of Go's library, which every machine with Go has.
func listGoSources(b *testing.B) (files []Content, size int64, dir string) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	dir = b.TempDir()
	for _, part := range []string{"net", "go", "encoding", "runtime", "os"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, ".go") || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			c := of(fmt.Sprintf("%d-%s", len(files), d.Name()), data)
			c.Hash = c.Path
			files, size = append(files, c), size+c.Size
			return os.WriteFile(filepath.Join(dir, c.Path), data, 0o600)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return files, size, dir
}

// peerOf returns a program that does the work of a scanner, or nil.
func peerOf(b *testing.B, scanner, dir string) []string {
	peer := map[string][]string{
		secretsName: {"gitleaks", "dir", dir, "--no-banner", "--exit-code", "0", "--ignore-gitleaks-allow", "--max-decode-depth", "1"},
	}[scanner]
	if peer == nil {
		return nil
	}
	if _, err := exec.LookPath(peer[0]); err != nil {
		fmt.Printf("without %s, which is not installed\n", peer[0])
		return nil
	}
	return peer
}

// benchSet measures one row. A peer uses all cores, our scanner one.
func benchSet(b *testing.B, table *benchtable.Table, name string, s *Set, files []Content, size int64, peer []string) {
	sides := []func(int){benchtable.Repeat(func() {
		for _, f := range files {
			// One of them contains an endless gzip, and is held.
			if v := s.Scan(b.Context(), f); len(v.Scanners) == 0 && !v.Held {
				b.Fatalf("no scanner examined %s", f.Path)
			}
		}
	})}
	if peer != nil {
		sides = append(sides, benchtable.Repeat(func() {
			if out, err := exec.Command(peer[0], peer[1:]...).CombinedOutput(); err != nil {
				b.Fatalf("%s: %v\n%s", peer[0], err, out)
			}
		}))
	}
	rounds := 3
	if peer != nil {
		rounds = 1 // it takes many seconds
	}
	series := benchtable.Turns(rounds, benchtable.Once, sides...)
	speed := func(s benchtable.Series) string { return fmt.Sprintf("%.0f MB/s", float64(size)/1e6/s.Median()) }
	beside, ratio := "", ""
	if peer != nil {
		beside, ratio = speed(series[1])+" "+peer[0], fmt.Sprintf("%.2f×", series[1].Over(series[0])) // of the speeds
	}
	table.Row(fmt.Sprintf("scan %.0f MB: %s", float64(size)/1e6, name), speed(series[0]), beside, ratio, "", "")
}
