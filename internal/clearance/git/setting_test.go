package git

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestParseConfig compares the settings that parseConfig reads with those that git reads.
func TestParseConfig(t *testing.T) {
	text := "# a comment\n[core]\n\tbare = false ; another\n\tfileMode\n[user]name = \"A \\\"B\\\" # C\" \n\temail=  a@example.com  \t\n" +
		"[remote \"or\\\"i\\\\gin\"]\n\turl = https://user:hush@example.com/a\\tb\n\tfetch = +refs/heads/*:refs/\\\nremotes/*\n[branch.Old]\n\tmerge = x\r\n[alias] st = \"status  -s\"  -b\n"
	file := t.TempDir() + "/config"
	root := strings.TrimSuffix(file, "/config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "--file", file, "--list", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	var got, written strings.Builder
	for _, v := range readConfig(root, "config") {
		name := v.section
		if v.sub != "" {
			name += "." + v.sub
		}
		got.WriteString(name + "." + v.key + "\n" + v.value + "\x00")
		written.WriteString(v.String())
	}
	want := strings.Replace(string(out), "core.filemode\x00", "core.filemode\ntrue\x00", 1)
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	if err := os.WriteFile(again+"/config", []byte(written.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("git", "config", "--file", again+"/config", "--list", "-z").Output()
	if err != nil || string(out) != want {
		t.Errorf("written again: got %q, %v, want %q", out, err, want)
	}
	for _, bad := range []string{"x = 1\n", "[core\nx = 1\n", "[core]\nx = \"1\n", "[core]\nx = \\q\n", "[a \"b]\n", "[core]\n= 1\n"} {
		if list := parseConfig(bad); len(list) > 0 {
			t.Errorf("%q: got %v, want nothing", bad, list)
		}
	}
}

// TestHarmless checks which settings commands may read.
func TestHarmless(t *testing.T) {
	for name, want := range map[string]bool{
		"user..name": true, "core..autocrlf": true, "remote.origin.fetch": true, "extensions..objectformat": true,
		"remote.origin.url": false, "remote.https://u:p@example.com/.fetch": false, "http..extraheader": false, "credential..helper": false,
		"core..sshcommand": false, "core..hookspath": false, "core..worktree": false, "core..fsmonitor": false, "include..path": false,
		"filter.x.process": false, "url.x.insteadof": false, "alias..st": false, "user..signingkey": false, "submodule.a.url": false,
	} {
		section, rest, _ := strings.Cut(name, ".")
		at := strings.LastIndex(rest, ".")
		if got := (setting{section, rest[:at], rest[at+1:], "x"}).isHarmless(); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	if (setting{"branch", "main", "remote", "https://u:p@example.com/"}).isHarmless() {
		t.Error("an address in place of a remote's name is shown")
	}
}
