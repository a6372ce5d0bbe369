package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stamp returns a name for the i-th thing that this process makes outside itself.
// It tells the process, so that another can see when nobody is left to remove it.
func stamp(i int) string {
	return stampOf(os.Getpid(), bornAt(os.Getpid()), i)
}

// bornAt returns when a process started, in the kernel's own measure, or "" if it
// is not there or has ended.
func bornAt(pid int) string {
	f := statOf(pid)
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// statOf returns what the kernel tells of a process, from its state on.
func statOf(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}

func stampOf(pid int, born string, i int) string {
	return fmt.Sprintf("golem-session-%d-%s-%d", pid, born, i)
}

// abandoned reports whether a name is a stamp, and the process that made it gone.
func abandoned(name string) bool {
	var pid, i int
	var born string
	n, _ := fmt.Sscanf(strings.ReplaceAll(name, "-", " "), "golem session %d %s %d", &pid, &born, &i)
	return n == 3 && name == stampOf(pid, born, i) && bornAt(pid) != born
}

// hold holds a folder for as long as the file is open, so that who cannot see this
// process sees that it is in use.
func hold(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// seize takes a folder that nobody holds, for as long as the file is open.
func seize(dir string) (*os.File, bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return f, true
}

// sweep removes from a folder what processes have left there that are gone. The
// error is that of one that is still in the way.
func sweep(dir string, remove func(string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !abandoned(e.Name()) {
			continue
		}
		if gone := remove(filepath.Join(dir, e.Name())); gone != nil && !os.IsNotExist(gone) {
			err = gone
		}
	}
	return err
}
