package jail_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
)

// TestEtcShows checks that commands see in /etc only the allowlist and the names that
// jail.etc adds, and of both only what everybody may read.
func TestEtcShows(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		run := func(line string, etc ...string) string {
			t.Helper()
			s, err := jail.Start(jail.Policy{Etc: etc}, time.Now)
			check(t, err)
			defer s.Close()
			r, err := s.Run(context.Background(), jail.Shell(line))
			check(t, err)
			if r.Level != m.level() {
				t.Fatalf("level %v", r.Level)
			}
			return string(r.Stdout.Head)
		}
		// These hold tokens, or say who uses the machine, on some machine or other.
		secret := "apt environment fstab gitconfig gitconfig.d krb5.conf krb5.keytab machine-id npmrc netrc pip.conf profile profile.d bash.bashrc shadow shadow- gshadow skel ssh ssl/private subuid sudoers sudoers.d systemd wgetrc xdg/pip zsh docker kubernetes php maven/settings.xml mysql redis postgresql odbc.ini chromium/policies default hosts.allow aliases crontab"
		if got := run(`for f in ` + secret + `; do { cat /etc/$f || ls -A /etc/$f/; } 2>/dev/null; done; true`); got != "" {
			t.Errorf("seen: %q", got)
		}
		listed := ""
		for _, name := range []string{"ld.so.cache", "services", "protocols", "os-release"} { // a bare system lacks some
			if _, err := os.Stat("/etc/" + name); err == nil {
				listed += name + "\n"
			}
		}
		if got := run(`for f in ld.so.cache services protocols os-release; do cat /etc/$f > /dev/null && echo $f; done; ls /etc/alternatives | wc -l`); listed == "" || !strings.HasPrefix(got, listed) || strings.HasSuffix(got, "\n0\n") {
			t.Errorf("not seen: %q, want %q and alternatives", got, listed)
		}
		if m.user {
			return // only root can put something in /etc
		}
		top := fmt.Sprintf("golem-test-%d", os.Getpid())
		python := fmt.Sprintf("/etc/python3.99-%d/", os.Getpid())
		for _, dir := range []string{"/etc/", "/etc/fonts/", "/etc/chromium.d/", python} {
			if made := os.Mkdir(strings.TrimSuffix(dir, "/"), 0o755); made == nil {
				defer os.Remove(dir)
			}
			at := dir + top
			check(t, os.MkdirAll(at+"/deep/closed", 0o755))
			defer os.RemoveAll(at)
			for name, mode := range map[string]os.FileMode{"/open": 0o644, "/own": 0o600, "/group": 0o640, "/deep/open": 0o604, "/deep/own": 0o400, "/deep/closed/open": 0o644} {
				check(t, os.WriteFile(at+name, []byte(name+"\n"), mode))
				check(t, os.Chmod(at+name, mode))
			}
			check(t, os.Chmod(at+"/deep/closed", 0o750))
			check(t, os.Symlink("own", at+"/led"))
			check(t, os.Symlink(top+"/own", at+".led"))
			defer os.Remove(at + ".led")
			check(t, unix.Mkfifo(at+"/pipe", 0o666))
		}
		const look = `for d in %[1]s; do cd $d 2>/dev/null || { echo none; continue; }; timeout 5 cat open own group deep/open deep/own deep/closed/open led ../%[2]s.led ../%[2]s/own 2>/dev/null; done; true`
		want := "/open\n/deep/open\n"
		if got := run(fmt.Sprintf(look, "/etc/fonts/"+top+" /etc/chromium.d/"+top+" "+python+top, top)); got != strings.Repeat(want, 3) {
			t.Errorf("in directories of the list: %q", got)
		}
		if got := run(fmt.Sprintf(look, "/etc/"+top, top)); got != "none\n" && !(m.refused && got == "") {
			t.Errorf("without jail.etc: %q", got)
		}
		if got := run(fmt.Sprintf(look, "/etc/"+top, top), top); got != want {
			t.Errorf("with jail.etc: %q", got)
		}
		// Names of what not everybody may read, or reach, by themselves.
		var names []string
		for _, name := range []string{"own", "group", "deep/own", "deep/closed", "deep/closed/open", "led", "pipe", "missing"} {
			names = append(names, top+"/"+name)
		}
		// A symlink into a home that everybody may read.
		home, err := os.MkdirTemp("/", "golem-test-home-")
		check(t, err)
		defer os.RemoveAll(home)
		check(t, os.Chmod(home, 0o755))
		check(t, os.WriteFile(home+"/settings", []byte("of the user\n"), 0o644))
		for name, to := range map[string]string{"home-file": home + "/settings", "home-dir": home} {
			check(t, os.Symlink(to, "/etc/"+top+"."+name))
			defer os.Remove("/etc/" + top + "." + name)
		}
		if got := run("cat /etc/"+top+".home-file /etc/"+top+".home-dir/settings 2>/dev/null; true", top+".home-file", top+".home-dir"); got != "" {
			t.Errorf("a symlink into a home: got %q", got)
		}
		names = append(names, top+".led", "shadow")
		line := "for f in " + strings.Join(names, " ") + "; do timeout 5 cat /etc/$f; ls -A /etc/$f/; done 2>/dev/null; true"
		if got := run(line, names...); got != "" {
			t.Errorf("a file that not everybody may read: got %q", got)
		}
	})
}

// TestEtcNames checks that golem refuses names that are not in /etc or that it writes
// itself.
func TestEtcNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "/etc/php", "../root", "a/../b", "a//b", "a/", "./a", "*", "p*", "a\nb", "passwd", "group", "hosts", "resolv.conf", "nsswitch.conf"} {
		if jail.CheckEtc(name) == nil {
			t.Errorf("%q is accepted", name)
		}
		if s, err := jail.Start(jail.Policy{Etc: []string{name}}, time.Now); err == nil {
			s.Close()
			t.Errorf("%q starts a session", name)
		}
	}
	for _, name := range []string{"php", "maven/settings.xml", "shadow", "a b", ".hidden"} {
		if err := jail.CheckEtc(name); err != nil {
			t.Error(err)
		}
	}
}
