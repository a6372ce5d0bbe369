package jail

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// Losses is for the tests outside of this package.
var Losses = losses

// ableAttempts returns the attempts of a machine that can do everything.
func ableAttempts() map[string]attempt {
	tried := map[string]attempt{}
	for _, name := range append(append(forNamespaces(), forLandlock()...), tryUpper) {
		tried[name] = attempt{Worked: true}
	}
	tried[tryLandlock], tried[tryOutlet] = attempt{Worked: true, Number: 7}, attempt{Worked: true}
	return tried
}

func linuxFacts() facts {
	return facts{System: "linux", Kernel: "6.18.0", StateFS: "ext4", Held: []Held{{TimeLimit, true, ""}, {FileSizeLimit, false, ""}}}
}

func find(t *testing.T, list []Finding, name string) Finding {
	t.Helper()
	at := slices.IndexFunc(list, func(f Finding) bool { return f.Name == name })
	if at < 0 {
		t.Fatalf("%s is not in %+v", name, list)
	}
	return list[at]
}

// withoutProc sets the facts and attempts of a machine without /proc, where golem cannot
// start itself.
func withoutProc(f *facts, tried map[string]attempt) {
	f.NoProc = true
	for name := range tried {
		tried[name] = attempt{Errno: "ENOENT", Text: "fork/exec: no such file or directory"}
	}
}

// TestDiagnose checks the finding, the cause and the fix for machines that lack something.
func TestDiagnose(t *testing.T) {
	refused := attempt{Errno: "EPERM", Text: "operation not permitted"}
	for name, test := range map[string]struct {
		change func(*facts, map[string]attempt)
		row    string
		holds  Holds
		why    string // a part of it
		fix    string // a part of it; "" if there must be none
		best   Level
	}{
		"all is well": {func(*facts, map[string]attempt) {}, "namespaces", Yes, "user, mount, pid, ipc, uts, net", "", Namespaces},
		"nothing was tried": {func(_ *facts, tried map[string]attempt) { clear(tried) },
			"namespaces", No, "a user namespace", "", None},
		"AppArmor lets the namespace be and takes its use": {func(f *facts, tried map[string]attempt) { f.AppArmor, tried[tryMount] = true, refused },
			"namespaces", No, "kernel.apparmor_restrict_unprivileged_userns is 1", "golem doctor --apparmor | sudo tee /etc/apparmor.d/golem\nsudo apparmor_parser -r", Landlock},
		"AppArmor refuses the namespace": {func(f *facts, tried map[string]attempt) {
			f.AppArmor, tried[tryUser] = true, attempt{Errno: "EACCES", Text: "permission denied"}
		}, "namespaces", No, "AppArmor", "--apparmor", Landlock},
		"AppArmor does not bind root": {func(f *facts, tried map[string]attempt) { f.AppArmor, f.Root, tried[tryMount] = true, true, refused },
			"namespaces", No, "does not say why", "", Landlock},
		"Debian's switch": {func(f *facts, tried map[string]attempt) { f.CloneOff, tried[tryUser] = true, refused },
			"namespaces", No, "kernel.unprivileged_userns_clone is 0", "kernel.unprivileged_userns_clone=1", Landlock},
		"Debian's switch does not bind root": {func(f *facts, tried map[string]attempt) {
			f.CloneOff, f.Root, f.Filtered, tried[tryUser] = true, true, true, refused
		}, "namespaces", No, "seccomp", "seccomp=unconfined", Landlock},
		"none allowed": {func(f *facts, tried map[string]attempt) {
			f.NoneAllowed, tried[tryUser] = true, attempt{Errno: "ENOSPC", Text: "no space left on device"}
		}, "namespaces", No, "user.max_user_namespaces is 0", "user.max_user_namespaces=15000", Landlock},
		"all in use": {func(_ *facts, tried map[string]attempt) {
			tried[tryUser] = attempt{Errno: "ENOSPC", Text: "no space left on device"}
		}, "namespaces", No, "in use", "user.max_user_namespaces=", Landlock},
		"Docker": {func(f *facts, tried map[string]attempt) { f.Filtered, f.AppArmor, tried[tryUser] = true, true, refused },
			"namespaces", No, "seccomp filter around golem", "--security-opt seccomp=unconfined", Landlock},
		"a covered /proc": {func(_ *facts, tried map[string]attempt) { tried[tryProc] = refused },
			"namespaces", No, "parts covered", "systempaths=unconfined", Landlock},
		"a kernel without": {func(_ *facts, tried map[string]attempt) {
			tried[tryUser] = attempt{Errno: "EINVAL", Text: "invalid argument"}
		},
			"namespaces", No, "built without", "CONFIG_USER_NS", Landlock},
		"an old kernel": {func(f *facts, tried map[string]attempt) { f.Kernel, tried[tryOverlay] = "5.4.0-99-generic", refused },
			"namespaces", No, "since 5.11", "newer kernel", Landlock},
		"the parts work and the whole does not": {func(_ *facts, tried map[string]attempt) { tried[tryWhole] = attempt{Text: "exit code 9"} },
			"namespaces", No, "no command in the jail: exit code 9", "", Landlock},
		"nothing at all": {func(f *facts, tried map[string]attempt) {
			f.Filtered, tried[tryUser], tried[tryLandlock] = true, refused, attempt{Errno: "ENOSYS"}
		}, "landlock", No, "built without", "CONFIG_SECURITY_LANDLOCK", None},
		"Landlock switched off": {func(_ *facts, tried map[string]attempt) { tried[tryLandlock] = attempt{Errno: "EOPNOTSUPP"} },
			"landlock", No, "switched off", "lsm=", Namespaces},
		"Landlock before its time": {func(f *facts, tried map[string]attempt) {
			f.Kernel, tried[tryLandlock] = "5.12.1", attempt{Errno: "ENOSYS"}
		}, "landlock", No, "came with 5.13", "newer kernel", Namespaces},
		"Landlock alone is not enough": {func(_ *facts, tried map[string]attempt) {
			tried[tryUser], tried[tryBare] = attempt{}, attempt{Text: "version 3 is needed"}
		}, "landlock", Part, "version 3 is needed", "", None},
		"Landlock without signals": {func(_ *facts, tried map[string]attempt) { tried[tryLandlock] = attempt{Worked: true, Number: 3} },
			"landlock", Part, "ABI 3", "newer kernel", Namespaces},
		"state on overlayfs": {func(f *facts, tried map[string]attempt) {
			f.StateFS, tried[tryUpper] = "overlayfs", attempt{Errno: "EINVAL", Text: "overlay: invalid argument"}
		}, "overlay", Part, "on overlayfs: overlay: invalid argument; that file system cannot hold one", "GOLEM_STATE", Namespaces},
		"state on NFS": {func(f *facts, tried map[string]attempt) { f.StateFS, tried[tryUpper] = "nfs", attempt{Errno: "EINVAL"} },
			"overlay", Part, "on nfs", "--state DIR", Namespaces},
		"no filter": {func(_ *facts, tried map[string]attempt) { tried[trySeccomp] = attempt{Errno: "EINVAL"} },
			"seccomp", No, "system calls", "CONFIG_SECCOMP_FILTER", None},
		"no control group": {func(f *facts, _ map[string]attempt) {
			f.Systemd, f.Held = true, append(f.Held, Held{MemoryLimit, false, "rlimit for each process"})
		}, "limits", Part, "memory by rlimit for each process", "systemd-run --user --scope", Namespaces},
		"no control group, as root": {func(f *facts, _ map[string]attempt) {
			f.Systemd, f.Root, f.Held = true, true, append(f.Held, Held{MemoryLimit, false, "rlimit"})
		}, "limits", Part, "memory by rlimit", "systemd-run --scope", Namespaces},
		"no control group, and no systemd": {func(f *facts, _ map[string]attempt) {
			f.Held = append(f.Held, Held{MemoryLimit, false, "rlimit"})
		}, "limits", Part, "memory by rlimit", "start it where your user may write its cgroup", Namespaces},
		"golem may be run and not read": {func(f *facts, tried map[string]attempt) {
			f.Unreadable, tried[tryIDs] = "/opt/it's golem", attempt{Errno: "EACCES", Text: "fork/exec: permission denied"}
		}, "namespaces", No, "no mapping of your user id (an id map): fork/exec: permission denied; golem may run its own program file but not read it",
			`sudo chmod a+r '/opt/it'\''s golem'`, Landlock},
		"a namespace that allows no other": {func(f *facts, tried map[string]attempt) {
			f.Nested, tried[tryUser] = true, attempt{Errno: "ENOSPC", Text: "no space left on device"}
		}, "namespaces", No, "in a user namespace already", "outside of it", Landlock},
		"Landlock hidden by a filter": {func(f *facts, tried map[string]attempt) {
			f.Filtered, tried[tryLandlock] = true, attempt{Errno: "ENOSYS"}
		}, "landlock", No, "a seccomp filter around golem hides it", "seccomp=unconfined", Namespaces},
		"no /proc":              {withoutProc, "namespaces", No, "(a user namespace): there is no /proc where golem runs", "mount -t proc proc /proc", None},
		"no /proc, of Landlock": {withoutProc, "landlock", No, "there is no /proc where golem runs", "", None},
		"state where nothing can be made": {func(f *facts, tried map[string]attempt) {
			f.NoFolder, tried[tryUpper] = true, attempt{Errno: "EROFS", Text: "mkdir: read-only file system"}
		}, "overlay", Part, "mkdir: read-only file system", "name a state directory that you can write", Namespaces},
		"a GPU": {func(f *facts, _ map[string]attempt) {
			f.GPU, f.Held = []string{"nvidia0", "nvidiactl"}, append(f.Held, Held{MemoryLimit, true, ""})
		}, "gpu", Yes, "shows a command /dev/nvidia0, /dev/nvidiactl, which lead to the driver in your kernel", "", Namespaces},
		"a GPU that is not ready": {func(f *facts, _ map[string]attempt) {
			f.GPU, f.NoGPU, f.Held = []string{"nvidia0"}, [2]string{"no nvidiactl", "make it"}, append(f.Held, Held{MemoryLimit, true, ""})
		}, "gpu", No, "no nvidiactl", "make it", Namespaces},
		"a GPU without a control group": {func(f *facts, _ map[string]attempt) {
			f.GPU, f.Held = []string{"nvidia0"}, append(f.Held, Held{MemoryLimit, false, "rlimit"})
		}, "gpu", No, "needs a control group", "", Namespaces},
		"a GPU at the level landlock": {func(f *facts, tried map[string]attempt) {
			f.GPU, f.Held, tried[tryMount] = []string{"nvidia0"}, append(f.Held, Held{MemoryLimit, true, ""}), refused
		}, "gpu", No, "needs the level namespaces", "", Landlock},
		"a list of hosts": {func(*facts, map[string]attempt) {}, "network", Yes, "off, on, or a list of hosts", "", Namespaces},
		"no nftables": {func(_ *facts, tried map[string]attempt) {
			tried[tryOutlet] = attempt{Worked: true, Text: "nftables: not supported"}
		},
			"network", Part, "only connections to the ports of the list, because nftables is missing (nftables: not supported)", "modprobe nft_chain_nat", Namespaces},
		"no network that leads to golem": {func(_ *facts, tried map[string]attempt) { tried[tryOutlet] = refused },
			"network", Part, "off, on; no list of hosts: operation not permitted", "", Namespaces},
		"a list of hosts at the level landlock": {func(_ *facts, tried map[string]attempt) { tried[tryMount] = refused },
			"network", Part, "off, on, or a list of hosts, by refusing sockets", "", Landlock},
		"no list of hosts at the level landlock": {func(f *facts, tried map[string]attempt) {
			f.NoHosts, tried[tryMount] = "seccomp: device or resource busy", refused
		},
			"network", Part, "on; no list of hosts: seccomp: device or resource busy", "", Landlock},
		"no network namespace": {func(_ *facts, tried map[string]attempt) { tried[tryNet] = refused },
			"network", Part, "refusing sockets", "", Landlock},
		"no Unix sockets at the level landlock": {func(_ *facts, tried map[string]attempt) { tried[tryNet] = refused },
			"sockets", No, "at the level landlock", "", Landlock},
		"no Unix sockets without an overlay": {func(f *facts, _ map[string]attempt) { f.NoSockets = "/usr cannot be shown" },
			"sockets", No, "/usr cannot be shown", "", Namespaces},
	} {
		t.Run(name, func(t *testing.T) {
			f, tried := linuxFacts(), ableAttempts()
			test.change(&f, tried)
			r := diagnose(f, tried)
			got := find(t, r.Found, test.row)
			if got.Holds != test.holds || !strings.Contains(got.Why, test.why) {
				t.Errorf("got %s, %q; want %s, …%s…", got.Holds, got.Why, test.holds, test.why)
			}
			if !strings.Contains(got.Fix, test.fix) || test.fix == "" && got.Fix != "" {
				t.Errorf("fix: got %q, want …%s…", got.Fix, test.fix)
			}
			if r.Best != test.best {
				t.Errorf("level: got %s, want %s", r.Best, test.best)
			}
		})
	}
}

// TestDiagnoseNeeds checks that the report names each missing part of a level, with a
// cause.
func TestDiagnoseNeeds(t *testing.T) {
	for _, name := range forNamespaces() {
		tried := ableAttempts()
		tried[name] = attempt{Text: "no"}
		r := diagnose(linuxFacts(), tried)
		if r.Best == Namespaces || find(t, r.Found, "namespaces").Holds != No || find(t, r.Found, "namespaces").Why == "" {
			t.Errorf("without %s: got %s, %+v", name, r.Best, r.Found[0])
		}
	}
	for _, name := range forLandlock() {
		tried := ableAttempts()
		tried[tryUser], tried[name] = attempt{}, attempt{Text: "no"}
		if r := diagnose(linuxFacts(), tried); r.Best != None {
			t.Errorf("without namespaces and %s: got %s", name, r.Best)
		}
	}
}

// TestPromises checks that a lower level promises nothing more than a higher one.
func TestPromises(t *testing.T) {
	limits := Finding{Holds: Yes}
	full, less, none := promises(Namespaces, limits, limits), promises(Landlock, limits, Finding{}), promises(None, limits, Finding{})
	for i := range full {
		if full[i].Name != less[i].Name || less[i].Holds > full[i].Holds || none[i].Holds != No {
			t.Errorf("%s: namespaces %s, landlock %s, none %s", full[i].Name, full[i].Holds, less[i].Holds, none[i].Holds)
		}
	}
	if slices.Equal(full, less) {
		t.Error("the level landlock promises as much as namespaces")
	}
}

// TestOtherSystems checks the report for systems other than Linux.
func TestOtherSystems(t *testing.T) {
	for _, system := range []string{"darwin", "windows", "freebsd"} {
		r := diagnose(facts{System: system}, ableAttempts())
		if f := r.Found[0]; r.Best != None || f.Holds != No || f.Why == "" || f.Fix == "" {
			t.Errorf("%s: got %s, %+v", system, r.Best, f)
		}
		for _, p := range r.Promises {
			if p.Holds != No {
				t.Errorf("%s promises %s", system, p.Name)
			}
		}
	}
}

// TestCompareKernels checks the comparison of kernel releases.
func TestCompareKernels(t *testing.T) {
	for release, want := range map[string]bool{"5.10.0-30-amd64": true, "4.19": true, "5.11.0": false, "6.1": false, "10.0": false, "": false, "odd": false} {
		if got := older(release, 5, 11); got != want {
			t.Errorf("%q: got %v, want %v", release, got, want)
		}
	}
}

// TestAppArmor checks that the profile quotes the name of the program.
func TestAppArmor(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/local/bin/golem":     `profile golem "/usr/local/bin/golem" flags=(unconfined) {`,
		"/home/a b/\"x\" {*}\\g\n": `profile golem "/home/a b/\"x\" \{\*\}\\g\012" flags=(unconfined) {`,
	} {
		got := AppArmor(sandbox.Host(program))
		if !strings.Contains(got, "\n"+want+"\n  userns,\n") {
			t.Errorf("%q: got\n%s\nwant in it\n%s", program, got, want)
		}
	}
}
