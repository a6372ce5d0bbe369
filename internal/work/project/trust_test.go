package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrust: trust belongs to a directory, under all of its names.
func TestTrust(t *testing.T) {
	w := newWorld(t)
	must(t, os.Symlink("npm", filepath.Join(w.top, "home", "again")))
	for _, test := range []struct{ name, yaml, want string }{
		{"nobody says anything", `sandbox: {root: ., mounts: [{source: in, target: /in}]}`, "/ +, /in +"},
		{"at its own place", `sandbox: {root: ., mounts: [{source: in, target: /in, trust: untrusted}]}`, "/ +, /in -"},
		{"by another name, and by its own", `sandbox: {root: ., mounts: [{source: in, target: /dl, trust: untrusted}]}`, "/ +, /dl -, /in -"},
		{"another mount stands there", `sandbox: {root: ., mounts: [{source: in, target: /dl, trust: untrusted}, {source: shared, target: /in}]}`, "/ +, /dl -, /in +"},
		{"a mount of what is in it", `sandbox: {mounts: [{source: in, target: /dl, trust: untrusted}, {source: in/a/b, target: /mine}]}`, "/dl -, /mine -"},
		{"one that says otherwise, by all its names", `sandbox: {root: ., mounts: [{source: in, target: /dl, trust: untrusted}, {source: in/a, target: /mine, trust: trusted}]}`,
			"/ +, /dl -, /dl/a +, /in -, /in/a +, /mine +"},
		{"and again otherwise", `sandbox: {root: ., trust: untrusted, mounts: [{source: in, target: /in, trust: trusted}, {source: in/a, target: /a, trust: untrusted}]}`,
			"/ -, /a -, /in +, /in/a -"},
		{"the opposite of one directory", `sandbox: {mounts: [{source: in, target: /a, trust: untrusted}, {source: in, target: /b, trust: trusted}]}`, "/a -, /b -"},
		{"a directory of its own in it", `sandbox: {mounts: [{source: in, target: /in, trust: untrusted}, {source: shared, target: /in/shared}]}`, "/in -, /in/shared +"},
		{"outside, by a link", `sandbox: {mounts: [{source: ~/again, target: /a, trust: untrusted}, {source: HOME, target: /home}]}`, "/a -, /home +, /home/npm -"},
		{"zones", `sandbox: {mode: direct, zones: {all: {path: .}, web: {path: in, trust: untrusted}}}`, "/all +, /all/in -, /web -"},
	} {
		p, err := w.parse(strings.ReplaceAll(test.yaml, "HOME", w.env.Home))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got := p.Trust()
		rows := strings.Split(test.want, ", ")
		for _, row := range rows {
			name, sign, _ := strings.Cut(row, " ")
			if untrusted, known := got[name]; !known || untrusted != (sign == "-") {
				t.Errorf("%s: %s: got %v", test.name, row, got)
			}
		}
		for _, m := range p.Mounts {
			if m.Untrusted != got[m.Target] {
				t.Errorf("%s: the mount %s: %v", test.name, m.Target, m.Untrusted)
			}
		}
	}
	p, err := w.parse(`sandbox: {mounts: [{source: in, target: /dl, trust: untrusted}, {source: in/a, target: /mine, trust: trusted}]}`)
	must(t, err)
	for file, want := range map[string]string{"in": "/dl", "in/x/y": "/dl", "in/a": "", "in/a/x": "", "inbox": "", "shared/x": ""} {
		if got := p.Untrusted(filepath.Join(w.program, filepath.FromSlash(file))); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
}
