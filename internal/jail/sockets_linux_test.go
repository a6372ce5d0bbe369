package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// tryMeet listens at Unix sockets, connects to them and passes a descriptor along.
func tryMeet(names []string) {
	for _, name := range names {
		printResult("meet", meet(name))
	}
}

func meet(name string) error {
	at := &unix.SockaddrUnix{Name: name}
	server, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(server)
	if err := unix.Bind(server, at); err != nil {
		return err
	}
	if err := unix.Listen(server, 1); err != nil {
		return err
	}
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(client)
	if err := unix.Connect(client, at); err != nil {
		return err
	}
	if err := unix.Sendmsg(client, []byte("x"), unix.UnixRights(1), nil, 0); err != nil {
		return err
	}
	c, _, err := unix.Accept(server)
	if err != nil {
		return err
	}
	defer unix.Close(c)
	word, rights := make([]byte, 9), make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(c, word, rights, 0)
	if err == nil && n == 0 {
		return unix.EBADMSG
	}
	return err
}

// tryAsked connects to Unix sockets whose names it reads, a line each, until the input
// ends. It prints an empty line after each.
func tryAsked([]string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		tryNames([]string{in.Text()})
		fmt.Println()
	}
}

// tryServe listens at the sockets that it is given until it is stopped.
func tryServe(names []string) {
	for _, name := range names {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		}
		if err == nil {
			err = unix.Listen(fd, 9)
		}
		printResult("serve", err)
	}
	time.Sleep(time.Hour)
}

// unheard are the answers to connect if no socket is found. One that says more, such as
// EPROTOTYPE, has found one.
var unheard = []string{"ECONNREFUSED", "ENOENT", "EISCONN"}

// noSockets are the answers where commands have no Unix sockets. A pair of streams finds
// a socket, and cannot be connected to it.
var noSockets = []string{"EAFNOSUPPORT", "ESOCKTNOSUPPORT", "EISCONN", "EPROTOTYPE", "ECONNREFUSED", "ENOENT"}

// judge fails unless every line of an output ends in one of the wanted words.
func judge(t *testing.T, what, out string, want ...string) {
	t.Helper()
	if out == "" {
		t.Errorf("%s: no answers", what)
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) == 0 || !slices.Contains(want, words[len(words)-1]) {
			t.Errorf("%s: got %q, want one of %v", what, strings.TrimSpace(line), want)
		}
	}
}

// socketKinds are the policies under which commands have Unix sockets, by how they see
// the directory of a project.
func socketKinds(project string) map[string]func(*testing.T, *jail.Policy) {
	over := changes.Directory{Host: sandbox.Host(project), Target: "/"}
	kept := func(t *testing.T, p *jail.Policy, k *changes.Overlays, err error) {
		check(t, err)
		t.Cleanup(func() { k.Close() })
		p.Mounts, p.Overlays, p.Sole = keptMounts(t, k, over), k, true
	}
	return map[string]func(*testing.T, *jail.Policy){
		"read-only": func(t *testing.T, p *jail.Policy) {
			p.Mounts = []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work}}
		},
		"transaction": func(t *testing.T, p *jail.Policy) {
			p.Mounts, p.Recorder = []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work, Write: true}}, changes.Recorder{Dir: sandbox.Host(t.TempDir())}
		},
		"overlay": func(t *testing.T, p *jail.Policy) {
			k, err := changes.Open(sandbox.Host(t.TempDir()), []changes.Directory{over}, p.Network)
			kept(t, p, k, err)
		},
		"copy": func(t *testing.T, p *jail.Policy) {
			k, _, err := changes.OpenCopies(sandbox.Host(t.TempDir()), []changes.Directory{over}, changes.CopyOptions{})
			kept(t, p, k, err)
		},
	}
}

// keptMounts returns the mounts of commands over a directory that a session keeps.
func keptMounts(t *testing.T, k *changes.Overlays, over changes.Directory) []jail.Mount {
	t.Helper()
	f, err := k.OpenDirectory(over)
	check(t, err)
	b, err := sandbox.DirAt(f, sandbox.Traits{Host: over.Host, Through: k.Path(over)})
	check(t, err)
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
	check(t, err)
	mounts, err := jail.MountsOf(s)
	check(t, err)
	return mounts
}

// conversation talks to a command that answers every line.
type conversation struct {
	t    *testing.T
	in   *os.File
	out  *bufio.Reader
	done chan error
}

// converse starts a probe that reads lines.
func converse(t *testing.T, s *jail.Jail, c jail.Command) *conversation {
	t.Helper()
	theirs, in, err := os.Pipe()
	check(t, err)
	out, to, err := os.Pipe()
	check(t, err)
	v := &conversation{t, in, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		_, err := changes.Finish(s.Attach(context.Background(), c, jail.Attached{Stdin: theirs, Stdout: to, Stderr: to}))
		theirs.Close()
		to.Close()
		v.done <- err
	}()
	return v
}

// ask returns what the command prints up to an empty line.
func (v *conversation) ask(line string) string {
	v.t.Helper()
	_, err := io.WriteString(v.in, line+"\n")
	check(v.t, err)
	var out strings.Builder
	for {
		said, err := v.out.ReadString('\n')
		if said == "\n" {
			return out.String()
		}
		if out.WriteString(said); err != nil {
			v.t.Fatalf("it ended: %v\n%s", err, out.String())
		}
	}
}

func (v *conversation) end() {
	v.t.Helper()
	v.in.Close()
	check(v.t, <-v.done)
}

// TestUnixSocketOfTheHost checks that commands have their own Unix sockets and reach none
// of the host, whenever and however a socket came to a directory that they see.
func TestUnixSocketOfTheHost(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		bin := t.TempDir()
		copyOfSelf(t, bin)
		home := t.TempDir()
		for _, kind := range []string{"read-only", "transaction", "overlay", "copy"} {
			for _, network := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, network %t", kind, network), func(t *testing.T) {
					project, err := os.MkdirTemp(os.TempDir(), "p") // a socket's name is short
					check(t, err)
					defer os.RemoveAll(project)
					e := newListeners(t)
					listen := func(dir, name string) {
						for _, n := range []string{"unix", "unixpacket", "unixgram"} {
							e.listen(t, n, dir+"/"+name+n)
							check(t, os.Chmod(dir+"/"+name+n, 0o777))
						}
					}
					listen(project, "before")
					p := jail.Policy{Least: jail.Namespaces, Network: network, Home: sandbox.Host(home)}
					socketKinds(project)[kind](t, &p)
					p.Mounts = append(p.Mounts, jail.Mount{Source: sandbox.Host(bin), Target: "/probe"})
					s, err := jail.Start(p, time.Now)
					check(t, err)
					defer s.Close()
					v := converse(t, s, probeCommand("asked"))
					try := func(names ...string) {
						t.Helper()
						for _, name := range names {
							judge(t, name, v.ask(name), unheard...)
						}
					}
					three := func(name string) []string {
						return []string{name + "unix", name + "unixpacket", name + "unixgram"}
					}
					try(three(jail.Work + "/before")...)
					listen(project, "after")
					check(t, os.Rename(project+"/beforeunix", project+"/renamed"))
					check(t, os.Link(project+"/afterunix", project+"/linked"))
					check(t, os.Symlink("afterunixgram", project+"/led"))
					check(t, os.Mkdir(project+"/sub", 0o755))
					listen(project+"/sub", "in")
					try(three(jail.Work + "/after")...)
					try(three(jail.Work + "/sub/in")...)
					try(jail.Work+"/renamed", jail.Work+"/linked", jail.Work+"/led", "/proc/self/root"+jail.Work+"/afterunix", "/proc/self/cwd/afterunix", "/proc/1/root"+project+"/afterunix", project+"/afterunix")
					e.listen(t, "unix", "@"+project)
					e.listen(t, "unixgram", "@"+project+"gram")
					try("@"+project, "@"+project+"gram")
					if !m.user {
						for _, dir := range []string{"/usr/local/lib", "/usr/lib", "/etc/ssl/certs", "/etc/alternatives"} {
							name := fmt.Sprintf("%s/golem-test-%d", dir, os.Getpid())
							for _, n := range three(name) {
								defer os.Remove(n)
							}
							listen(dir, name[len(dir)+1:])
							try(three(name)...)
						}
					}
					v.end()
					r, err := changes.Finish(s.Run(context.Background(), probeCommand("names", append(three(jail.Work+"/after"), jail.Work+"/renamed", jail.Work+"/linked")...)))
					check(t, err)
					judge(t, "the next command", string(r.Stdout.Head), unheard...)
					e.checkHeard(t, "")
					own := []string{"/tmp/own", "/dev/shm/own", jail.Home + "/own", "/run/own", "@own"}
					if kind != "read-only" {
						own = append(own, jail.Work+"/own")
					}
					r, err = changes.Finish(s.Run(context.Background(), probeCommand("meet", own...)))
					check(t, err)
					if r.NoSockets != "" {
						t.Errorf("no sockets: %s", r.NoSockets)
					}
					judge(t, "own sockets", string(r.Stdout.Head), "done")
					if r.Changed != nil {
						check(t, r.Changed.Discard())
					}
					os.Remove(home + "/own")
				})
			}
		}
	})
}

// TestUnixSocketExposedDirectory checks that a command has no Unix sockets if it could
// reach a socket of the host by its inode, and that the result says why.
func TestUnixSocketExposedDirectory(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		bin := t.TempDir()
		copyOfSelf(t, bin)
		project, err := os.MkdirTemp(os.TempDir(), "p") // a socket's name is short
		check(t, err)
		defer os.RemoveAll(project)
		e := newListeners(t)
		for _, n := range []string{"unix", "unixpacket", "unixgram"} {
			e.listen(t, n, project+"/"+n)
		}
		run := func(t *testing.T, s *jail.Jail, dir, why string) {
			t.Helper()
			c := probeCommand("names", dir+"/unix", dir+"/unixpacket", dir+"/unixgram")
			if m.refused {
				c.Path = bin + "/probe"
			}
			r, err := s.Run(context.Background(), c)
			check(t, err)
			if !strings.Contains(r.NoSockets, why) || r.NoSockets == "" {
				t.Errorf("no sockets: %q, want …%s…", r.NoSockets, why)
			}
			judge(t, why, string(r.Stdout.Head)+string(r.Stderr.Head), noSockets...)
		}
		tools := jail.Mount{Source: sandbox.Host(bin), Target: "/probe"}
		direct := jail.Policy{Mounts: []jail.Mount{tools, {Source: sandbox.Host(project), Target: jail.Work, Write: true}}}
		s, err := jail.Start(direct, time.Now)
		check(t, err)
		defer s.Close()
		if m.refused {
			run(t, s, project, "landlock")
			e.checkHeard(t, "")
			return
		}
		run(t, s, jail.Work, jail.Work+" is your own directory")
		if m.user {
			e.checkHeard(t, "")
			return
		}
		// A file system that is mounted in a directory keeps golem from an overlay of it.
		p := jail.Policy{Mounts: []jail.Mount{tools, {Source: sandbox.Host(project), Target: "/in"}}, Least: jail.Namespaces}
		check(t, os.Mkdir(project+"/sub", 0o755))
		again, err := jail.Start(p, time.Now)
		check(t, err)
		defer again.Close()
		r, err := again.Run(context.Background(), probeCommand("meet", "/tmp/own"))
		check(t, err)
		judge(t, "before the mount", string(r.Stdout.Head), "done")
		check(t, unix.Mount("golem", project+"/sub", "tmpfs", 0, ""))
		defer unix.Unmount(project+"/sub", unix.MNT_DETACH)
		late, err := jail.Start(p, time.Now)
		check(t, err)
		defer late.Close()
		run(t, late, "/in", "/in cannot be shown through an overlay")
		e.checkHeard(t, "")
	})
}

// TestUnixSocketOfAnotherWorker checks that commands of different workers of a session
// share no socket through which one could hand open files to the other.
func TestUnixSocketOfAnotherWorker(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		bin := t.TempDir()
		copyOfSelf(t, bin)
		tools := jail.Mount{Source: sandbox.Host(bin), Target: "/probe"}
		for _, sole := range []bool{false, true} {
			t.Run(fmt.Sprintf("sole %t", sole), func(t *testing.T) {
				over := changes.Directory{Host: sandbox.Host(t.TempDir()), Target: "/"}
				k, err := changes.Open(sandbox.Host(t.TempDir()), []changes.Directory{over}, false)
				check(t, err)
				defer k.Close()
				mounts := append(keptMounts(t, k, over), tools)
				start := func(owner string) *jail.Jail {
					s, err := jail.Start(jail.Policy{Mounts: mounts, Overlays: k, Sole: sole, Loopback: owner, Home: sandbox.Host(t.TempDir()), Least: jail.Namespaces}, time.Now)
					check(t, err)
					t.Cleanup(func() { s.Close() })
					return s
				}
				names := []string{jail.Work + "/s", jail.Home + "/s", "/tmp/s", "/dev/shm/s", "/run/s", "@s"}
				first, second := start("first"), start("second")
				service, err := first.Serve(probeCommand("serve", names...))
				check(t, err)
				defer service.Stop()
				waitFor(t, "the sockets are there", func() bool { return strings.Count(string(service.Output(0, 999).Text), "\n") == len(names) })
				want := "serve EACCES\n" // in a directory that both workers write
				if sole {
					want = "serve done\n"
				}
				if got := string(service.Output(0, 999).Text); got != want+strings.Repeat("serve done\n", 5) {
					t.Errorf("the first worker: %q", got)
				}
				r, err := second.Run(context.Background(), probeCommand("names", names...))
				check(t, err)
				refused := unheard
				if sole {
					refused = noSockets
				}
				judge(t, "the second worker", string(r.Stdout.Head), refused...)
				// Commands of one worker reach its own service in a directory that they
				// share.
				if sole {
					r, err = first.Run(context.Background(), probeCommand("names", jail.Work+"/s"))
					check(t, err)
					if !strings.Contains(string(r.Stdout.Head), "socket done") {
						t.Errorf("the first worker does not reach its own service: %s", r.Stdout.Head)
					}
				}
			})
		}
	})
}

// TestUnixSocketNextSteps tries what an exploit of a browser would do next: connect to
// the buses, displays, agents and daemons of the machine.
func TestUnixSocketNextSteps(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		bin := t.TempDir()
		copyOfSelf(t, bin)
		uid := os.Getuid()
		names := []string{"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket", fmt.Sprintf("/run/user/%d/bus", uid), fmt.Sprintf("/run/user/%d/wayland-0", uid),
			fmt.Sprintf("/run/user/%d/gnupg/S.gpg-agent", uid), fmt.Sprintf("/run/user/%d/podman/podman.sock", uid), fmt.Sprintf("/run/user/%d/systemd/private", uid), "/run/docker.sock", "/var/run/docker.sock",
			"/run/containerd/containerd.sock", "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket", "/dev/log", "/run/snapd.socket", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0", "@/tmp/dbus-x"}
		e := newListeners(t)
		dirs := []string{"/tmp"}
		if !m.user {
			dirs = append(dirs, "/run", "/dev", "/var/tmp")
		}
		for _, dir := range dirs {
			name := fmt.Sprintf("%s/golem-test-%d.sock", dir, os.Getpid())
			e.listen(t, "unix", name)
			defer os.Remove(name)
			names = append(names, name)
		}
		display := fmt.Sprintf("@/tmp/.X11-unix/X%d", os.Getpid())
		e.listen(t, "unix", display)
		names = append(names, display)
		c, err := net.Dial("unix", display) // the attack can succeed outside
		check(t, err)
		c.Write([]byte("out"))
		c.Close()
		for _, network := range []bool{false, true} {
			s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(bin), Target: "/probe"}}, Network: network, Least: jail.Namespaces}, time.Now)
			check(t, err)
			r, err := s.Run(context.Background(), probeCommand("names", names...))
			check(t, err)
			judge(t, "names", string(r.Stdout.Head), unheard...)
			r, err = s.Run(context.Background(), jail.Shell(`wc -l < /proc/net/unix; env | grep -E 'DISPLAY|SSH_|DBUS|XDG_RUNTIME|GPG_|DOCKER'; true`))
			check(t, err)
			if got := string(r.Stdout.Head); got != "1\n" {
				t.Errorf("sockets of the host are listed, or named by variables: %q", got)
			}
			s.Close()
		}
		e.checkHeard(t, "unix out ")
	})
}
