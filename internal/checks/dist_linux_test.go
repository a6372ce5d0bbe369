package checks_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease makes the files of a release for this machine twice, compares their bytes, installs
// golem from them with install.sh and over HTTPS, refuses a changed archive, and installs,
// uses and removes the packages on a copy of this machine. It also starts the images.
func TestRelease(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"dpkg", "script", "unshare", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is missing; on Debian make test installs it")
		}
	}
	clone := t.TempDir() // a clean tree, so that the version names the commit only
	run(t, ".", nil, "git", "clone", "-q", "--no-hardlinks", ".", clone)
	var dirs []string
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(t.TempDir(), name)
		run(t, clone, []string{"SYSTEMS=linux/" + runtime.GOARCH}, "scripts/dist", dir)
		dirs = append(dirs, dir)
	}
	sums := read(t, filepath.Join(dirs[0], "SHA256SUMS"))
	if second := read(t, filepath.Join(dirs[1], "SHA256SUMS")); sums != second || strings.Count(sums, "\n") < 10 {
		t.Errorf("two builds differ:\n%s\n%s", sums, second)
	}
	home := t.TempDir()
	if out := run(t, clone, nil, "sh", "packaging/install.sh", "--from", dirs[0], "--to", home, "--hub"); !strings.Contains(out, "installed: "+home+"/bin/golem (golem 0.") {
		t.Errorf("install.sh: got %q", out)
	}
	for _, name := range []string{"bin/golem-hub", "share/man/man1/golem-run.1.gz", "share/bash-completion/completions/golem"} {
		if _, err := os.Stat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
	archives, _ := filepath.Glob(filepath.Join(dirs[1], "golem_*.tar.gz"))
	if len(archives) != 1 {
		t.Fatalf("got %q", archives)
	}
	if err := os.WriteFile(archives[0], append([]byte(read(t, archives[0])), 0), 0o644); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("sh", "packaging/install.sh", "--from", dirs[1], "--to", filepath.Join(home, "other"))
	if out, err := install.CombinedOutput(); err == nil || !strings.Contains(string(out), "nothing was installed") {
		t.Errorf("a changed archive: got %v, %q", err, out)
	}
	checkLicences(t, clone, dirs[0])
	tryDownload(t, clone, dirs[0])
	trySignature(t, clone, dirs[0])
	for program, pattern := range map[string]string{"dpkg": "golem_*.deb", "rpm": "golem-0*.rpm"} {
		packages, _ := filepath.Glob(filepath.Join(dirs[0], pattern))
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("without %s: %s is missing", packages, program)
		} else if out := run(t, clone, nil, "scripts/try-package", packages[0]); !strings.HasSuffix(out, "installed, used and removed\n") {
			t.Errorf("%s: got\n%s", packages, out)
		}
	}
	if _, err := exec.LookPath("crun"); err != nil || os.Geteuid() != 0 {
		t.Log("without the images: they need crun and root")
		return
	}
	for pattern, words := range map[string][]string{"golem_*.oci.tar": {"version", "golem 0."}, "golem-hub_*.oci.tar": {"--help", "golem hub invite"}} {
		images, _ := filepath.Glob(filepath.Join(dirs[0], pattern))
		if out := run(t, clone, nil, "scripts/try-image", images[0], words[0]); !strings.Contains(out, words[1]) {
			t.Errorf("%s: got\n%s", images, out)
		}
	}
}

// checkLicences compares the licences in each kind of file of a release with the modules of
// go.mod that the binaries contain.
func checkLicences(t *testing.T, clone, release string) {
	one := func(pattern string) string {
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(release, pattern))
		if len(files) != 1 {
			t.Fatalf("%s: got %q", pattern, files)
		}
		return files[0]
	}
	notice := run(t, release, nil, "tar", "-xzOf", one("golem_*.tar.gz"), "--wildcards", "*/share/doc/golem/NOTICE")
	for _, p := range []string{"golem_*.deb", "golem-hub_*.deb"} {
		name, _, _ := strings.Cut(p, "_")
		if got := run(t, release, nil, "sh", "-c", "dpkg --fsys-tarfile "+one(p)+" | tar -xOf - ./usr/share/doc/"+name+"/NOTICE"); got != notice {
			t.Errorf("%s has another NOTICE, or none", p)
		}
	}
	for _, p := range []string{"golem_*.oci.tar", "golem-hub_*.oci.tar"} {
		name, _, _ := strings.Cut(p, "_")
		if got := run(t, release, nil, "sh", "-c", "for f in $(tar -tf "+one(p)+" | grep blobs/sha256/.); do tar -xOf "+one(p)+" $f | tar -xzOf - usr/share/doc/"+name+"/NOTICE 2>/dev/null || true; done"); got != notice {
			t.Errorf("%s has another NOTICE, or none", p)
		}
	}
	for _, p := range []string{"golem_*.spdx.json", "golem-hub_*.spdx.json"} {
		var sbom struct {
			Packages []struct{ Name, VersionInfo, LicenseDeclared string }
		}
		if err := json.Unmarshal([]byte(read(t, one(p))), &sbom); err != nil || len(sbom.Packages) < 10 {
			t.Fatalf("%s: %v, %d packages", p, err, len(sbom.Packages))
		}
		for _, m := range sbom.Packages[1:] {
			if !strings.Contains(notice, "\n  "+m.Name+" "+m.VersionInfo+": "+m.LicenseDeclared+"\n") {
				t.Errorf("NOTICE does not have %s %s with the licence %s of %s", m.Name, m.VersionInfo, m.LicenseDeclared, p)
			}
		}
	}
	for _, text := range []string{"Copyright 2009 The Go Authors", "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", "Permission is hereby granted, free of charge"} {
		if !strings.Contains(notice, text) {
			t.Errorf("NOTICE does not contain %q", text)
		}
	}
}

// tryDownload installs golem over HTTPS, with the step of the GitHub Action.
func tryDownload(t *testing.T, clone, release string) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Log("without a download: curl is missing")
		return
	}
	server := httptest.NewTLSServer(http.FileServer(http.Dir(release)))
	defer server.Close()
	work := t.TempDir()
	certificate := filepath.Join(work, "certificate.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	_, step, found := strings.Cut(read(t, filepath.Join(clone, "packaging/action.yml")), "      run: |\n")
	if !found {
		t.Fatal("packaging/action.yml has no step")
	}
	path := filepath.Join(work, "path")
	env := []string{"CURL_CA_BUNDLE=" + certificate, "GITHUB_ACTION_PATH=" + filepath.Join(clone, "packaging"), "RUNNER_TEMP=" + work, "GITHUB_PATH=" + path, "FROM=" + server.URL, "KEY="}
	run(t, work, env, "sh", "-ec", step)
	if out := run(t, work, nil, filepath.Join(strings.TrimSpace(read(t, path)), "golem"), "version"); !strings.HasPrefix(out, "golem 0.") {
		t.Errorf("got %q", out)
	}
	// Without that variable nothing trusts the certificate.
	install := exec.Command("sh", filepath.Join(clone, "packaging/install.sh"), "--from", server.URL, "--to", filepath.Join(work, "other"))
	if out, err := install.CombinedOutput(); err == nil || !strings.Contains(string(out), "cannot read ") {
		t.Errorf("a server without a known certificate: got %v, %q", err, out)
	}
}

// trySignature signs the hashes of a release and installs golem with the key. It refuses
// another key, hashes that were changed after the signature, and a missing signature.
func trySignature(t *testing.T, clone, release string) {
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Log("without a signature: minisign is missing")
		return
	}
	work := t.TempDir()
	signed := filepath.Join(work, "release")
	run(t, work, nil, "cp", "-R", release, signed)
	key := func(name string) string {
		run(t, work, nil, "minisign", "-G", "-W", "-p", name+".pub", "-s", name+".key")
		return strings.Split(read(t, filepath.Join(work, name+".pub")), "\n")[1]
	}
	ours, others := key("ours"), key("others")
	install := func(key, want string) {
		t.Helper()
		to := filepath.Join(work, "to")
		out, err := exec.Command("sh", filepath.Join(clone, "packaging/install.sh"), "--from", signed, "--to", to, "--key", key).CombinedOutput()
		_, missing := os.Stat(filepath.Join(to, "bin/golem"))
		if installs := want == "installed: "; !strings.Contains(string(out), want) || (err == nil) != installs || (missing == nil) != installs {
			t.Errorf("got %v, %v, %q; want %q", err, missing, out, want)
		}
		os.RemoveAll(to)
	}
	install(ours, "cannot read "+signed+"/SHA256SUMS.minisig")
	run(t, signed, nil, "minisign", "-S", "-s", filepath.Join(work, "ours.key"), "-m", "SHA256SUMS")
	install(ours, "installed: ")
	install(others, "has no valid signature by this key; nothing was installed")
	if err := os.WriteFile(filepath.Join(signed, "SHA256SUMS"), []byte(read(t, filepath.Join(signed, "SHA256SUMS"))+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	install(ours, "has no valid signature by this key; nothing was installed")
}

// run runs a program in a directory and returns its output.
func run(t *testing.T, dir string, env []string, words ...string) string {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
