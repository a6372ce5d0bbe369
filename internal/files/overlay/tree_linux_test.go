package overlay

import (
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDeepTree walks down and up a deep tree. No access may resolve more of a path than
// lies between two marks, and golem may ask about each name only once.
func TestDeepTree(t *testing.T) {
	const depth = 1500
	tr, err := openTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	deepest := strings.Repeat("d/", depth) + "f"
	if err := tr.makeParents(deepest); err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		if _, err := tr.stat(name); err != nil {
			t.Fatalf("depth %d: %v", strings.Count(name, "/"), err)
		}
		if _, err := tr.list(name); err != nil {
			t.Fatalf("depth %d: %v", strings.Count(name, "/"), err)
		}
		if _, _, rest := tr.nearest(path.Join(name, "f")); strings.Count(rest, "/") > markEvery+1 {
			t.Fatalf("depth %d: an access resolves %d parts of the path", strings.Count(name, "/"), strings.Count(rest, "/"))
		}
	}
	dirs := parents(deepest)
	for _, dir := range dirs {
		check(dir)
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		check(dirs[i])
	}
	if n := len(tr.marks); n > depth/markEvery {
		t.Errorf("the tree keeps %d directories open", n)
	}

	calls := 0
	within := AtOrBelow(func(name string) bool { calls++; return name == dirs[1000] })
	for i, dir := range dirs {
		if within(dir) != (i >= 1000) {
			t.Fatalf("depth %d: AtOrBelow = %v", i, i < 1000)
		}
	}
	if calls > 2*depth+2 {
		t.Errorf("AtOrBelow asked %d times about %d names", calls, depth)
	}
}

// TestMarksOfReplacedDirectory makes another directory at the path of one that a tree
// keeps open. After closeLast the tree accesses the new one.
func TestMarksOfReplacedDirectory(t *testing.T) {
	tr, err := openTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	name := strings.Repeat("d/", 3*markEvery) + "f"
	if err := tr.makeParents(name); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.stat(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if len(tr.marks) == 0 {
		t.Fatal("the tree keeps no directory open")
	}
	if err := unix.Renameat(tr.fd, "d", tr.fd, "old"); err != nil {
		t.Fatal(err)
	}
	tr.closeLast()
	if _, err := tr.stat(path.Dir(name)); err != unix.ENOENT {
		t.Fatalf("stat of a moved directory: %v", err)
	}
	if _, err := tr.list(path.Dir(name)); err != unix.ENOENT {
		t.Fatalf("list of a moved directory: %v", err)
	}
}
