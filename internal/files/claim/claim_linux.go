package claim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Name returns a name for the i-th thing that this process makes outside itself.
func Name(i int) string {
	return nameOf(os.Getpid(), Born(os.Getpid()), i)
}

// Born returns when a process started, in the kernel's own measure, or "" if it does not
// exist or has ended.
func Born(pid int) string {
	f := Stat(pid)
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// Stat returns the fields of /proc/PID/stat, from the state of the process on.
func Stat(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}

func nameOf(pid int, born string, i int) string {
	return fmt.Sprintf("golem-session-%d-%s-%d", pid, born, i)
}

// IsAbandoned reports whether a name was made by Name, in a process that has ended.
func IsAbandoned(name string) bool {
	var pid, i int
	var born string
	n, _ := fmt.Sscanf(strings.ReplaceAll(name, "-", " "), "golem session %d %s %d", &pid, &born, &i)
	return n == 3 && name == nameOf(pid, born, i) && Born(pid) != born
}

// Hold marks a directory as in use until the file is closed. Many may hold it at once.
func Hold(dir string) (*os.File, error) {
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

// Seize locks a directory until the file is closed, if nobody holds it.
func Seize(dir string) (*os.File, bool) {
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

// Sweep calls remove for everything in a directory whose process has ended. The error is
// that of the last one that could not be removed.
func Sweep(dir string, remove func(string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !IsAbandoned(e.Name()) {
			continue
		}
		if gone := remove(filepath.Join(dir, e.Name())); gone != nil && !os.IsNotExist(gone) {
			err = gone
		}
	}
	return err
}
