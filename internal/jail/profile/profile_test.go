package profile

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// profiles returns the built-in profiles for a home and variables.
func profiles(home string, getenv func(string) string) (list []Profile) {
	for _, name := range builtInNames {
		p, _ := User{Home: home, Getenv: getenv}.builtIn(name)
		list = append(list, p)
	}
	return list
}

// writeFiles writes files in a directory.
func writeFiles(t *testing.T, top string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// listFiles returns the files in a directory.
func listFiles(t *testing.T, top string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(top, name)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func noVariables(string) string { return "" }

// TestProfileFor checks that the name of a program selects the profile if no name is
// given.
func TestProfileFor(t *testing.T) {
	for _, c := range []struct{ name, program, want string }{
		{"", "bash", "plain"},
		{"", "/home/me/.nvm/versions/node/v22/bin/claude", "claude"},
		{"", "npm", "node"},
		{"", "python3", "python"},
		{"", "go", "go"},
		{"codex", "bash", "codex"},
		{"plain", "claude", "plain"},
		{"npm", "npm", "not_found"},
		{"", "no-such-program", "plain"},
	} {
		got, err := User{Home: t.TempDir(), Getenv: noVariables}.ProfileFor(c.name, c.program)
		if errors.Is(err, sandbox.ErrNotFound) {
			got.Name = "not_found"
		}
		if got.Name != c.want {
			t.Errorf("--profile %q -- %s: got %s, want %s", c.name, c.program, got.Name, c.want)
		}
	}
}

// TestProfiles checks that every profile can be selected by name, and that its files are
// in the home and are not secrets of other programs.
func TestProfiles(t *testing.T) {
	owner := map[string]string{}
	for _, p := range profiles("/home/me", noVariables) {
		for _, name := range slices.Concat(p.Copies, p.Logins) {
			if !filepath.IsLocal(name) || strings.HasSuffix(name, "/") {
				t.Errorf("%s: %q is no name in a home", p.Name, name)
			}
		}
		// Settings may contain keys: those of MCP servers, of providers, in variables.
		for _, name := range p.Copies {
			if ext := filepath.Ext(name); p.Net && (ext == ".json" || ext == ".jsonc" || ext == ".toml") && !slices.Contains([]string{"keybindings.json", "google_accounts.json", "tui.json"}, filepath.Base(name)) {
				t.Errorf("%s: %s is not listed as a file that may have credentials", p.Name, name)
			}
		}
		for _, name := range p.Logins {
			if owner[name] != "" {
				t.Errorf("%s: the credentials %s are %s's", p.Name, name, owner[name])
			}
			owner[name] = p.Name
		}
		for _, e := range p.Set {
			if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
				t.Errorf("%s: %q sets nothing", p.Name, e)
			}
		}
		for _, m := range p.Mounts {
			if m.Write {
				t.Errorf("%s: %s may be written", p.Name, m.Source)
			}
		}
	}
	if len(owner) < 5 {
		t.Errorf("found %d files with credentials: the test checks nothing", len(owner))
	}
}

// fillHome fills a home and returns the files that a program finds there: those of the home
// itself, and those that are kept or private.
func fillHome(t *testing.T, p Profile, home, kept string) map[string]string {
	t.Helper()
	private, err := p.Fill(home, kept)
	if err != nil {
		t.Fatal(err)
	}
	files := listFiles(t, home)
	maps.Copy(files, listFiles(t, kept))
	for _, d := range private {
		for _, f := range d.Files {
			files[path.Join(strings.TrimPrefix(d.Target, jail.Home+"/"), f.Name)] = string(f.Data)
		}
	}
	return files
}

// TestProfileCopies checks that a profile copies only what its program needs.
func TestProfileCopies(t *testing.T) {
	user := t.TempDir()
	writeFiles(t, user, map[string]string{
		".gitconfig":                      "[user]\n\tname = Me # token: secret\n\tsigningkey = X\n[credential]\n\thelper = store\n[url \"https://token@host/\"]\n\tinsteadOf = x\n",
		".npmrc":                          "registry=https://packages.example/\n//packages.example/:_authToken=secret\n@mine:registry = https://mine.example/\n@other:registry=https://me:secret@other.example/\n_auth=secret\n",
		".config/pip/pip.conf":            "[global]\nuser = me\nindex_url: https://wrong.example\nindex-url = https://me:secret@packages.example/simple\n[install]\n# secret\nextra_index_url =\n  https://a.example/simple\n  https://me:secret@b.example/simple\n\n  https://c.example/simple\npassword = secret\n",
		".claude.json":                    `{"theme":"dark","hasCompletedOnboarding":true,"projects":{"/home/me/x":{"history":["secret"]}},"mcpServers":{"x":{"env":{"T":"secret"}}}}`,
		".claude/.credentials.json":       "claude's",
		".claude/commands/mine/review.md": "look at it",
		".claude/history.jsonl":           "secret",
		".codex/config.toml":              "model = \"m\"\nsandbox_mode = \"read-only\"\n[profiles.safe]\nsandbox_mode = \"workspace-write\"\nmodel = \"n\"\n[features]\nx = 1",
		".codex/auth.json":                "codex's",
		".ssh/id_ed25519":                 "secret",
	})
	name := "[user]\n\tname = \"Me\"\n"
	lines := "sandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n"
	daemon := "[features]\ndaemon_auto_start = false\n"
	for profile, want := range map[string]map[string]string{
		"plain":  {".gitconfig": name},
		"git":    {".gitconfig": name},
		"node":   {".gitconfig": name, ".npmrc": "registry=https://packages.example/\n@mine:registry = https://mine.example/\n"},
		"python": {".gitconfig": name, ".config/pip/pip.conf": "[global]\n[install]\nextra-index-url = https://a.example/simple\n    https://c.example/simple\n"},
		"claude": {".gitconfig": name, ".claude/.claude.json": "{\n  \"hasCompletedOnboarding\": true,\n  \"theme\": \"dark\"\n}\n",
			".claude/.credentials.json": "claude's", ".claude/commands/mine/review.md": "look at it"},
		"codex": {".gitconfig": name, ".codex/auth.json": "codex's", ".codex/config.toml": lines + "model = \"m\"\n[profiles.safe]\nmodel = \"n\"\n" + daemon + "x = 1\n"},
	} {
		p, err := User{Home: user, Getenv: noVariables}.ProfileFor(profile, "")
		if err != nil {
			t.Fatal(err)
		}
		home, kept := t.TempDir(), t.TempDir()
		got := fillHome(t, p, home, kept)
		for file, text := range got {
			if text != want[file] {
				t.Errorf("%s: %s: got %q, want %q", profile, file, text, want[file])
			}
		}
		for _, dir := range []string{home, kept} {
			for file, text := range listFiles(t, dir) {
				if !p.Brings(file) {
					t.Errorf("%s: %s counts as the program's own", profile, file)
				}
				if strings.HasSuffix(text, "'s") || strings.HasSuffix(file, ".toml") || strings.HasSuffix(file, ".json") {
					t.Errorf("%s: %s is on disk", profile, file)
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %d files, want %d", profile, len(got), len(want))
		}
		if p.Brings(".claude/history.jsonl") {
			t.Errorf("%s: a file that the program wrote counts as the profile's", profile)
		}
	}

	// Changes of a program to its home stay, except in a private directory, which is
	// filled again. Lines exist without a file too.
	p, err := User{Home: user, Getenv: noVariables}.ProfileFor("codex", "")
	if err != nil {
		t.Fatal(err)
	}
	p.Home = t.TempDir()
	home, kept := t.TempDir(), t.TempDir()
	for range 2 {
		if got := fillHome(t, p, home, kept)[".codex/config.toml"]; got != lines+daemon {
			t.Errorf("got %q, want %q", got, lines+daemon)
		}
		writeFiles(t, home, map[string]string{".codex/config.toml": "changed", ".gitconfig": "changed"})
	}
	if got := fillHome(t, p, home, kept)[".gitconfig"]; got != "changed" {
		t.Errorf("file that a program changed: got %q", got)
	}
}

// TestLoginsArePrivate checks that every credential that a profile copies is in a
// directory in memory, and that no such directory keeps one.
func TestLoginsArePrivate(t *testing.T) {
	for _, p := range profiles("/nowhere", noVariables) {
		for _, login := range p.Logins {
			at := slices.IndexFunc(p.Private, func(d Private) bool { return within(d.Dir, target(login)) })
			if at < 0 {
				t.Errorf("%s: %s would be stored", p.Name, login)
				continue
			}
			for _, name := range slices.Concat(p.Private[at].Keeps) {
				if within(path.Join(p.Private[at].Dir, name), target(login)) {
					t.Errorf("%s: %s stays with %s", p.Name, login, name)
				}
			}
			for _, name := range p.Copies {
				if within(name, target(login)) {
					t.Errorf("%s: %s stays with %s", p.Name, login, name)
				}
			}
		}
	}
}

// TestProfileLinks checks that symlinks that a program left in its home do not redirect
// what golem writes there.
func TestProfileLinks(t *testing.T) {
	user := t.TempDir()
	writeFiles(t, user, map[string]string{".claude/.credentials.json": "claude's", ".claude/settings.json": "{}", ".config/git/config": "[user]\n\tname = Me\n"})
	p, err := User{Home: user, Getenv: noVariables}.ProfileFor("claude", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(home, other string) error{
		"link to a folder": func(home, other string) error { return os.Symlink(other, filepath.Join(home, ".claude")) },
		"link to nothing":  func(home, other string) error { return os.Symlink(other+"/none", filepath.Join(home, ".claude")) },
		"link to itself":   func(home, other string) error { return os.Symlink(".claude", filepath.Join(home, ".claude")) },
		"link upwards": func(home, other string) error {
			return os.Symlink("../"+filepath.Base(other), filepath.Join(home, ".claude"))
		},
		"link of the parent": func(home, other string) error { return os.Symlink(other, filepath.Join(home, ".config")) },
		"file for a folder":  func(home, other string) error { return os.WriteFile(filepath.Join(home, ".claude"), nil, 0o600) },
	} {
		top := t.TempDir()
		home, other := filepath.Join(top, "home"), filepath.Join(top, "other")
		if err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(other, 0o700), leave(home, other)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Fill(home, t.TempDir()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := listFiles(t, other); len(got) > 0 {
			t.Errorf("%s: another directory was written: %q", name, got)
		}
	}
}

// TestGitUser checks that a program gets the name and the address of a git configuration,
// and nothing else.
func TestGitUser(t *testing.T) {
	for config, want := range map[string]string{
		"":                                               "",
		"[core]\n\teditor = vi\n":                        "",
		"[user]\n\tsigningkey = X\n":                     "",
		"[user]\nname=Me\nemail=me@example.com":          "[user]\n\tname = \"Me\"\n\temail = \"me@example.com\"\n",
		"[USER]\n\tName = Me  ; token\n":                 "[user]\n\tname = \"Me\"\n",
		"[user]\n\tname = \"Me; \" # it\n":               "[user]\n\tname = \"Me; \"\n",
		"[user]\n\tname = M \\\"X\\\" N\n":               "[user]\n\tname = \"M \\\"X\\\" N\"\n",
		"[user]\n\tname = Me \\\n\tpassword = secret\n":  "",
		"[user]\n\tname = \"Me\n[include]\n\tpath = x\n": "",
		"[user \"x\"]\n\tname = Me\n":                    "",
		"[include]\n\tpath = x\n\tname = y\n":            "",
		"[user]\n\tname = a\\q\n":                        "",
	} {
		if got := string(gitUser("", "/x/.gitconfig", []byte(config))); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}

// TestGitUserIncluded checks that a program gets the name and the address that an included
// file has, and the last one counts.
func TestGitUserIncluded(t *testing.T) {
	home := t.TempDir()
	writeFiles(t, home, map[string]string{
		"dotfiles/me":   "[user]\n\tname = Me\n\temail = me@example.com\n[credential]\n\thelper = secret\n",
		"dotfiles/loop": "[include]\n\tpath = loop\n[user]\n\tname = Loop\n",
		"dotfiles/next": "[include] path = me\n",
		"dotfiles/many": strings.Repeat("[include]\n\tpath = many\n", 1000),
	})
	me, loops := "\tname = \"Me\"\n\temail = \"me@example.com\"\n", strings.Repeat("\tname = \"Loop\"\n", maxIncludes)
	for config, want := range map[string]string{
		"[include]\n\tpath = ~/dotfiles/me\n":                            me,
		"[include]\n\tpath = dotfiles/me\n[user]\n\tname = X\n":          me + "\tname = \"X\"\n",
		"[Include]\npath=\"" + home + "/dotfiles/me\" ; c\n":             me,
		"[include]\n\tpath = dotfiles/next\n":                            me,
		"[include]\n\tpath = dotfiles/loop\n":                            loops,
		"[include]\n\tpath = nosuch\n\tpath = dotfiles\n":                "",
		"[user]\n\tname = Z\n[include]\n\tpath = dotfiles/many\n":        "\tname = \"Z\"\n",
		"[includeIf \"gitdir:~/work/\"]\n\tpath = ~/dotfiles/me\n":       "",
		"[user]\n\tname = Y\n[include]\n\tpath = ~/dotfiles/../nosuch\n": "\tname = \"Y\"\n",
		"[include]\n\tpath = dotfiles/me\n\tname = not a user\n[core]\n": me,
	} {
		if want != "" {
			want = "[user]\n" + want
		}
		if got := string(gitUser(home, filepath.Join(home, ".gitconfig"), []byte(config))); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}

// TestProfileNowhere checks that without a home golem reads no files from the current
// directory instead.
func TestProfileNowhere(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFiles(t, ".", map[string]string{"go/pkg/mod/cache/download/x": "", ".codex/config.toml": "model = \"m\"\n", ".codex/auth.json": "", ".gitconfig": "[user]\n\tname = Me\n"})
	for _, home := range []string{"", "."} {
		for _, name := range []string{"plain", "go", "codex"} {
			p, err := User{Home: home, Getenv: func(name string) string { return map[string]string{"GOPATH": "go"}[name] }}.ProfileFor(name, "")
			if err != nil {
				t.Fatal(err)
			}
			to := t.TempDir()
			got := fillHome(t, p, to, t.TempDir())
			if len(p.Mounts) > 0 || strings.Contains(got[".codex/config.toml"], "model") || name != "codex" && len(got) > 0 {
				t.Errorf("%s from %q: got %q, %v", name, home, got, p.Mounts)
			}
		}
	}
}

// TestGoModules checks that modules come from the user's module cache.
func TestGoModules(t *testing.T) {
	home := t.TempDir()
	for dir, env := range map[string]map[string]string{
		"go/pkg/mod":  {},
		"a/pkg/mod":   {"GOPATH": filepath.Join(home, "a") + string(filepath.ListSeparator) + filepath.Join(home, "b")},
		"modules":     {"GOMODCACHE": filepath.Join(home, "modules"), "GOPATH": filepath.Join(home, "a"), "GOPROXY": "https://proxy.example"},
		"not/at/home": {"GOMODCACHE": filepath.Join(home, "none")},
	} {
		want := filepath.Join(home, dir, "cache", "download")
		if err := os.MkdirAll(want, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := User{Home: home, Getenv: func(name string) string { return env[name] }}.ProfileFor("go", "")
		if err != nil {
			t.Fatal(err)
		}
		if dir == "not/at/home" {
			if len(p.Mounts) > 0 {
				t.Errorf("got %v for a missing directory", p.Mounts)
			}
			continue
		}
		proxy := "GOPROXY=file:///cache/go-mod,direct"
		if env["GOPROXY"] != "" {
			proxy = "GOPROXY=file:///cache/go-mod,https://proxy.example"
		}
		if len(p.Mounts) != 1 || string(p.Mounts[0].Source) != want || !slices.Contains(p.Set, proxy) {
			t.Errorf("%v: got %v, %q; want %s, %s", env, p.Mounts, p.Set, want, proxy)
		}
	}
}

// TestGoSettings checks that the settings of go env -w count in the jail, after variables and
// before the defaults of the Go that PATH finds.
func TestGoSettings(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	for _, err := range []error{os.MkdirAll(filepath.Join(home, "sdk", "bin"), 0o755), os.Mkdir(bin, 0o755),
		os.WriteFile(filepath.Join(home, "sdk", "bin", "go"), nil, 0o755), os.Symlink("../sdk/bin/go", filepath.Join(bin, "go")),
		os.WriteFile(filepath.Join(home, "sdk", "go.env"), []byte("# defaults\nGOPROXY=https://default.example,direct\n"), 0o644), os.MkdirAll(filepath.Join(home, ".config", "go"), 0o755),
		os.WriteFile(filepath.Join(home, ".config", "go", "env"), []byte("GOPROXY=https://written.example\nGOSUMDB=off\nGOPRIVATE=user:secret@host.example\nGOBIN=/elsewhere\n"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for proxy, env := range map[string]map[string]string{"https://written.example": {}, "https://mine.example": {"GOPROXY": "https://mine.example"},
		"https://default.example,direct": {"GOENV": "off", "PATH": "/nowhere" + string(filepath.ListSeparator) + bin}, "direct": {"GOENV": "off"}, "off": {"GOPROXY": "https://user:secret@mine.example"}} {
		p, err := User{Home: home, Getenv: func(name string) string { return env[name] }}.ProfileFor("go", "")
		want := []string{"GOPROXY=file:///cache/go-mod," + proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw"}
		if env["GOENV"] == "off" {
			want = slices.Delete(want, 1, 2)
		}
		if err != nil || !slices.Equal(p.Set, want) {
			t.Errorf("%v: got %q, %v; want %q", env, p.Set, err, want)
		}
	}
}

// TestRoomy checks that a program gets higher limits than a command, unless they are set.
func TestRoomy(t *testing.T) {
	if got := Roomy(jail.Limits{}); got.Memory <= 2<<30 || got.Processes <= 512 || got.Files <= 1024 || got.FileSize <= 1<<30 || got.Time != 0 || got.CPU != 0 {
		t.Errorf("got %+v", got)
	}
	set := jail.Limits{Memory: 1, Processes: 2, Files: 3, FileSize: 4, Temp: 5}
	if got := Roomy(set); got != set {
		t.Errorf("got %+v, want %+v", got, set)
	}
}

// TestProfilesGuide checks that the guide names everything in the profiles.
func TestProfilesGuide(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles("/home/me", noVariables) {
		names := slices.Concat(p.Programs, p.Copies, p.Logins, p.Env, p.Keys, p.Set)
		for _, l := range p.Lines {
			text, _, _ := strings.Cut(l.String(), " in ~/")
			names = append(names, text)
		}
		for _, d := range p.Private {
			names = append(append(names, d.Dir), d.Keeps...)
		}
		for _, name := range names {
			if !strings.Contains(string(guide), "`"+name+"`") {
				t.Errorf("%s: the guide does not name %s", p.Name, name)
			}
		}
	}
}

// TestGeminiRestarts checks that Gemini CLI can restart itself. It takes SANDBOX as a
// sign that it is inside its own sandbox, and then exits with 199 where it would restart,
// as after the trust question. GEMINI_SANDBOX=false prevents it from starting a sandbox.
func TestGeminiRestarts(t *testing.T) {
	p, err := User{Home: t.TempDir(), Getenv: noVariables}.ProfileFor("gemini", "")
	if err != nil {
		t.Fatal(err)
	}
	sets := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(p.Set, p.Env, p.Keys), func(e string) bool { return e == name || strings.HasPrefix(e, name+"=") })
	}
	if sets("SANDBOX") || !slices.Contains(p.Set, "GEMINI_SANDBOX=false") {
		t.Errorf("got %q", p.Set)
	}
}

// TestCredentialsStayInMemory checks that golem writes no credential of any profile to
// disk, and passes the files in memory.
func TestCredentialsStayInMemory(t *testing.T) {
	t.Parallel()
	const secret = "CREDENTIAL"
	for _, known := range profiles("/nowhere", noVariables) {
		user, home, kept := t.TempDir(), t.TempDir(), t.TempDir()
		files := make(map[string]string)
		for _, login := range known.Logins {
			files[login] = secret
		}
		writeFiles(t, user, files)
		p, err := User{Home: user, Getenv: noVariables}.ProfileFor(known.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		private, err := p.Fill(home, kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{home, kept} {
			for name, text := range listFiles(t, dir) {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s is on disk", p.Name, name)
				}
			}
		}
		handed := 0
		for _, d := range private {
			for _, f := range d.Files {
				handed += strings.Count(string(f.Data), secret)
			}
		}
		if (handed > 0) != (len(known.Logins) > 0) { // the program gets only a part of some files
			t.Errorf("%s: the program got %d credentials of %d", p.Name, handed, len(known.Logins))
		}
	}
}

// TestBuiltInFiles checks that each built-in file is a profile, and that each can be the
// user's own file.
func TestBuiltInFiles(t *testing.T) {
	entries, err := builtInFiles.ReadDir("builtin")
	if err != nil || len(entries) != len(builtInNames) {
		t.Errorf("%d files for %d names, %v", len(entries), len(builtInNames), err)
	}
	u := User{Home: "/home/me", Getenv: noVariables, Profiles: t.TempDir()}
	programs := map[string]string{}
	for _, name := range builtInNames {
		data, err := builtInFiles.ReadFile("builtin/" + name + ownEnding)
		if err != nil {
			t.Fatal(err)
		}
		writeFiles(t, u.Profiles, map[string]string{"mine.yaml": string(data)})
		p, _, err := u.readOwn("mine")
		want, _ := readBuiltIn(name)
		for _, program := range want.Programs {
			programs[program] = name
		}
		p.Name, p.File, p.Alone, p.Mounts, p.Set = want.Name, "", false, nil, want.Set
		if err != nil || !reflect.DeepEqual(p, want) {
			t.Errorf("%s as an own profile: got %+v, %v, want %+v", name, p, err, want)
		}
	}
	if !maps.Equal(programs, builtInPrograms) {
		t.Errorf("the files name the programs %v, the table %v", programs, builtInPrograms)
	}
}

// TestOwnDetails checks keys that only built-in profiles needed at first.
func TestOwnDetails(t *testing.T) {
	u := User{Home: "/home/me", Getenv: noVariables, Profiles: t.TempDir()}
	writeFiles(t, u.Profiles, map[string]string{"right.yaml": `quiet: [NO_NEWS=1]
lines: [{file: .tool.toml, section: net, key: proxy, value: '"off"'}]
credentials:
  env: [TOOL_HEADERS]
  unlimited: [TOOL_HEADERS]
  outside: [{name: tool, from: ["env:TOOL_KEY", "file:.tool/auth.json#key"], shared: true, header: "x-key: ${value}", hosts: [tool.example]}]
`})
	p, _, err := u.readOwn("right")
	shared := []Key{{Name: "tool", Variable: "TOOL_KEY", Header: "x-key: ${value}", Hosts: []string{"tool.example"}},
		{Name: "tool", File: ".tool/auth.json", Field: "key", Shared: true, Header: "x-key: ${value}", Hosts: []string{"tool.example"}}}
	if err != nil || !slices.Equal(p.Quiet, []string{"NO_NEWS=1"}) || !slices.Equal(p.Dropped, []string{"TOOL_HEADERS"}) ||
		!slices.Equal(p.Lines, []Line{{".tool.toml", "net", "proxy", `"off"`}}) || !reflect.DeepEqual(p.Outside, shared) {
		t.Errorf("got %+v, %v", p, err)
	}
	writeFiles(t, u.Profiles, map[string]string{"wrong.yaml": "lines: [{file: /etc/x, key: a, value: b}]\nquiet: [NAME]\nreads: [https://x/y]\ncredentials: {directories: [../x], unlimited: [A-B]}\n"})
	_, _, err = u.readOwn("wrong")
	for _, want := range []string{"lines: not a setting", "quiet: NAME; write NAME=value", "reads: https://x/y", "credentials.directories: ../x", "credentials.unlimited: A-B"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
