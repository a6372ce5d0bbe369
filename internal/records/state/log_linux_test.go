package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a disk with so many bytes, and returns its directory.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fill fills a disk except for leave bytes. The returned function frees the space.
func fill(t *testing.T, dir string, leave int) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	for size := 1 << 20; size > 0; size -= 4096 {
		if os.WriteFile(name, make([]byte, size), 0o600) == nil {
			if err := os.Truncate(name, int64(max(size-leave, 0))); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(name) }
		}
	}
	return func() { os.Remove(name) }
}

// TestFullDisk checks that on a full disk no record is acknowledged and no partial record
// stays, and that the log continues when there is space.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, 256<<10)
	f := openDir(t, filepath.Join(disk, "state"))
	l := openLog(t, f, 0)
	if err := appendRecords(l, true, "one"); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk, 0)
	batch := []string{"two", "three", strings.Repeat("x", 10_000)} // the last record crosses the end of a page
	for range 3 {
		err := appendRecords(l, true, batch...)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free space") {
			t.Errorf("append to a full disk: %v", err)
		}
		if tail, err := openLog(t, f, 0).Tail(); tail.Count != 1 || string(tail.Mark) != "one" || tail.Torn != 0 || tail.Beyond != nil || err != nil {
			t.Errorf("tail %+v, %v", tail, err)
		}
	}
	once, _ := f.Once("answers")
	blobs, _ := f.Blobs("staged")
	big := bytes.Repeat([]byte("x"), 20_000)
	_, _, decided := once.Decide("k", big)
	_, put := blobs.Put(bytes.NewReader(big))
	other, _ := f.Log("other", 0)
	for what, err := range map[string]error{"decide": decided, "put": put, "another log": appendRecords(other, true, string(big)),
		"update": f.Update("x", func([]byte) ([]byte, error) { return big, nil })} {
		if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "free space") != 1 || strings.Contains(err.Error(), disk) {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	free()
	if err := appendRecords(l, true, batch[:2]...); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
	if got, err := readRecords(l); got != "one two three" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if kept, first, err := once.Decide("k", big); !bytes.Equal(kept, big) || !first || err != nil {
		t.Errorf("after space was freed: %d bytes, %t, %v", len(kept), first, err)
	}
	if _, err := blobs.Put(bytes.NewReader(big)); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
	if err := appendRecords(other, true, "one"); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
}

// TestFullDiskAtEveryStep checks that a log with several segments continues, at whatever
// step the disk was full.
func TestFullDiskAtEveryStep(t *testing.T) {
	disk := smallDisk(t, 256<<10)
	l := openLog(t, openDir(t, filepath.Join(disk, "state")), 3000)
	number := 0
	for step := range 8 {
		free := fill(t, disk, step*4096)
		for refused := false; !refused; {
			err := appendRecords(l, false, fmt.Sprintf("%d-%s", number+1, strings.Repeat("x", 1000)))
			if refused = err != nil; !refused {
				number++
			} else if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
		if tail, err := l.Tail(); tail.Count != uint64(number) || err != nil {
			t.Errorf("step %d: %+v, %v, want %d", step, tail, err, number)
		}
		free()
	}
	err := l.Read(1, func(n uint64, record []byte) error {
		if !strings.HasPrefix(string(record), fmt.Sprintf("%d-", n)) {
			return fmt.Errorf("record %d is %.20q", n, record)
		}
		number--
		return nil
	})
	if number != 0 || err != nil {
		t.Errorf("%d records are missing, %v", number, err)
	}
}

// TestReadOnlyDirectory checks that a read-only directory can be read, and that the error of
// a write says what to do.
func TestReadOnlyDirectory(t *testing.T) {
	disk := smallDisk(t, 256<<10)
	f := openDir(t, filepath.Join(disk, "state"))
	l := openLog(t, f, 0)
	if err := errors.Join(appendRecords(l, true, "one"), l.Close()); err != nil {
		t.Fatal(err)
	}
	editFile(t, filepath.Join(disk, "state", "journal.jsonl"), func(d []byte) []byte { return append(d, "two\nthr"...) })
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	f = openDir(t, filepath.Join(disk, "state"))
	l = openLog(t, f, 0)
	if got, err := readRecords(l); got != "one two" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if tail, err := l.Tail(); tail.Count != 2 || tail.Torn != 3 || err != nil {
		t.Errorf("tail %+v, %v", tail, err)
	}
	once, _ := f.Once("answers")
	blobs, _ := f.Blobs("staged")
	leases, _ := f.Leases()
	_, _, decided := once.Decide("k", nil)
	_, put := blobs.Put(strings.NewReader("x"))
	_, taken := leases.Take(t.Context(), "l", "me")
	for what, err := range map[string]error{"append": appendRecords(l, false, "x"), "decide": decided, "put": put, "take": taken,
		"update": f.Update("x", func([]byte) ([]byte, error) { return nil, nil })} {
		if !errors.Is(err, syscall.EROFS) || strings.Count(err.Error(), "--state") != 1 || strings.Contains(err.Error(), disk) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
