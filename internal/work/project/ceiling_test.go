package project_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/project"
)

var ceilingTools = []string{"filesystem", "shell", "read_file", "git_push"}

// A randomLayer is a layer with what it allows, computed without the code under test.
type randomLayer struct {
	text    string
	network bool
	mode    int // index in modes
	unseen  bool
	gpu     bool
	roots   []string // nil for all
	allow   []string // nil for all
	deny    []string
}

var modes = []string{"auto_deny", "interactive", "approve_all"}

func newRandomLayer(r *rand.Rand, dirs []string) randomLayer {
	l := randomLayer{network: true, mode: 2, unseen: true, gpu: true}
	var b strings.Builder
	if r.IntN(2) == 0 {
		word := []string{"on", "off", "true", "false"}[r.IntN(4)]
		l.network = word == "on" || word == "true"
		fmt.Fprintf(&b, "network: %s\n", word)
	}
	if r.IntN(2) == 0 {
		l.gpu = r.IntN(2) == 0
		fmt.Fprintf(&b, "jail: {gpu: %v}\n", l.gpu)
	}
	if r.IntN(2) == 0 {
		b.WriteString("approval:\n")
		l.mode = r.IntN(3)
		fmt.Fprintf(&b, "  mode: %s\n", modes[l.mode])
		if r.IntN(2) == 0 {
			l.unseen = r.IntN(2) == 0
			fmt.Fprintf(&b, "  unseen: %v\n", l.unseen)
		}
	}
	pick := func(from []string) []string {
		list := slices.Clone(from)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list[:1+r.IntN(len(list))]
	}
	if r.IntN(3) == 0 {
		l.roots = pick(dirs)
		fmt.Fprintf(&b, "roots: [%s]\n", strings.Join(l.roots, ", "))
	}
	if r.IntN(2) == 0 {
		b.WriteString("tools:\n")
		l.deny = pick(ceilingTools)
		fmt.Fprintf(&b, "  deny: [%s]\n", strings.Join(l.deny, ", "))
		if r.IntN(2) == 0 {
			l.allow = pick(ceilingTools)
			fmt.Fprintf(&b, "  allow: [%s]\n", strings.Join(l.allow, ", "))
		}
	}
	l.text = b.String()
	return l
}

// TestCeilingProperty draws random layers, project files and settings. Whatever the
// project and the flags ask for, the result is never wider than any layer above.
func TestCeilingProperty(t *testing.T) {
	r := rand.New(rand.NewPCG(22, uint64(os.Getpid())))
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, name := range []string{"a", "a/b", "c", "ab"} {
		dir := filepath.Join(top, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	accepted := 0
	for range testutil.Rounds(400) {
		layers := []randomLayer{newRandomLayer(r, dirs), newRandomLayer(r, dirs)}
		policy, err := project.ParsePolicy("policy", []byte(cmp.Or(layers[0].text, "{}")), ceilingTools)
		if err != nil {
			t.Fatalf("%v\n%s", err, layers[0].text)
		}
		config, err := project.ParseConfig("config", []byte(layers[1].text), top, ceilingTools)
		if err != nil {
			t.Fatalf("%v\n%s", err, layers[1].text)
		}
		root := dirs[r.IntN(len(dirs))]
		file := fmt.Sprintf("sandbox:\n  root: .\n  network: %v\n", r.IntN(2) == 0)
		if r.IntN(2) == 0 {
			file += fmt.Sprintf("approval: {mode: %s}\n", modes[r.IntN(3)])
		}
		if r.IntN(2) == 0 {
			file += "jail: {gpu: true}\n"
		}
		var settings []project.Setting
		for _, text := range []string{"jail.gpu=true", "sandbox.network=true", "approval.mode=approve_all", "approval.mode=interactive"} {
			if r.IntN(6) == 0 {
				s, err := project.ParseSet("--set", text)
				if err != nil {
					t.Fatal(err)
				}
				settings = append(settings, s)
			}
		}
		p, err := project.Parse(root, "golem-forge.config.yaml", []byte(file), project.Env{Ceiling: project.Ceiling{policy, config}}, settings)
		if err != nil {
			continue // refused, which allows nothing
		}
		accepted++
		_, unseenOff := p.Ceiling.UnseenOff()
		for i, l := range layers {
			what := fmt.Sprintf("layer %d:\n%sproject:\n%s%v", i, l.text, file, settings)
			if !l.network && !p.Grant().Hosts.IsEmpty() {
				t.Fatalf("the network is open against %s", what)
			}
			if got := slices.Index(modes, p.Approval); got > l.mode || !l.unseen && got > 1 {
				t.Fatalf("approval mode %s against %s", p.Approval, what)
			}
			if !l.gpu && p.GPU || strings.Contains(file, "gpu: true") && !p.Asked().GPU {
				t.Fatalf("the GPU: %v, and %v asked for, against %s", p.GPU, p.Asked().GPU, what)
			}
			if !l.unseen && !unseenOff {
				t.Fatalf("unseen approvals against %s", what)
			}
			within := func(dir string) bool { return root == dir || strings.HasPrefix(root, dir+"/") }
			if l.roots != nil && !slices.ContainsFunc(l.roots, within) {
				t.Fatalf("%s is mounted against %s", root, what)
			}
			for _, names := range [][]string{{"read_file", "filesystem"}, {"shell", "shell"}, {"git_push", "git"}} {
				in := func(list []string) bool {
					return slices.Contains(list, names[0]) || slices.Contains(list, names[1])
				}
				if _, denied := p.Ceiling.DeniedTool(names); !denied && (in(l.deny) || l.allow != nil && !in(l.allow)) {
					t.Fatalf("the tool %s is allowed against %s", names[0], what)
				}
			}
		}
	}
	if accepted < 40 {
		t.Fatalf("only %d cases were accepted: the test checks too little", accepted)
	}
}

func TestCeilingNarrowsWithoutReason(t *testing.T) {
	for _, text := range []string{"", "\n", "# network: off\n", "---\n", "\ufeff---\n# x\n...\n"} {
		if _, err := project.ParsePolicy("policy", []byte(text), nil); err == nil || !strings.Contains(err.Error(), "policy: is empty; a policy that limits nothing is {}") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := project.ParsePolicy("policy", []byte("{}\n"), nil); err != nil {
		t.Error(err)
	}
	layer, err := project.ParsePolicy("policy", []byte("network: on\napproval: {mode: approve_all}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	file := []byte("sandbox: {root: ., network: true}\napproval: {mode: approve_all}\n")
	p, err := project.Parse(t.TempDir(), "golem-forge.config.yaml", file, project.Env{Ceiling: project.Ceiling{layer}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Network.IsAll() || p.Approval != "approve_all" {
		t.Errorf("a policy that allows everything: got network %v, approval %s", p.Network.IsAll(), p.Approval)
	}
}

// TestAskedValues checks that the values to be trusted are those of the files.
func TestAskedValues(t *testing.T) {
	layer, err := project.ParseConfig("config", []byte("network: off\nmodel: ollama:qwen3\napproval: {mode: auto_deny}\n"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	file := []byte("sandbox: {root: ., network: true}\napproval: {mode: approve_all}\n")
	p, err := project.Parse(t.TempDir(), "golem-forge.config.yaml", file, project.Env{Ceiling: project.Ceiling{layer}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Network.IsEmpty() || p.Approval != "auto_deny" || p.Model != "ollama:qwen3" {
		t.Errorf("effective: got network %v, approval %s, model %s", p.Network.IsAll(), p.Approval, p.Model)
	}
	asked := p.Asked()
	if !asked.Network.IsAll() || asked.Approval != "approve_all" || asked.Model != "" {
		t.Errorf("asked: got network %v, approval %s, model %q", asked.Network.IsAll(), asked.Approval, asked.Model)
	}
	if got := asked.PlaceOf("sandbox.network").Line; got != 1 {
		t.Errorf("line of the network request: got %d, want 1", got)
	}
}

// TestCredentialTTL: only the output of a program is made anew, and only the user's
// configuration names programs.
func TestCredentialTTL(t *testing.T) {
	for text, want := range map[string]string{
		`{command: [a], ttl: 10m, header: "x-key: ${value}"}`:    "",
		`{command: [a], ttl: 1ms, header: "x-key: ${value}"}`:    "credentials.c.ttl: 1ms; write a second or more, such as 10m",
		`{command: [a], ttl: -10m, header: "x-key: ${value}"}`:   "credentials.c.ttl: -10m; ",
		`{command: [a], ttl: soon, header: "x-key: ${value}"}`:   "ttl",
		`{from: keyring, ttl: 10m, header: "x-key: ${value}"}`:   "credentials.c: ttl without command; ",
		`{from: "env:KEY", ttl: 10m, header: "x-key: ${value}"}`: "credentials.c: ttl without command; ",
	} {
		_, err := project.ParseConfig("config", []byte("credentials: {c: "+text+"}\n"), "", nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestMisnamedConfig: a configuration that golem does not read because of its name may hold
// limits.
func TestMisnamedConfig(t *testing.T) {
	for _, test := range []struct {
		files []string
		want  string // a part of the error
	}{
		{nil, ""},
		{[]string{"config.yaml", "config.yaml~", "config.yaml.bak", "settings.json", "theme.yml"}, ""},
		{[]string{"config.yml"}, "config.yml: golem does not read this file; rename it to config.yaml"},
		{[]string{"config.yaml", "config.yml"}, "config.yml: golem does not read this file; golem reads config.yaml in the same directory; keep one of the two"},
		{[]string{"config"}, "config: golem does not read this file"},
		{[]string{".config.yaml"}, ".config.yaml: golem does not read this file"},
		{[]string{"configs.yaml"}, "configs.yaml: golem does not read this file"},
		{[]string{"config.yaml.txt"}, "config.yaml.txt: golem does not read this file"},
		{[]string{"config.yaml "}, "config.yaml \": golem does not read this file"},
		{[]string{"config.yaml\u200b"}, "config.yaml\\u200b\": golem does not read this file"},
		{[]string{"pol\u00adicy.yaml"}, "golem does not read this file"},
		{[]string{"golem-config.yaml"}, "golem-config.yaml: golem does not read this file"},
		{[]string{"CONFIG.json"}, "CONFIG.json: golem does not read this file"},
		{[]string{"policy.yaml"}, "policy.yaml: golem does not read this file; rename it to config.yaml"},
		{[]string{"../golem.yaml"}, "golem.yaml: golem does not read this file; golem reads "},
		{[]string{"../.golem-config.yml"}, ".golem-config.yml: golem does not read this file; golem reads "},
		{[]string{"../Golem/config.yaml"}, "Golem/config.yaml: golem does not read this file; golem reads "},
		{[]string{"../golem-forge/policy.json"}, "golem-forge/policy.json: golem does not read this file; golem reads "},
		{[]string{"../golem", "../golem.yaml~", "../gollum/config.yaml", "../other.yaml"}, ""},
	} {
		dir := filepath.Join(t.TempDir(), "Golem Forge settings")
		must(t, os.MkdirAll(dir, 0o700))
		for _, name := range test.files {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte("network: off\n"), 0o600))
		}
		_, err := project.ReadCeiling(filepath.Join(dir, "config.yaml"), dir, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.files, err, test.want)
		}
	}
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/golem.yaml", []byte("port: 80\nnetwork: eth0\n"), 0o600)) // of another program
	if _, err := project.ReadCeiling(dir+"/golem/config.yaml", dir, nil); err != nil {
		t.Error(err)
	}
}

// TestDanglingConfig: a configuration behind a symlink whose target is missing may hold
// limits. A missing configuration holds none.
func TestDanglingConfig(t *testing.T) {
	for _, link := range []string{"", "above", "above/golem", "above/golem/config.yaml"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "above", "golem", "config.yaml")
		if link != "" {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o700))
			must(t, os.Symlink("nowhere", filepath.Join(dir, link)))
		}
		want := filepath.Join(dir, link) + ": is a symlink whose target does not exist; repair or remove it"
		if _, err := project.ReadCeiling(file, dir, nil); (err == nil) != (link == "") || err != nil && err.Error() != want {
			t.Errorf("%q: got %v, want %q", link, err, want)
		}
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "dotfiles"), 0o700))
	must(t, os.Symlink("dotfiles", filepath.Join(dir, "golem")))
	if _, err := project.ReadCeiling(filepath.Join(dir, "golem", "config.yaml"), dir, nil); err != nil {
		t.Errorf("no configuration in a directory behind a symlink: got %v", err)
	}
}

// TestDeniedToolOfAnother checks that a tool is denied with another one that does the same, and
// that an entry of an allowlist for the other one is none for it.
func TestDeniedToolOfAnother(t *testing.T) {
	for text, want := range map[string]bool{
		"deny: [git_push]": true, "deny: [git]": true, "deny: [pull_request]": true, "deny: [shell]": false,
		"allow: [pull_request]": false, "allow: [git_push]": true, "allow: [pull_request], deny: [git]": true,
	} {
		layer, err := project.ParseConfig("config", []byte("tools: {"+text+"}\n"), "", []string{"git", "git_push", "pull_request", "shell"})
		if err != nil {
			t.Fatal(err)
		}
		if _, denied := (project.Ceiling{layer}).DeniedTool([]string{"pull_request", "changes"}, "git_push", "git"); denied != want {
			t.Errorf("%s: denied %v, want %v", text, denied, want)
		}
	}
}
