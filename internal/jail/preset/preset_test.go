package preset_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/preset"
)

// TestHosts asks clients whose settings name hosts in several ways.
func TestHosts(t *testing.T) {
	for _, test := range []struct {
		preset, program, script string
		want                    []string
		problem                 string
	}{
		{"go", "go", `printf 'https://Mirror.example.com/go,https://user:key@b.example.com:8443|direct\nsums.example.com+key\n'`,
			[]string{"b.example.com:8443 (GET, HEAD)", "mirror.example.com:443 (GET, HEAD)", "sums.example.com:443 (GET, HEAD)"}, ""},
		{"go", "go", `printf 'off\nname+key http://sums.example.com/\n'`, []string{"sums.example.com:80 (GET, HEAD)"}, ""},
		{"go", "go", `printf 'direct\noff\n'`, nil, ""},
		{"go", "go", `printf 'file:///srv/go,https://*.example.com,https://,https://[::1\noff\n'`, nil, ""},
		{"go", "go", `echo wrong >&2; exit 1`, nil, `preset go: go env GOPROXY GOSUMDB failed: exit status 1: "wrong"`},
		{"go", "other", ``, nil, "preset go: no program go in your PATH: file does not exist"},
		{"npm", "npm", `echo '{"registry": "https://npm.example.com/a/", "@me:registry": "http://me.example.com", "x": 1}'`,
			[]string{"me.example.com:80 (GET, HEAD)", "me.example.com:80 (POST; /-/npm/v1/security/**)", "npm.example.com:443 (GET, HEAD)", "npm.example.com:443 (POST; /a/-/npm/v1/security/**)"}, ""},
		{"npm", "npm", `echo '{"registry": "https://npm.example.com/%2e%2e/*"}'`, []string{"npm.example.com:443 (GET, HEAD)"}, ""},
		{"npm", "npm", `echo registry`, nil, "preset npm: npm config list --json printed no JSON"},
		{"pypi", "python3", `if [ "$2" = pip ]; then echo "global.cert='/x'"; else printf 'https://index.example.com/simple\nhttps://files.example.com\n'; fi`,
			[]string{"files.example.com:443 (GET, HEAD)", "index.example.com:443 (GET, HEAD)"}, ""},
		{"pypi", "python", `[ "$2" = pip ] && printf "%s\n" "global.index-url='https://mirror.example.com/simple'" ":env:.extra-index-url='https://a.example.com/x\nhttp://b.example.com:8080'" "install.find-links='/wheels'"`,
			[]string{"a.example.com:443 (GET, HEAD)", "b.example.com:8080 (GET, HEAD)", "mirror.example.com:443 (GET, HEAD)"}, ""},
		{"debian", "apt-get", `printf 'http://deb.example.com/debian/\nhttp://deb.example.com/debian/\nfile:/srv/deb\nhttps://deb.example.com/security/\n'`,
			[]string{"deb.example.com (GET, HEAD)"}, ""},
		{"debian", "apt-get", `/usr/bin/head -c 2000000 /dev/zero`, nil, "preset debian: apt-get indextargets --format $(REPO_URI) printed more than 1048576 bytes"},
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, test.program), []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		p, ok := preset.Named(test.preset)
		if !ok {
			t.Fatalf("no preset %s", test.preset)
		}
		rules, err := p.Hosts(context.Background(), preset.Client{Environ: []string{"PATH=.:" + bin}, Dir: t.TempDir()})
		if got := text(err); got != test.problem {
			t.Errorf("%s %s: got %s, want %s", test.preset, test.script, got, test.problem)
		}
		if got := policy.HostsOfRules(rules...).Patterns(); !slices.Equal(got, test.want) {
			t.Errorf("%s %s: got %q, want %q", test.preset, test.script, got, test.want)
		}
		if test.program == "other" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

// TestNames checks that project files can name every preset.
func TestNames(t *testing.T) {
	var names []string
	for _, p := range preset.All() {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, policy.PresetNames()) {
		t.Errorf("got %q, want %q", names, policy.PresetNames())
	}
}

// TestEnvironment shows a client no settings of a project.
func TestEnvironment(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\n[ \"$PWD$(ls -A)\" = \"$(pwd)\" ] && [ -z \"$npm_config_registry$INIT_CWD$OLDPWD\" ] && [ $HOME = /home/me ] && echo '{\"registry\": \"https://npm.example.com\"}'\n"
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, _ := preset.Named("npm")
	environ := []string{"PATH=" + bin + ":/bin:/usr/bin", "HOME=/home/me", "PWD=/project", "OLDPWD=/x", "INIT_CWD=/project", "npm_lifecycle_event=test", "npm_config_registry=https://evil.example"}
	rules, err := p.Hosts(context.Background(), preset.Client{Environ: environ, Dir: t.TempDir()})
	if err != nil || len(rules) != 2 {
		t.Errorf("got %v, %v", rules, err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}
