package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// npmCache is the directory in which packages of npm's registry stay from one run of the
// tests to the next.
func npmCache(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "golem-test-agents")
}

// How long npm may take to know a package, and to install it with all that it needs.
const knowing, installing = 20 * time.Second, 90 * time.Second

// noRegistry is set where npm could not get something: a registry that is slow or broken
// is not waited for twice.
var noRegistry atomic.Bool

// fetch installs packages, as npm names them with their versions, into a directory with a
// name in the cache, if it is not there. One of the programs that come with them, "" for
// none, must run: of what a package names as optional npm leaves out what it cannot get,
// and says nothing. A machine without a registry, or with one that does not do what it
// should, is the only reason to do without.
func fetch(t *testing.T, name, program string, packages []string, flags ...string) (dir string) {
	t.Helper()
	cache := npmCache(t)
	dir = filepath.Join(cache, name)
	if exists(dir) {
		return dir
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	without := func(why string, err error, out []byte) {
		t.Helper()
		noRegistry.Store(true)
		t.Skipf("%s (%v)\n%s", why, err, out)
	}
	if noRegistry.Load() {
		t.Skip("npm's registry could not be used before")
	}
	out, err := limited(t, knowing, nil, "npm", "view", packages[0], "version")
	if err == nil && strings.TrimSpace(string(out)) == "" || unknown(out, packages) {
		t.Fatalf("npm's registry does not know %s:\n%s", packages[0], out)
	}
	if err != nil {
		without("npm's registry cannot be reached", err, out)
	}
	fresh, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	args := slices.Concat([]string{"install", "--prefix", fresh, "--no-audit", "--no-fund"}, flags, packages)
	out, err = limited(t, installing, nil, "npm", args...)
	if unknown(out, packages) {
		t.Fatalf("npm's registry does not know one of %q:\n%s", packages, out)
	}
	if err == nil && program != "" {
		out, err = limited(t, installing, []string{"HOME=" + t.TempDir()}, filepath.Join(fresh, "node_modules", ".bin", program), "--version")
	}
	if err != nil {
		without("npm's registry has not given all of it", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !exists(dir) {
		t.Fatal(err)
	}
	return dir
}

// unknown reports whether npm says that there is no such package, or not in this version.
func unknown(out []byte, packages []string) bool {
	text := string(out)
	return (strings.Contains(text, "E404") || strings.Contains(text, "ETARGET")) &&
		slices.ContainsFunc(packages, func(p string) bool { return strings.Contains(text, p) })
}

// limited runs npm or what comes from it, and ends it with all that it has started when
// its time is over. npm itself gives up on a server that says nothing.
func limited(t *testing.T, limit time.Duration, env []string, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir, cmd.WaitDelay = npmCache(t), time.Second
	cmd.Env = append(os.Environ(), "npm_config_fetch_retries=1", "npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_timeout=15000", "npm_config_update_notifier=false")
	cmd.Env = append(cmd.Env, env...)
	return cmd.CombinedOutput()
}
