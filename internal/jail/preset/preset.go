// Package preset finds the hosts from which the user's package clients download. A preset
// has no host of its own: golem asks the client, with the user's own settings and in an
// empty directory. So a company's mirror counts, and the settings of a project do not.
package preset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A Preset is a named set of hosts.
type Preset struct {
	Name  string
	About string // which hosts these are, and how golem finds them
	find  func(context.Context, Client) ([]policy.HostRule, error)
}

// All returns all presets, ordered by name: those of policy.PresetNames.
func All() []Preset {
	return []Preset{
		{"debian", "the package sources of apt: apt-get indextargets", findDebian},
		{"go", "the module proxy and the checksum database of Go: go env GOPROXY GOSUMDB", findGo},
		{"npm", "the registries of npm: npm config list", findNpm},
		{"pypi", "the package indexes of pip: pip config list", findPyPI},
	}
}

// Named returns the preset with a name, false if there is none.
func Named(name string) (Preset, bool) {
	all := All()
	i := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return all[i], true
}

// A Client runs the user's package clients.
type Client struct {
	Environ []string // the user's, with a PATH without directories that others can write to
	Dir     string   // an empty directory
}

// Limits for a package client.
const (
	maxTime   = 20 * time.Second
	maxOutput = 1 << 20
)

// Hosts asks the package client of a preset. The rules let only reads pass, except for
// requests that the client needs to write.
func (p Preset) Hosts(ctx context.Context, c Client) ([]policy.HostRule, error) {
	rules, err := p.find(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	return rules, nil
}

// run returns what a program prints to standard output.
func (c Client) run(ctx context.Context, name string, args ...string) (string, error) {
	file := c.lookUp(name)
	if file == "" {
		return "", fmt.Errorf("no program %s in your PATH: %w", name, fs.ErrNotExist)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	out, problem := &limited{most: maxOutput}, &limited{most: 200}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Dir, c.environ(), out, problem, 10*time.Second
	err := cmd.Run()
	line := strings.Join(append([]string{name}, args...), " ")
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s took longer than %s", line, maxTime)
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimSpace(problem.text.String()), "\n")
		return "", fmt.Errorf("%s failed: %w: %q", line, err, first)
	case out.full:
		return "", fmt.Errorf("%s printed more than %d bytes", line, maxOutput)
	}
	return out.text.String(), nil
}

// lookUp returns the file of a program, "" if there is none.
func (c Client) lookUp(name string) string {
	for _, v := range c.Environ {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err == nil && filepath.IsAbs(dir) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return ""
}

// environ returns the environment for clients. The scripts of npm get the settings of
// their project in variables, which must not count. PWD must be the directory, or a
// client could look for settings in another.
func (c Client) environ() []string {
	script := slices.ContainsFunc(c.Environ, func(v string) bool { return strings.HasPrefix(v, "npm_lifecycle_event=") })
	list := slices.DeleteFunc(slices.Clone(c.Environ), func(v string) bool {
		return strings.HasPrefix(v, "PWD=") || strings.HasPrefix(v, "OLDPWD=") || strings.HasPrefix(v, "GOTOOLCHAIN=") ||
			strings.HasPrefix(v, "INIT_CWD=") || script && strings.HasPrefix(strings.ToLower(v), "npm_")
	})
	return append(list, "PWD="+c.Dir, "GOTOOLCHAIN=local") // go env must not download another Go
}

// limited keeps the first bytes.
type limited struct {
	text strings.Builder
	most int
	full bool
}

func (l *limited) Write(b []byte) (int, error) {
	kept := b
	if room := l.most - l.text.Len(); len(b) > room {
		l.full, kept = true, b[:room]
	}
	l.text.Write(kept)
	return len(b), nil
}

// readOnly are the methods of all rules, except for those that a preset names.
func readOnly() []string { return []string{"GET", "HEAD"} }

// ruleFor returns the rule for reads from a URL. It returns false for anything but HTTP,
// such as a directory.
func ruleFor(text string) (policy.HostRule, bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return policy.HostRule{}, false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	r, err := policy.ParseHost(net.JoinHostPort(u.Hostname(), port))
	r.Methods = readOnly()
	return r, err == nil && !strings.HasPrefix(r.Host, "*")
}

// rulesFor returns the rules for reads from URLs.
func rulesFor(urls []string) (list []policy.HostRule) {
	for _, text := range urls {
		if r, ok := ruleFor(text); ok {
			list = append(list, r)
		}
	}
	return policy.HostsOfRules(list...).Rules()
}

func findGo(ctx context.Context, c Client) ([]policy.HostRule, error) {
	out, err := c.run(ctx, "go", "env", "GOPROXY", "GOSUMDB")
	if err != nil {
		return nil, err
	}
	proxies, sums, _ := strings.Cut(strings.TrimRight(out, "\n"), "\n")
	urls := strings.FieldsFunc(proxies, func(r rune) bool { return r == ',' || r == '|' })
	// The checksum database is off, NAME, NAME+KEY or either with a URL after it.
	switch words := strings.Fields(sums); {
	case len(words) > 1:
		urls = append(urls, words[1])
	case len(words) == 1 && words[0] != "off":
		name, _, _ := strings.Cut(words[0], "+")
		urls = append(urls, "https://"+name)
	}
	return rulesFor(urls), nil
}

func findNpm(ctx context.Context, c Client) ([]policy.HostRule, error) {
	out, err := c.run(ctx, "npm", "config", "list", "--json")
	if err != nil {
		return nil, err
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(out), &settings); err != nil {
		return nil, errors.New("npm config list --json printed no JSON")
	}
	var rules []policy.HostRule
	for name, value := range settings {
		text, _ := value.(string)
		if name != "registry" && !strings.HasSuffix(name, ":registry") {
			continue
		}
		r, ok := ruleFor(text)
		if !ok {
			continue
		}
		// npm install and npm audit ask which of the packages have known problems.
		audit := r
		audit.Methods, audit.Paths = []string{"POST"}, []string{auditPath(text)}
		if audit.Validate() != nil {
			rules = append(rules, r)
			continue
		}
		rules = append(rules, r, audit)
	}
	return policy.HostsOfRules(rules...).Rules(), nil
}

// auditPath returns the paths at which a registry of npm answers questions about known
// problems of packages.
func auditPath(registry string) string {
	u, err := url.Parse(registry)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.Path, "/") + "/-/npm/v1/security/**"
}

func findPyPI(ctx context.Context, c Client) ([]policy.HostRule, error) {
	python := "python3"
	if c.lookUp(python) == "" {
		python = "python"
	}
	out, err := c.run(ctx, python, "-m", "pip", "config", "list")
	if err != nil {
		return nil, err
	}
	var urls []string
	replaced := false
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		key = key[strings.LastIndexByte(key, '.')+1:]
		// A value is a text of Python, with more than one URL in lines.
		value = strings.ReplaceAll(strings.Trim(value, `'"`), `\n`, " ")
		switch key {
		case "index-url", "no-index":
			replaced = true
			urls = append(urls, strings.Fields(value)...)
		case "extra-index-url", "find-links":
			urls = append(urls, strings.Fields(value)...)
		}
	}
	if !replaced {
		const defaults = "from pip._internal.models.index import PyPI\nprint(PyPI.simple_url)\nprint('https://' + PyPI.file_storage_domain)"
		if out, err = c.run(ctx, python, "-c", defaults); err != nil {
			return nil, err
		}
		urls = append(urls, strings.Fields(out)...)
	}
	return rulesFor(urls), nil
}

func findDebian(ctx context.Context, c Client) ([]policy.HostRule, error) {
	out, err := c.run(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)")
	if err != nil {
		return nil, err
	}
	return rulesFor(strings.Fields(out)), nil
}
