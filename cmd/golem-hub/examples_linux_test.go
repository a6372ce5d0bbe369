package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExampleCommands checks that the commands in the units and in the manifest of examples/hub have
// only flags that the programs know.
func TestExampleCommands(t *testing.T) {
	t.Parallel()
	found := 0
	check := func(file string, words []string) {
		t.Helper()
		found++
		name, last := words[0], "--help"
		switch {
		case name == "golem-hub":
			last = "--version" // it checks the flags, and starts nothing
		case words[1] == "hub":
			name, words, last = "golem-hub", words[1:], "--version"
		}
		if out, err := exec.Command(name, append(words[1:], last)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %s: %v\n%s", file, strings.Join(words, " "), err, out)
		}
	}
	units, err := filepath.Glob("../../examples/hub/*.service")
	must(t, err)
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		must(t, err)
		for _, m := range regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(.*)$`).FindAllStringSubmatch(string(data), -1) {
			check(unit, strings.Fields(m[1]))
		}
	}
	manifest := "../../examples/hub/kubernetes.yaml"
	data, err := os.ReadFile(manifest)
	must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^ +args: \[(.*)\]$`).FindAllStringSubmatch(string(data), -1) {
		words := strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", ")
		check(manifest, append([]string{"golem"}, words...))
	}
	if found != 4 {
		t.Errorf("found %d commands, want 4", found)
	}
}

// TestUnits lets systemd check the units of examples/hub.
func TestUnits(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	dir := t.TempDir()
	var files []string
	for from, to := range map[string]string{"golem-hub.service": "golem-hub.service", "golem-node@.service": "golem-node@build-1.service"} {
		data, err := os.ReadFile(filepath.Join("../../examples/hub", from))
		must(t, err)
		text := regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAllString(string(data), "ExecStart=/bin/true") // the programs are not installed
		files = append(files, filepath.Join(dir, to))
		must(t, os.WriteFile(files[len(files)-1], []byte(text), 0o644))
	}
	if out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
