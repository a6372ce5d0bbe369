package jail

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of times in /proc, the same on all systems that golem supports.
const ticksPerSecond = 100

// ReadUsage returns what each of some processes uses, together with all processes that it
// has started.
func ReadUsage(processes []int) map[int]Usage {
	entries, err := os.ReadDir("/proc")
	if err != nil || len(processes) == 0 {
		return nil
	}
	parents := make(map[int]int)
	own := make(map[int]Usage)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, u, ok := readProcess(id); ok {
			parents[id], own[id] = parent, u
		}
	}
	total := make(map[int]Usage)
	for _, id := range processes {
		total[id] = Usage{}
	}
	for id, u := range own {
		for steps := 0; id > 1 && steps < len(own); id, steps = parents[id], steps+1 {
			if sum, ok := total[id]; ok {
				total[id] = Usage{sum.CPU + u.CPU, sum.Memory + u.Memory, sum.Processes + u.Processes}
			}
		}
	}
	return total
}

// readProcess returns the parent of a process and what it uses itself. Its processor time
// includes that of the processes that it has started and that have ended.
func readProcess(id int) (parent int, u Usage, ok bool) {
	dir := "/proc/" + strconv.Itoa(id)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, u, false
	}
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return 0, u, false
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, u, false
	}
	for _, text := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, u, false
		}
		u.CPU += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	u.Processes = 1
	statm, err := os.ReadFile(dir + "/statm")
	if fields = strings.Fields(string(statm)); err == nil && len(fields) > 2 {
		resident, _ := strconv.ParseInt(fields[1], 10, 64)
		shared, _ := strconv.ParseInt(fields[2], 10, 64)
		u.Memory = max(resident-shared, 0) * int64(os.Getpagesize())
	}
	return parent, u, true
}
