package state

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// holder returns the process that holds the lock of an open file, if the kernel shows it.
// The kernel does not show processes of other PID namespaces.
func holder(file *os.File) (p process) {
	info, err := file.Stat()
	if err != nil {
		return p
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return p
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return p
	}
	defer locks.Close()
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		// 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF; a waiting process has -> as the
		// second word. The device is the disk's, which differs from the one in stat on some
		// file systems, such as btrfs.
		words := strings.Fields(lines.Text())
		if len(words) < 6 || words[1] != "FLOCK" || !strings.HasSuffix(words[5], fmt.Sprintf(":%d", st.Ino)) {
			continue
		}
		id, err := strconv.Atoi(words[4])
		if err != nil || id <= 0 {
			continue
		}
		has, err := hasOpen(id, info)
		if errors.Is(err, fs.ErrPermission) { // a helper of golem hides its files
			has = words[5] == fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
		}
		if !has {
			continue
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id))
		return process{id, plainWord(strings.TrimSpace(string(name)))}
	}
	return p
}

// hasOpen reports whether a process has a file open.
func hasOpen(id int, file os.FileInfo) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", id)
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if info, err := os.Stat(dir + "/" + e.Name()); err == nil && os.SameFile(info, file) {
			return true, nil
		}
	}
	return false, err
}

// plainWord returns the name of a program if it is safe for a terminal. Any process can
// choose its own name.
func plainWord(name string) string {
	for _, r := range name {
		if r <= ' ' || r > '~' {
			return ""
		}
	}
	return name
}
