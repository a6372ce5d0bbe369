package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stamp returns a name for the i-th thing that this process makes outside itself.
// It tells the process, so that another can see when nobody is left to remove it.
func stamp(i int) string {
	return fmt.Sprintf("golem-%d-%s-%d", os.Getpid(), bornAt(os.Getpid()), i)
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

// sweep removes from a folder what processes have left there that are gone. The
// error is that of one that is still in the way.
func sweep(dir string, remove func(string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var pid, i int
		var born string
		n, _ := fmt.Sscanf(strings.ReplaceAll(e.Name(), "-", " "), "golem %d %s %d", &pid, &born, &i)
		if n != 3 || bornAt(pid) == born {
			continue
		}
		if gone := remove(filepath.Join(dir, e.Name())); gone != nil && !os.IsNotExist(gone) {
			err = gone
		}
	}
	return err
}
