package testutil

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
)

// NPMCache returns the directory that keeps npm packages from one test run to the next.
func NPMCache(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "golem-test-agents")
}

// The timeouts for npm to look up a package, and to install it with its dependencies.
const lookUpTimeout, installTimeout = 20 * time.Second, 90 * time.Second

// NPM installs npm packages with their versions into a directory of the cache, if that
// directory does not exist. It then runs one of their programs, if program is not "".
// This check is needed because npm silently skips optional packages that it cannot get.
// NPM skips the test only if there is no registry or the registry does not work.
func NPM(t *testing.T, name, program string, packages []string, flags ...string) (dir string) {
	t.Helper()
	cache := NPMCache(t)
	dir = filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	failed := filepath.Join(cache, "registry-failed")
	without := func(why string, err error, out []byte) {
		t.Helper()
		if err := os.WriteFile(failed, nil, 0o644); err != nil {
			t.Error(err)
		}
		t.Skipf("%s (%v)\n%s", why, err, out)
	}
	// The tests do not wait again for a slow or broken registry.
	now, err := os.Stat(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if before, err := os.Stat(failed); err == nil && now.ModTime().Sub(before.ModTime()) < 10*time.Minute {
		t.Skip("npm's registry could not be used some minutes ago")
	}
	out, err := runLimited(t, lookUpTimeout, nil, "npm", "view", packages[0], "version")
	if err == nil && strings.TrimSpace(string(out)) == "" || isUnknown(out, packages) {
		t.Fatalf("npm's registry does not know %s:\n%s", packages[0], out)
	}
	if err != nil {
		without("npm's registry cannot be reached", err, out)
	}
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
	if err := durable.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
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
	cmd.Dir, cmd.WaitDelay = NPMCache(t), 10*time.Second
	cmd.Env = append(os.Environ(), "npm_config_fetch_retries=1", "npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_timeout=15000", "npm_config_update_notifier=false")
	cmd.Env = append(cmd.Env, env...)
	return cmd.CombinedOutput()
}

// nodeVersion is used if the machine has no Node that the packages can run with.
const nodeVersion = "22.23.3"

// nodeName returns the name of the package that contains Node itself.
func nodeName() string { return "node-linux-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1) }

// NodeModules installs the packages that files package.json name, and others, as NPM does. It
// returns their directory node_modules, and a PATH with their programs and a Node that runs them.
func NodeModules(t *testing.T, name string, flags, files []string, others ...string) (modules, path string) {
	t.Helper()
	packages := others
	for _, file := range files {
		packages = append(packages, dependencies(t, file)...)
	}
	if !modernNode(t) {
		packages = append(packages, nodeName()+"@"+nodeVersion)
	}
	name = fmt.Sprintf("%s-%.6x", name, sha256.Sum256([]byte(strings.Join(packages, " "))))
	modules = filepath.Join(NPM(t, name, "", packages, append([]string{"--ignore-scripts"}, flags...)...), "node_modules")
	return modules, strings.Join([]string{filepath.Join(modules, ".bin"), filepath.Join(modules, nodeName(), "bin"), os.Getenv("PATH")}, ":")
}

// modernNode reports whether the machine has a Node that the packages can run with.
func modernNode(t *testing.T) bool {
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		return false
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 22
}

// dependencies returns the packages that a file package.json depends on.
func dependencies(t *testing.T, file string) []string {
	t.Helper()
	var content struct{ Dependencies, DevDependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, file)), &content); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, some := range []map[string]string{content.Dependencies, content.DevDependencies} {
		for name, version := range some {
			if strings.ContainsAny(version, "^~*>< ") {
				t.Errorf("%s has no exact version: %s", name, version)
			}
			list = append(list, name+"@"+version)
		}
	}
	slices.Sort(list)
	return list
}
