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

// npmCache returns the directory that keeps npm packages from one test run to the next.
func npmCache(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "golem-test-agents")
}

// The timeouts for npm to look up a package, and to install it with its dependencies.
const lookUpTimeout, installTimeout = 20 * time.Second, 90 * time.Second

// noRegistry is set after npm failed to get something. Then the tests do not wait again
// for a slow or broken registry.
var noRegistry atomic.Bool

// fetch installs npm packages with their versions into a directory of the cache, if that
// directory does not exist. It then runs one of their programs, if program is not "".
// This check is needed because npm silently skips optional packages that it cannot get.
// fetch skips the test only if there is no registry or the registry does not work.
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
	out, err := runLimited(t, lookUpTimeout, nil, "npm", "view", packages[0], "version")
	if err == nil && strings.TrimSpace(string(out)) == "" || isUnknown(out, packages) {
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
	out, err = runLimited(t, installTimeout, nil, "npm", args...)
	if isUnknown(out, packages) {
		t.Fatalf("npm's registry does not know one of %q:\n%s", packages, out)
	}
	if err == nil && program != "" {
		out, err = runLimited(t, installTimeout, []string{"HOME=" + t.TempDir()}, filepath.Join(fresh, "node_modules", ".bin", program), "--version")
	}
	if err != nil {
		without("npm's registry has not given all of it", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !exists(dir) {
		t.Fatal(err)
	}
	return dir
}

// isUnknown reports whether npm says that one of the packages or versions does not exist.
func isUnknown(out []byte, packages []string) bool {
	text := string(out)
	return (strings.Contains(text, "E404") || strings.Contains(text, "ETARGET")) &&
		slices.ContainsFunc(packages, func(p string) bool { return strings.Contains(text, p) })
}

// runLimited runs npm or an installed program, and kills it with its process group after a
// time limit. The settings make npm itself time out early if a server is silent.
func runLimited(t *testing.T, limit time.Duration, env []string, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir, cmd.WaitDelay = npmCache(t), 10*time.Second
	cmd.Env = append(os.Environ(), "npm_config_fetch_retries=1", "npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_timeout=15000", "npm_config_update_notifier=false")
	cmd.Env = append(cmd.Env, env...)
	return cmd.CombinedOutput()
}
