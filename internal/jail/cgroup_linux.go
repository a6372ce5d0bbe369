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
)

// groups are the control groups of a session: one for the commands of each cell,
// below the group that golem itself is in, so that what bounds golem bounds them.
type groups struct {
	parents func() []parent // looks for them once, when the first is needed

	mu sync.Mutex
	of map[*wire][]*group
}

// A parent is a folder in which groups can be made.
type parent struct {
	dir     string
	memory  bool // it limits memory
	pids    bool // it limits processes
	unified bool // version 2: holds all of a process or nothing
}

// A group is a control group for the commands of one cell.
type group struct {
	parent
	dir    string
	held   *os.File // while it is in use
	join   *os.File // a thread that writes 0 here, or its process, is in it
	counts []count
}

// A count is a number of the kernel's that grows when a limit is run into.
type count struct {
	limit Limit
	file  *os.File
	word  string // stands before it
	seen  int64
}

// grown reports whether it has, since it was asked last.
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

// findParents returns where groups can be made, and removes those that sessions have left
// behind whose process was killed.
func findParents() (list []parent) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	for _, p := range parentsOf(string(mounts), string(own)) {
		if unix.Access(p.dir, unix.W_OK) != nil || p.unified && !p.free() {
			continue
		}
		sweep(p.dir, removeGroup)
		list = append(list, p)
	}
	return list
}

// sweepGroups removes the groups of a golem that was killed, for a holder that has
// lost it. One that only says that it has finished removes them itself.
func sweepGroups(w *wire) {
	if w.send(report{}) == nil {
		return
	}
	golem, err := unix.GetsockoptUcred(w.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return
	}
	for i := 0; i < 100 && bornAt(int(golem.Pid)) != ""; i++ {
		time.Sleep(5 * time.Millisecond) // its end begins with its files
	}
	for _, p := range findParents() {
		for i := 0; i < 100 && sweep(p.dir, removeGroup) != nil; i++ {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// removeGroup removes a group, unless somebody holds it who cannot be seen from here: a
// golem in another PID namespace.
func removeGroup(dir string) error {
	held, ok := seize(dir)
	if !ok {
		return nil
	}
	defer held.Close()
	return os.Remove(dir)
}

// parentsOf returns where groups could be made, from the mounts and the groups of
// a process as the kernel lists them.
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
			// A group with processes in it has no groups below it that limit; one beside
			// it can.
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

// groupDir returns the folder of a group: where its hierarchy is mounted, and its
// path below the part of it that is mounted there.
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

// subset reports whether all of a list with commas is in another.
func subset(of, in string) bool {
	for _, name := range strings.Split(of, ",") {
		if !strings.Contains(","+in+",", ","+name+",") {
			return false
		}
	}
	return true
}

// free reports whether golem's own group has no limit, which a group beside it
// would escape.
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

// What a cell itself needs where it has to be in the group of its commands.
const (
	cellMemory    = 64 << 20
	cellProcesses = 32
)

// make makes the groups of a cell, and returns what it joins them by. A group that
// cannot be made is not there: Holds says so.
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
		dir := filepath.Join(p.dir, stamp(i))
		if err := os.Mkdir(dir, 0o755); os.IsExist(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		g, err := p.limited(dir, l)
		if os.IsNotExist(err) || errors.Is(err, unix.EWOULDBLOCK) {
			continue // it was taken for one that is left behind, before it was held
		}
		return g, err
	}
}

// limited returns the group of a folder, held and with its limits.
func (p parent) limited(dir string, l Limits) (*group, error) {
	held, err := hold(dir)
	if err != nil {
		return nil, err
	}
	g := &group{parent: p, dir: dir, held: held}
	if p.memory && p.unified {
		err = g.write("memory.max", l.Memory+cellMemory)
		g.write("memory.swap.max", 0) // not there without swap
	} else if p.memory {
		err = g.write("memory.limit_in_bytes", l.Memory)
		g.write("memory.memsw.limit_in_bytes", l.Memory)
	}
	if err == nil && p.pids && p.unified {
		err = g.write("pids.max", l.Processes+cellProcesses)
	} else if err == nil && p.pids {
		err = g.write("pids.max", l.Processes+1) // the thread that starts them
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

// watch opens the counts of the group.
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

// hit returns the limits that a cell's commands have run into since it was asked
// last.
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

// holds reports what the groups of a cell limit.
func (g *groups) holds(w *wire) (memory, pids bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.of[w] {
		memory = memory || c.memory
		pids = pids || c.pids
	}
	return memory, pids
}

// drop removes the groups of a cell that is ending, or with nil those of all.
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

// remove waits until the last process is gone: it is ended by now. What cannot be
// removed even so is swept by a later session.
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
