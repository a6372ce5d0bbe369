package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// npmCache is the folder in which packages of npm's registry stay from one run of the
// tests to the next.
func npmCache(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "golem-test-agents")
}

// fetch installs packages, as npm names them with their versions, into a folder with a
// name in the cache, if it is not there. A machine without a registry is the only reason
// to do without.
func fetch(t *testing.T, name string, packages []string, flags ...string) (dir string) {
	t.Helper()
	cache := npmCache(t)
	dir = filepath.Join(cache, name)
	if exists(dir) {
		return dir
	}
	npm := func(limit time.Duration, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "npm", args...)
		cmd.Dir = cache
		cmd.Env = append(os.Environ(), "npm_config_fetch_retries=1", "npm_config_update_notifier=false")
		return cmd.CombinedOutput()
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unknown := func(out []byte) bool {
		return strings.Contains(string(out), "E404") || strings.Contains(string(out), "ETARGET")
	}
	out, err := npm(20*time.Second, "view", packages[0], "version")
	if unknown(out) || err == nil && strings.TrimSpace(string(out)) == "" {
		t.Fatalf("npm's registry does not know %s:\n%s", packages[0], out)
	}
	if err != nil {
		t.Skipf("npm's registry cannot be reached (%v)", err)
	}
	fresh, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	args := slices.Concat([]string{"install", "--prefix", fresh, "--no-audit", "--no-fund"}, flags, packages)
	if out, err := npm(5*time.Minute, args...); err != nil {
		t.Fatalf("npm %q: %v\n%s", args, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !exists(dir) {
		t.Fatal(err)
	}
	return dir
}
