package jail_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// trySearch reads texts from stdin, a line each, and looks for them in everything that
// a process can learn of its surroundings. It prints where it found one, never the
// text itself, and at the end how many files it has read.
func trySearch([]string) {
	var texts [][]byte
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		texts = append(texts, bytes.Clone(in.Bytes()))
	}
	look := func(where string, data []byte) {
		for i, text := range texts {
			if at := bytes.Index(data, text); at >= 0 {
				fmt.Printf("found %d in %s: %q\n", i, where, data[max(at-40, 0):at])
			}
		}
	}
	files := 0
	walk := func(top string) {
		filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if rel, ok := strings.CutPrefix(name, "/proc/self/"); ok && strings.HasPrefix(rel, "fd") {
				return nil // those of this program change while it looks
			}
			look("the name of "+name, []byte(name))
			switch {
			case d.Type()&fs.ModeSymlink != 0:
				to, _ := os.Readlink(name)
				look("the target of "+name, []byte(to))
			case d.Type().IsRegular():
				data := readSome(name)
				if data != nil {
					files++
				}
				look(name, data)
			}
			return nil
		})
	}
	for _, top := range []string{"/proc", "/sys", "/etc", "/dev", "/run", "/var", "/tmp", "/home", jail.Work} {
		walk(top)
	}
	// The kernel finds threads by a number that no directory lists.
	listed := map[string]bool{}
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		listed[e.Name()] = true
	}
	for id := 1; id < 100; id++ {
		if !listed[fmt.Sprint(id)] {
			walk(fmt.Sprintf("/proc/%d", id))
		}
		for _, name := range []string{"root", "cwd", "exe"} {
			to, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", id, name))
			look(fmt.Sprintf("/proc/%d/%s", id, name), []byte(to))
		}
	}
	for _, name := range []string{"mounts", "mountinfo", "mountstats"} {
		if data := readSome("/proc/self/" + name); len(data) > 0 {
			fmt.Printf("found a mount table: %.60q\n", data)
		}
	}
	look("the environment", []byte(strings.Join(os.Environ(), "\n")))
	look("the arguments", []byte(strings.Join(os.Args, "\n")))
	dir, _ := os.Getwd()
	look("the working directory", []byte(dir))
	var name unix.Utsname
	unix.Uname(&name)
	look("uname", name.Nodename[:])
	for _, root := range []uint64{^uint64(0), 1} { // LSMT_ROOT
		var ids [256]uint64
		ask := [4]uint64{24, root}
		n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&ask)), uintptr(unsafe.Pointer(&ids)), 256, 0, 0, 0)
		if errno != unix.ENOSYS {
			fmt.Println("found", n, "mounts by listmount:", errno)
		}
	}
	var st unix.Statx_t
	unix.Statx(unix.AT_FDCWD, "/", 0, 0x4000 /* STATX_MNT_ID_UNIQUE */, &st)
	ask, told := [4]uint64{24, st.Mnt_id, 0x1ff}, make([]byte, 1<<16)
	if _, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&ask)), uintptr(unsafe.Pointer(&told[0])), uintptr(len(told)), 0, 0, 0); errno != unix.ENOSYS {
		fmt.Println("found a mount by statmount:", errno)
	}
	fmt.Println("read", files)
}

// readSome reads the beginning of a file, nil where it cannot be read. It waits for
// nothing.
func readSome(name string) []byte {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	got := make(chan []byte, 1)
	go func() {
		defer f.Close()
		data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
		got <- data
	}()
	select {
	case data := <-got:
		return append([]byte{}, data...)
	case <-time.After(2 * time.Second):
		return nil
	}
}

// TestNoHostPathIsReadable searches everything that a command can read for the names of
// the host's directories: those of the project, of the state and of golem itself.
func TestNoHostPathIsReadable(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		top := t.TempDir()
		project, state, bin := top+"/hostproject", top+"/hoststate", top+"/hostbin"
		for _, dir := range []string{project + "/sub/deep", state + "/hosthome", state + "/hostlayers", bin} {
			check(t, os.MkdirAll(dir, 0o755))
		}
		check(t, os.WriteFile(project+"/file", []byte("text\n"), 0o644))
		check(t, os.WriteFile(project+"/.git", []byte("gitdir: "+project+"\n"), 0o644))
		copyOfSelf(t, bin)
		socket, err := net.Listen("unix", top+"/hostsocket")
		check(t, err)
		defer socket.Close()
		abstract, err := net.Listen("unix", fmt.Sprintf("@hostabstract%d", os.Getpid()))
		check(t, err)
		defer abstract.Close()
		self, err := os.Executable()
		check(t, err)
		texts := []string{"hostproject", "hoststate", "hosthome", "hostlayers", "hostbin", "hostsocket", "hostabstract", top, filepath.Dir(self)}
		over := changes.Directory{Host: sandbox.Host(project), Target: "/"}
		kept := func(t *testing.T, p *jail.Policy, k *changes.Overlays, err error) {
			check(t, err)
			t.Cleanup(func() { k.Close() })
			f, err := k.OpenDirectory(over)
			check(t, err)
			b, err := sandbox.DirAt(f, sandbox.Traits{Host: over.Host, Through: k.Path(over)})
			check(t, err)
			s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
			check(t, err)
			p.Mounts, err = jail.MountsOf(s)
			check(t, err)
			p.Overlays = k
		}
		kinds := map[string]func(*testing.T, *jail.Policy){
			"ro": func(t *testing.T, p *jail.Policy) {
				p.Mounts = []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work}}
			},
			"rw": func(t *testing.T, p *jail.Policy) {
				p.Mounts = []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work, Write: true},
					{Source: sandbox.Host(project + "/sub/deep"), Target: jail.Work + "/sub/deep"}}
			},
			"rw in a transaction": func(t *testing.T, p *jail.Policy) {
				p.Mounts, p.Recorder = []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work, Write: true}}, changes.Recorder{Dir: sandbox.Host(state + "/hostlayers")}
			},
			"overlay": func(t *testing.T, p *jail.Policy) {
				k, err := changes.Open(sandbox.Host(t.TempDir()+"/hoststate"), []changes.Directory{over}, p.Network)
				kept(t, p, k, err)
			},
			"copy": func(t *testing.T, p *jail.Policy) {
				k, _, err := changes.OpenCopies(sandbox.Host(t.TempDir()+"/hoststate"), []changes.Directory{over}, changes.CopyOptions{})
				kept(t, p, k, err)
			},
		}
		// A search takes a second, so root tries one half of the pairs and a user the other.
		for i, name := range slices.Sorted(maps.Keys(kinds)) {
			set, network := kinds[name], (i%2 == 0) == m.user
			t.Run(fmt.Sprintf("%s, network %t", name, network), func(t *testing.T) {
				p := jail.Policy{Least: jail.Namespaces, Network: network, Home: sandbox.Host(state + "/hosthome"), Terminals: true,
					Replaced: []jail.File{{Name: jail.Work + "/.git", Data: []byte("gitdir: " + jail.Git + "\n")}}}
				set(t, &p)
				p.Mounts = append(p.Mounts, jail.Mount{Source: sandbox.Host(bin), Target: "/probe"})
				s, err := jail.Start(p, time.Now)
				check(t, err)
				defer s.Close()
				search(t, s, texts)
				if name == "rw" {
					searchBeside(t, s, texts)
				}
			})
		}
	})
}

// judgeSearch fails where a search has found something, or has read too little.
func judgeSearch(t *testing.T, what, out string, err error) {
	t.Helper()
	files := 0
	_, last, _ := strings.Cut(out, "read ")
	fmt.Sscan(last, &files)
	if err != nil || strings.Contains(out, "found ") || files < 300 {
		t.Errorf("%s: %v, %d files\n%s", what, err, files, out)
	}
}

// search lets a command search.
func search(t *testing.T, s *jail.Jail, texts []string) {
	t.Helper()
	c := probeCommand("search")
	c.Input = []byte(strings.Join(texts, "\n"))
	r, err := changes.Finish(s.Run(context.Background(), c))
	judgeSearch(t, "a command", string(r.Stdout.Head)+string(r.Stderr.Head), err)
}

// searchBeside lets a command at a terminal search, and a service.
func searchBeside(t *testing.T, s *jail.Jail, texts []string) {
	t.Helper()
	c := probeCommand("search")
	term, err := s.Terminal()
	check(t, err)
	defer term.Close()
	in, give, err := os.Pipe()
	check(t, err)
	out, to, err := os.Pipe()
	check(t, err)
	go func() {
		io.WriteString(give, strings.Join(texts, "\n"))
		give.Close()
	}()
	said := make(chan string)
	go func() {
		data, _ := io.ReadAll(out)
		said <- string(data)
	}()
	_, err = changes.Finish(s.Attach(context.Background(), c, jail.Attached{Stdin: in, Stdout: to, Terminal: term}))
	in.Close()
	to.Close()
	judgeSearch(t, "a command at a terminal", <-said, err)

	// A service reads nothing from outside.
	line := jail.Shell(`printf '%s\n' "$TEXTS" | tr 'A-Za-z' 'N-ZA-Mn-za-m' | env -u TEXTS /probe/probe`)
	turned := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, strings.Join(texts, "\n"))
	line.Env = append(c.Env, "TEXTS="+turned)
	v, err := s.Serve(line)
	check(t, err)
	select {
	case <-v.Done():
	case <-time.After(time.Minute):
		v.Kill()
	}
	judgeSearch(t, "a service", string(v.Output(0, 1<<20).Text), nil)
}
