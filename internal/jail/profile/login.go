package profile

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A Login is a key that the user has.
type Login struct {
	Key
	Value string
	Rules []policy.HostRule // for the hosts that it is for
	Plain bool              // the user's own server has an address that begins with http://
}

// minKey is the length of the shortest key that golem can tell from other text.
const minKey = 8

// FindLogins returns the logins that the user has for the program, at most one for each
// name: the first in the order of the profile. The function returns a secret by name, and
// an error for one that does not exist.
func (p Profile) FindLogins(getenv func(string) string, secret func(string) (string, error)) []Login {
	var list []Login
	for _, k := range p.Outside {
		if slices.ContainsFunc(list, func(l Login) bool { return l.Name == k.Name }) {
			continue
		}
		l := Login{Key: k}
		l.Rules, l.Plain = k.rules(getenv)
		switch {
		case k.Variable != "":
			l.Value = strings.TrimSpace(getenv(k.Variable))
		case k.File != "" && p.Home != "":
			l.Value = readField(filepath.Join(p.Home, k.File), k.Field)
		case k.Secret != "":
			l.Value, _ = secret(k.Secret)
		}
		plain := !strings.ContainsFunc(l.Value, func(r rune) bool { return r <= ' ' || r >= 0x7f })
		if len(l.Value) >= minKey && plain {
			list = append(list, l)
		}
	}
	return list
}

// rules returns the rules for the hosts of a key, or for the server that the user chose
// instead. Plain says that the user wrote http:// before that server.
func (k Key) rules(getenv func(string) string) (list []policy.HostRule, plain bool) {
	if k.Server != "" && getenv(k.Server) != "" {
		r, plain, ok := parseServer(getenv(k.Server))
		if !ok {
			return nil, false
		}
		r.Credential = k.Name
		return []policy.HostRule{r}, plain
	}
	for _, host := range k.Hosts {
		if r, err := policy.ParseHost(host); err == nil {
			r.Credential = k.Name
			list = append(list, r)
		}
	}
	return list, false
}

// parseServer returns the rule for the host of a URL. The name localhost stands for
// 127.0.0.1.
func parseServer(text string) (r policy.HostRule, plain, ok bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return r, false, false
	}
	host, port := u.Hostname(), u.Port()
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	r, err = policy.ParseHost(net.JoinHostPort(host, port))
	return r, u.Scheme == "http", err == nil
}

// Needs are the hosts that a program needs.
type Needs struct {
	Rules   []policy.HostRule
	Private []string // names of servers that the user chose, which may lead to a private address
	Instead []string // hosts of a vendor that such a server replaces
}

// Needs returns the hosts that the program needs: those of its logins, servers that the
// user chose, those from which it reads, and those from which git reads. Without a login
// it has no host of the vendor: a program with a key of its own could send everything
// there.
func (p Profile) Needs(logins []Login, getenv func(string) string) Needs {
	var n Needs
	add := func(list ...policy.HostRule) {
		for _, r := range list {
			same := func(s policy.HostRule) bool { return s.Host == r.Host && slices.Equal(s.Ports, r.Ports) }
			if !slices.ContainsFunc(n.Rules, same) {
				n.Rules = append(n.Rules, r)
			}
		}
	}
	for _, l := range logins {
		add(l.Rules...)
	}
	for _, k := range p.Outside {
		r, _, ok := parseServer(getenv(k.Server))
		if k.Server == "" || !ok {
			continue
		}
		add(r)
		if !isAddress(r.Host) && !slices.Contains(n.Private, r.Host) {
			n.Private = append(n.Private, r.Host)
		}
		n.Instead = append(n.Instead, k.Hosts...)
	}
	for _, host := range p.Reads {
		n.Rules = append(n.Rules, policy.HostRule{Host: host, Methods: []string{"GET", "HEAD"}})
	}
	for _, host := range p.Hosts {
		if r, err := policy.ParseHost(host); err == nil {
			n.Rules = append(n.Rules, r)
		}
	}
	if len(p.Outside) > 0 && !p.Alone {
		for _, host := range gitHosts() {
			n.Rules = append(n.Rules, policy.HostRule{Host: host, GitRead: true})
		}
	}
	slices.Sort(n.Instead)
	n.Instead = slices.DeleteFunc(slices.Compact(n.Instead), func(host string) bool {
		return slices.ContainsFunc(n.Rules, func(r policy.HostRule) bool { return r.Host == host })
	})
	return n
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// A Replacement is a text that golem replaces in the copies of files.
type Replacement struct{ Value, Placeholder string }

// WithoutKeys returns the profile for a network on which golem adds the logins. The program
// gets none of the variables that hold keys, and placeholders in the copies of files.
// Known are the placeholders of the logins. NewPlaceholder makes one for a token that
// golem never sends, such as that for a renewal.
func (p Profile) WithoutKeys(logins []Login, known []Replacement, newPlaceholder func(string) (string, error), getenv func(string) string) Profile {
	if len(p.Outside) == 0 {
		return p
	}
	p.HasLogin = len(logins) > 0
	p.replaced = nil
	for _, r := range known {
		p.replaced = append(p.replaced, r)
		// Claude Code stores the end of a key to remember that the user approved it.
		const end = 20
		if n := len(r.Value); n > end && n == len(r.Placeholder) {
			p.replaced = append(p.replaced, Replacement{r.Value[n-end:], r.Placeholder[n-end:]})
		}
	}
	p.Keys = slices.DeleteFunc(slices.Clone(p.Keys), func(name string) bool {
		isKey := len(getenv(name)) >= minKey // local servers have keys such as "none"
		return isKey && slices.ContainsFunc(p.Outside, func(k Key) bool { return k.Variable == name }) || slices.Contains(p.Dropped, name)
	})
	p.Hidden = nil
	for _, file := range p.Logins {
		if slices.ContainsFunc(p.Outside, func(k Key) bool { return k.File == file && !k.Shared }) {
			p.replaceTokens(file, newPlaceholder)
		}
		if p.isHidden(file) {
			p.Hidden = append(p.Hidden, file)
		}
	}
	for _, e := range p.Quiet {
		if name, _, _ := strings.Cut(e, "="); getenv(name) == "" {
			p.Set = append(slices.Clip(p.Set), e)
		}
	}
	return p
}

// isHidden reports whether the copy of a file has no credential. Without a known format
// golem cannot tell.
func (p Profile) isHidden(file string) bool {
	name := filepath.Join(p.Home, file)
	if _, err := parseLogin(name); err != nil && filepath.Ext(file) == ".json" {
		return false
	}
	data := readLogin(name)
	return data != nil && !holdsToken(p.filter(file, data), p.replaced)
}

// HasPlaceholders reports whether the copy of a file has a placeholder.
func (p Profile) HasPlaceholders(file string) bool {
	data := p.filter(file, readLogin(filepath.Join(p.Home, file)))
	return slices.ContainsFunc(p.replaced, func(r Replacement) bool { return bytes.Contains(data, []byte(r.Placeholder)) })
}

// LoginAdvice says how the user can log in.
func (p Profile) LoginAdvice() string {
	for _, k := range p.Outside {
		if k.Secret != "" {
			return "set " + k.As + ", store a key with golem secret set " + k.Secret + ", or log in outside first"
		}
	}
	return "log in outside first"
}

// replaceTokens adds replacements for all tokens of a file.
func (p *Profile) replaceTokens(file string, newPlaceholder func(string) (string, error)) {
	for _, value := range readTokens(filepath.Join(p.Home, file)) {
		if slices.ContainsFunc(p.replaced, func(r Replacement) bool { return r.Value == value }) {
			continue
		}
		if placeholder, err := newPlaceholder(value); err == nil {
			p.replaced = append(p.replaced, Replacement{value, placeholder})
		}
	}
}

// hide replaces the credentials in the copy of a file, the longest first.
func (p Profile) hide(data []byte) []byte {
	list := slices.SortedStableFunc(slices.Values(p.replaced), func(a, b Replacement) int { return len(b.Value) - len(a.Value) })
	for _, r := range list {
		data = bytes.ReplaceAll(data, []byte(r.Value), []byte(r.Placeholder))
	}
	return data
}

// assignment matches a name and a text in quotes, as JSON, TOML and shells write them.
var assignment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`["']?([A-Za-z0-9_-]+)["']?\s*[:=]\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',{}\[\]]+))`)
})

// holdsToken reports whether a file in any format may have a credential that is no
// placeholder.
func holdsToken(data []byte, replaced []Replacement) bool {
	for _, m := range assignment().FindAllSubmatch(data, -1) {
		value := string(slices.Concat(m[2], m[3], m[4]))
		isReference := strings.HasPrefix(value, "$") || strings.HasPrefix(value, "{")
		isPlaceholder := slices.ContainsFunc(replaced, func(r Replacement) bool { return strings.Contains(value, r.Placeholder) })
		if isTokenName(string(m[1])) && len(value) >= minKey && !isReference && !isPlaceholder {
			return true
		}
	}
	return false
}

// readLogin reads a file of the user that holds credentials. It returns nil if there is
// none, or it is too large for one.
func readLogin(name string) []byte {
	const most = 1 << 20
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || len(data) > most {
		return nil
	}
	return data
}

// parseLogin returns the fields of a file with credentials. It reads JSON, and lines
// NAME=value of a file .env.
func parseLogin(name string) (map[string]any, error) {
	data := readLogin(name)
	if data == nil {
		return nil, fs.ErrNotExist
	}
	fields := make(map[string]any)
	if filepath.Base(name) != ".env" {
		return fields, json.Unmarshal(data, &fields)
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok && !strings.HasPrefix(key, "#") {
			fields[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return fields, nil
}

// readField returns a text of a file with credentials, "" if it has none.
func readField(name, field string) string {
	fields, err := parseLogin(name)
	var at any = fields
	for key := range strings.SplitSeq(field, ".") {
		m, ok := at.(map[string]any)
		if err != nil || !ok {
			return ""
		}
		at = m[key]
	}
	text, _ := at.(string)
	return text
}

// readTokens returns all texts of a file that are credentials by the name of their field.
func readTokens(name string) (tokens []string) {
	fields, err := parseLogin(name)
	if err != nil {
		return nil
	}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, v := range v {
				walk(key, v)
			}
		case []any:
			for _, v := range v {
				walk(key, v)
			}
		case string:
			if isTokenName(key) && len(v) >= minKey && !slices.Contains(tokens, v) {
				tokens = append(tokens, v)
			}
		}
	}
	walk("", fields)
	slices.Sort(tokens)
	return tokens
}
