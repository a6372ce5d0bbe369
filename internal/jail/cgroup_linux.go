package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
)

// groups are the control groups of a jail. The commands of each cell have their own,
// below golem's own group, so that limits of golem also limit the commands.
type groups struct {
	parents func() []parent // finds them on the first call

	mu sync.Mutex
	of map[*wire][]*group
}

// A parent is a directory in which golem can create groups.
type parent struct {
	dir     string
	memory  bool // it limits memory
	pids    bool // it limits processes
	unified bool // version 2: a process cannot have threads in different groups
}

// A group is a control group for the commands of one cell.
type group struct {
	parent
	dir    string
	held   *os.File // holds a lock while the group is in use
	join   *os.File // to join the group, a thread or process writes 0 to it
	counts []count
}

// A count is a counter of the kernel that grows when commands reach a limit.
type count struct {
	limit Limit
	file  *os.File
	word  string // the name of the counter in the file
	seen  int64
}

// grown reports whether the counter has grown since the last call.
func (c *count) grown() bool {
	var data [512]byte
	n, _ := c.file.ReadAt(data[:], 0)
	for line := range strings.Lines(string(data[:n])) {
		if rest, ok := strings.CutPrefix(line, c.word+" "); ok {
			now, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			was := c.seen
			c.seen = now
			return now > was
		}
	}
	return false
}

func newGroups() *groups {
	return &groups{parents: sync.OnceValue(findParents), of: make(map[*wire][]*group)}
}

// findParents returns the directories in which golem can create groups. It removes groups
// of jails whose process was killed.
func findParents() (list []parent) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	for _, p := range parentsOf(string(mounts), string(own)) {
		if unix.Access(p.dir, unix.W_OK) != nil || p.unified && !p.free() {
			continue
		}
		claim.Sweep(p.dir, removeGroup)
		list = append(list, p)
	}
	return list
}

// sweepGroups removes the groups of golem if golem was killed. A golem that ends normally
// removes them itself.
func sweepGroups(w *wire) {
	if w.send(report{}) == nil {
		return
	}
	golem, err := unix.GetsockoptUcred(w.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return
	}
	for i := 0; i < 100 && claim.Born(int(golem.Pid)) != ""; i++ {
		time.Sleep(5 * time.Millisecond) // a process that ends closes its files first
	}
	for _, p := range findParents() {
		for i := 0; i < 100 && claim.Sweep(p.dir, removeGroup) != nil; i++ {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// removeGroup removes a group, unless a golem in another PID namespace has locked it.
func removeGroup(dir string) error {
	held, ok := claim.Seize(dir)
	if !ok {
		return nil
	}
	defer held.Close()
	return os.Remove(dir)
}

// parentsOf returns the directories in which groups could be created, from the contents
// of /proc/self/mountinfo and /proc/self/cgroup.
func parentsOf(mounts, own string) []parent {
	var list []parent
	for _, line := range strings.Split(own, "\n") {
		part := strings.SplitN(line, ":", 3)
		if len(part) != 3 {
			continue
		}
		p := parent{unified: part[0] == "0" && part[1] == ""}
		for _, name := range strings.Split(part[1], ",") {
			p.memory = p.memory || name == "memory"
			p.pids = p.pids || name == "pids"
		}
		if !p.unified && !p.memory && !p.pids {
			continue
		}
		if p.dir = groupDir(mounts, part[1], part[2]); p.dir == "" {
			continue
		}
		if p.unified {
			// The kernel sets no limits below a group that has processes, so the parent
			// of golem's group is used.
			if part[2] == "/" {
				continue
			}
			p.dir = filepath.Dir(p.dir)
			on, _ := os.ReadFile(p.dir + "/cgroup.subtree_control")
			words := strings.Fields(string(on))
			for _, w := range words {
				p.memory = p.memory || w == "memory"
				p.pids = p.pids || w == "pids"
			}
			if !p.memory && !p.pids {
				continue
			}
		}
		list = append(list, p)
	}
	return list
}

// groupDir returns the directory of a group: the mount point of its hierarchy, and its
// path below the mounted part.
func groupDir(mounts, controllers, path string) string {
	for _, line := range strings.Split(mounts, "\n") {
		head, tail, ok := strings.Cut(line, " - ")
		f, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 5 || len(t) < 3 {
			continue
		}
		if controllers == "" && t[0] != "cgroup2" || controllers != "" && (t[0] != "cgroup" || !subset(controllers, t[2])) {
			continue
		}
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(f[3], "/")); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(f[4], rest)
		}
	}
	return ""
}

// subset reports whether every element of a list with commas is in another list.
func subset(of, in string) bool {
	for _, name := range strings.Split(of, ",") {
		if !strings.Contains(","+in+",", ","+name+",") {
			return false
		}
	}
	return true
}

// free reports whether golem's own group has no limit. A group next to it would not be
// subject to that limit.
func (p parent) free() bool {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(own), "\n") {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			dir := filepath.Join(p.dir, filepath.Base(rest))
			for _, name := range []string{"memory.max", "pids.max"} {
				if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil && strings.TrimSpace(string(data)) != "max" {
					return false
				}
			}
			return true
		}
	}
	return false
}

// The needs of a cell that has to be in the group of its commands.
const (
	cellMemory    = 64 << 20
	cellProcesses = 32
)

// make creates the groups of a cell, and returns the files to join them by. It skips
// groups that it cannot create.
func (g *groups) make(w *wire, l Limits) []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var fds []int
	for _, p := range g.parents() {
		made, err := p.make(l)
		if err != nil {
			continue
		}
		g.of[w] = append(g.of[w], made)
		fds = append(fds, int(made.join.Fd()))
	}
	return fds
}

func (p parent) make(l Limits) (*group, error) {
	for i := 0; ; i++ {
		dir := filepath.Join(p.dir, claim.Name(i))
		if err := os.Mkdir(dir, 0o755); os.IsExist(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		g, err := p.limited(dir, l)
		if os.IsNotExist(err) || errors.Is(err, unix.EWOULDBLOCK) {
			continue // another golem took it for abandoned before it was locked
		}
		return g, err
	}
}

// limited locks the group of a directory and sets its limits.
func (p parent) limited(dir string, l Limits) (*group, error) {
	held, err := claim.Hold(dir)
	if err != nil {
		return nil, err
	}
	g := &group{parent: p, dir: dir, held: held}
	if p.memory && p.unified {
		err = g.write("memory.max", l.Memory+cellMemory)
		g.write("memory.swap.max", 0) // this file is missing without swap
	} else if p.memory {
		err = g.write("memory.limit_in_bytes", l.Memory)
		g.write("memory.memsw.limit_in_bytes", l.Memory)
	}
	if err == nil && p.pids && p.unified {
		err = g.write("pids.max", l.Processes+cellProcesses)
	} else if err == nil && p.pids {
		err = g.write("pids.max", l.Processes+1) // one for the thread that starts commands
	}
	if err == nil {
		// In version 1 a thread can be in a group without its process.
		name := map[bool]string{true: "cgroup.procs", false: "tasks"}[p.unified]
		g.join, err = os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	}
	if err != nil {
		held.Close()
		os.Remove(g.dir)
		return nil, err
	}
	g.watch()
	return g, nil
}

func (g *group) write(name string, value int64) error {
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprint(f, value)
	return err
}

// watch opens the counters of the group.
func (g *group) watch() {
	memory := map[bool]string{true: "memory.events", false: "memory.oom_control"}[g.unified]
	for _, c := range []struct {
		there      bool
		limit      Limit
		name, word string
	}{{g.memory, MemoryLimit, memory, "oom_kill"}, {g.pids, ProcessesLimit, "pids.events", "max"}} {
		if !c.there {
			continue
		}
		if file, err := os.Open(filepath.Join(g.dir, c.name)); err == nil {
			g.counts = append(g.counts, count{limit: c.limit, file: file, word: c.word})
		}
	}
}

// hit returns the limits that the commands of a cell have reached since the last call.
func (g *groups) hit(w *wire) []Limit {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []Limit
	for _, c := range g.of[w] {
		for i := range c.counts {
			if c.counts[i].grown() {
				list = append(list, c.counts[i].limit)
			}
		}
	}
	return list
}

// holds reports which resources the groups of a cell limit.
func (g *groups) holds(w *wire) (memory, pids bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.of[w] {
		memory = memory || c.memory
		pids = pids || c.pids
	}
	return memory, pids
}

// drop removes the groups of a cell that is ending, or of all cells for nil.
func (g *groups) drop(w *wire) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for of, list := range g.of {
		if w != nil && of != w {
			continue
		}
		for _, c := range list {
			c.join.Close()
			for _, n := range c.counts {
				n.file.Close()
			}
			c.remove()
			c.held.Close()
		}
		delete(g.of, of)
	}
}

// remove removes the group. It waits up to two seconds for processes that are ending. A
// later jail removes a group that remains.
func (g *group) remove() {
	for range 400 {
		if err := os.Remove(g.dir); err == nil || !os.IsExist(err) && !isBusy(err) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func isBusy(err error) bool {
	e, ok := err.(*os.PathError)
	return ok && e.Err == unix.EBUSY
}
