package jail

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// How the cell counts memory if no control group does.

// exceeds reports whether processes use more memory than most. held counts memory that
// processes share after a fork once for each of them. The exact count takes 9 ms for a
// GiB. exceeds makes it less often the more memory there is, and more often the less is
// left.
func (e *checker) exceeds(most, held int64, pids []int) bool {
	if e.rest > 0 {
		e.rest--
		return false
	}
	// Files in memory and System V shared memory are counted here, mapped or not, and the
	// buffers of sockets.
	exact := e.files(pids) + oldShared()
	for _, pid := range pids {
		exact += fairMemory(pid)
	}
	if exact > most {
		return true
	}
	e.rest = min(held>>29, 8*(most-exact)/most)
	return false
}

// files returns the bytes in file systems that are in memory, and in the buffers of the sockets
// of processes.
func (e *checker) files(pids []int) int64 {
	if e.memory == nil {
		return 0
	}
	return e.memory(pids)
}

// countMemory returns a function that counts the bytes in those file systems of the tree
// that are in memory. The function has a thread in the tree. It keeps no file open,
// because a command could find it.
func (t *tree) countMemory() (func() int64, error) {
	in, err := newThread(t.enter)
	if err != nil {
		return nil, err
	}
	return func() (sum int64) {
		in.do(func() error {
			for _, name := range t.plan.memory() {
				var st unix.Statfs_t
				if unix.Statfs(name, &st) == nil {
					sum += int64(st.Blocks-st.Bfree) * st.Bsize
				}
			}
			return nil
		})
		return sum
	}, nil
}

// oldShared returns the bytes in System V shared memory, which exists without a process.
// A cell without its own IPC namespace has none.
func oldShared() (sum int64) {
	if os.Getpid() != 1 || !anyShared("shm", unix.SYS_SHMCTL) {
		return 0
	}
	list, _ := os.ReadFile("/proc/sysvipc/shm")
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		if len(f) < 16 {
			continue
		}
		for _, word := range f[14:16] { // resident and swapped
			n, _ := strconv.ParseInt(word, 10, 64)
			sum += n
		}
	}
	return sum
}

// ownMemory returns the bytes of a process that do not come from a file on a disk. Memory
// that it shares with other processes counts in full.
func ownMemory(pid int) (sum int64) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			var kilobytes int64
			fmt.Sscan(rest, &kilobytes)
			sum += kilobytes << 10
		}
	}
	return sum
}

// fairMemory returns the bytes of a process that do not come from any file. Memory that
// several processes share is divided among them. If the process cannot be inspected,
// fairMemory returns ownMemory.
func fairMemory(pid int) (sum int64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil || len(data) == 0 {
		return ownMemory(pid)
	}
	shared := false
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		var kilobytes int64
		fmt.Sscan(rest, &kilobytes)
		switch name {
		case "Pss_Anon", "SwapPss":
			sum += kilobytes << 10
		case "Pss_Shmem":
			shared = kilobytes > 0
		}
	}
	if shared {
		sum += sharedMemory(pid)
	}
	return sum
}

// sharedMemory returns the share of a process in mappings that processes share and that
// have no file.
func sharedMemory(pid int) (sum int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	counts := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		name, rest, _ := strings.Cut(line, " ")
		switch {
		case !strings.HasSuffix(name, ":"): // the address and the file of a mapping
			counts = strings.HasSuffix(line, " /dev/zero (deleted)")
		case name == "Pss:" && counts:
			var kilobytes int64
			fmt.Sscan(rest, &kilobytes)
			sum += kilobytes << 10
		}
	}
	return sum
}
