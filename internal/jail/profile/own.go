package profile

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// ownEnding is the extension of profile files.
const ownEnding = ".yaml"

// aboutOwn describes a profile whose file has no description.
const aboutOwn = "your own profile"

// Schema describes the file of a profile.
func Schema() strictyaml.Key {
	return strictyaml.Key{Name: "profile", Type: strictyaml.Group, Empty: true, Keys: []strictyaml.Key{
		{Name: "description", Type: strictyaml.Text, Doc: "One line that the start shows."},
		{Name: "extends", Type: strictyaml.Text, Doc: "A built-in profile to start from."},
		{Name: "programs", Type: strictyaml.Texts, Doc: "Programs that the profile is for, besides the one of its name."},
		{Name: "files", Type: strictyaml.Texts, Doc: "Files and directories of your home without credentials; golem copies them into the program's home."},
		{Name: "env", Type: strictyaml.Texts, Doc: "Environment variables: NAME passes on yours, NAME=value sets one."},
		{Name: "credentials", Type: strictyaml.Group, Doc: "What the program can log in with.", Keys: []strictyaml.Key{
			{Name: "files", Type: strictyaml.Texts, Doc: "Files of your home; the directories that they are in are in memory and end with the program."},
			{Name: "directories", Type: strictyaml.Texts, Doc: "More directories that are in memory and end with the program."},
			{Name: "env", Type: strictyaml.Texts, Doc: "Environment variables."},
			{Name: "unlimited", Type: strictyaml.Texts, Doc: "Those of env that the program gets only if the network is not limited to hosts."},
			{Name: "outside", Type: strictyaml.Groups, Doc: "Credentials that golem adds to requests, if the network is limited to hosts. The program gets placeholders.", Keys: []strictyaml.Key{
				{Name: "from", Type: strictyaml.Text, Or: []strictyaml.Key{{Type: strictyaml.Texts}},
					Doc: "The source, or several of which the first that exists counts: env:NAME is an environment variable, keyring:NAME a secret of golem secret, and file:PATH#FIELD a field of a JSON file of your home."},
				{Name: "name", Type: strictyaml.Text, Doc: "The name of the credential, by default that of the source. Of several with one name the first that exists counts."},
				{Name: "shared", Type: strictyaml.Bool, Doc: "The file also holds keys for other purposes, which stay as they are."},
				{Name: "header", Type: strictyaml.Text, Doc: "The header that golem sets, with ${value} for the value."},
				{Name: "hosts", Type: strictyaml.Texts, Doc: "The hosts that get it."},
				{Name: "env", Type: strictyaml.Text, Doc: "The variable in which the program gets the placeholder, unless from names one."},
				{Name: "base_url", Type: strictyaml.Text, Doc: "Your environment variable with the URL of another server, which replaces the hosts."},
			}},
			{Name: "keep", Type: strictyaml.Texts, Doc: "Directories beside the credential files that stay with the session, such as conversations."},
		}},
		{Name: "network", Type: strictyaml.Bool, Doc: "The program needs the network: the start warns if it is off."},
		{Name: "hosts", Type: strictyaml.Texts, Doc: "Hosts that the program needs. Without --net it reaches these, and golem asks about others."},
		{Name: "reads", Type: strictyaml.Texts, Doc: "Hosts from which the program only reads."},
		{Name: "optional", Type: strictyaml.Texts, Doc: "Hosts that the program asks for and does not need. Without --net golem refuses these without a question."},
		{Name: "quiet", Type: strictyaml.Texts, Doc: "Variables, NAME=value, that golem sets if the network is limited to hosts, so that the program asks for fewer."},
		{Name: "lines", Type: strictyaml.Groups, Doc: "Settings that a file of the program's home always has, whatever your own file says.", Keys: []strictyaml.Key{
			{Name: "file", Type: strictyaml.Text, Doc: "The file, with lines KEY = VALUE."},
			{Name: "section", Type: strictyaml.Text, Doc: "The section of the file."},
			{Name: "key", Type: strictyaml.Text, Doc: "The key."},
			{Name: "value", Type: strictyaml.Text, Doc: "The value, as the file writes it."},
		}},
	}}
}

// readOwn reads the named profile from the user's directory. It reports whether it
// exists.
func (u User) readOwn(name string) (Profile, bool, error) {
	file := filepath.Join(u.Profiles, name+ownEnding)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, false, nil
	}
	if err != nil {
		return Profile{}, false, plainError(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strictyaml.MaxFile+1))
	if err != nil {
		return Profile{}, false, plainError(file, err)
	}
	p, err := parse(name, file, data, u.builtIn)
	return p, true, err
}

// own returns the profile that a checked file describes.
func own(name string, root strictyaml.Node, builtIn func(string) (Profile, bool)) (Profile, error) {
	var problems strictyaml.Problems
	texts := func(check func(string) string, keys ...string) []string {
		n, _ := root.At(keys...)
		list := n.Texts()
		for i, text := range list {
			if hint := check(text); hint != "" {
				place := n.Place
				if i < len(n.Items) {
					place = n.Items[i].Place
				}
				problems = append(problems, strictyaml.Problem{Place: place, What: strings.Join(keys, ".") + ": " + sandbox.Shown(text), Hint: hint})
			}
		}
		return list
	}
	p := Profile{Name: name, About: aboutOwn, Alone: true}
	if n, ok := root.At("extends"); ok {
		var ok bool
		if p, ok = builtIn(n.Text); !ok {
			problems = append(problems, strictyaml.Problem{Place: n.Place, What: "extends: " + sandbox.Shown(n.Text), Hint: "built-in profiles are " + strings.Join(builtInNames, ", ")})
		}
		p.Name = name
	}
	root.Decode(map[string]any{"description": &p.About, "network": &p.Net}, nil)
	p.Programs = texts(checkProgram, "programs")
	p.Copies = slices.Concat(p.Copies, texts(checkHomePath, "files"))
	p.Hosts = slices.Concat(p.Hosts, texts(checkHost, "hosts"))
	p.Reads = slices.Concat(p.Reads, texts(checkHost, "reads"))
	p.Quiet = slices.Concat(p.Quiet, texts(checkSetting, "quiet"))
	for _, host := range texts(checkHost, "optional") {
		if r, err := policy.ParseHost(host); err == nil {
			p.Optional = append(slices.Clip(p.Optional), r.Host)
		}
	}
	for _, e := range texts(checkVariable, "env") {
		if strings.Contains(e, "=") {
			p.Set = append(slices.Clip(p.Set), e)
		} else {
			p.Env = append(slices.Clip(p.Env), e)
		}
	}
	p.Keys = slices.Concat(p.Keys, texts(checkName, "credentials", "env"))
	p.Dropped = slices.Concat(p.Dropped, texts(checkName, "credentials", "unlimited"))
	p.Lines = slices.Concat(p.Lines, readLines(root, &problems))
	outside, _ := root.At("credentials", "outside")
	keys := readKeys(outside, &problems)
	p.Outside = slices.Concat(keys, p.Outside)
	for _, k := range keys { // with an unlimited network the program gets the key itself
		if k.Variable != "" && !slices.Contains(p.Keys, k.Variable) {
			p.Keys = append(slices.Clip(p.Keys), k.Variable)
		}
	}
	p.Private = slices.Clone(p.Private)
	for _, dir := range texts(checkHomePath, "credentials", "directories") {
		p.addPrivate(dir)
	}
	for _, file := range texts(checkCredential, "credentials", "files") {
		p.Logins = append(slices.Clip(p.Logins), file)
		p.addPrivate(path.Dir(target(file)))
	}
	for _, dir := range texts(checkHomePath, "credentials", "keep") {
		i := slices.IndexFunc(p.Private, func(d Private) bool { return d.Dir != dir && within(d.Dir, dir) })
		holds := slices.IndexFunc(p.Logins, func(file string) bool { return within(dir, target(file)) })
		n, _ := root.At("credentials", "keep")
		switch {
		case i < 0:
			problems = append(problems, strictyaml.Problem{Place: n.Place, What: "credentials.keep: " + sandbox.Shown(dir),
				Hint: "name a directory below one that holds a credential file; all other directories are kept anyway"})
		case holds >= 0:
			problems = append(problems, strictyaml.Problem{Place: n.Place, What: "credentials.keep: " + sandbox.Shown(dir),
				Hint: "it holds the credential file " + p.Logins[holds] + ", which golem never keeps"})
		default:
			p.Private[i].Keeps = append(slices.Clip(p.Private[i].Keeps), strings.TrimPrefix(dir, p.Private[i].Dir+"/"))
		}
	}
	if len(problems) > 0 {
		return Profile{}, problems
	}
	return p, nil
}

// addPrivate adds a directory that is in memory, unless it is in another one. It hides any
// directory inside it.
func (p *Profile) addPrivate(dir string) {
	if slices.ContainsFunc(p.Private, func(d Private) bool { return within(d.Dir, dir) }) {
		return
	}
	var keeps []string
	p.Private = slices.DeleteFunc(p.Private, func(d Private) bool {
		if !within(dir, d.Dir) {
			return false
		}
		for _, keep := range d.Keeps {
			keeps = append(keeps, strings.TrimPrefix(path.Join(d.Dir, keep), dir+"/"))
		}
		return true
	})
	p.Private = append(p.Private, Private{Dir: dir, Keeps: keeps})
}

// readLines reads the settings that files of the home always have.
func readLines(root strictyaml.Node, problems *strictyaml.Problems) []Line {
	list, _ := root.At("lines")
	var lines []Line
	for _, item := range list.Items {
		var l Line
		item.Decode(map[string]any{"file": &l.File, "section": &l.Section, "key": &l.Key, "value": &l.Value}, nil)
		if checkHomePath(l.File) != "" || l.Key == "" || l.Value == "" || strings.ContainsAny(l.Section+l.Key+l.Value, "\r\n") {
			problems.Add(item, "lines: not a setting", "write {file: .config/tool.toml, key: NAME, value: VALUE}")
		}
		lines = append(lines, l)
	}
	return lines
}

const outsideLabel = "credentials.outside"

// readKeys reads the credentials that golem adds to requests.
func readKeys(list strictyaml.Node, problems *strictyaml.Problems) []Key {
	var keys []Key
	for _, item := range list.Items {
		from, _ := item.At("from")
		sources := from.Texts()
		if len(sources) == 0 {
			sources = []string{""}
		}
		k := readKey(item, problems)
		first := "" // the variable of the first source that has one
		for _, text := range sources {
			one := k
			hint := one.readSource(text)
			if hint != "" { // the text may be the secret itself
				problems.Add(orNode(from, item), outsideLabel+".from: no source", hint)
			}
			first = cmp.Or(first, one.Variable)
			if one.Secret != "" {
				one.As = cmp.Or(one.As, first)
			}
			one.Shared = one.Shared && one.File != ""
			keys = append(keys, one)
		}
	}
	return keys
}

// readSource sets the source of a key, and its name if it has none. It returns what to write
// instead, "" if the text is a source.
func (k *Key) readSource(text string) (hint string) {
	kind, source, _ := strings.Cut(text, ":")
	name := source
	hint = checkName(source)
	switch kind {
	case "env":
		k.Variable = source
	case "keyring":
		k.Secret, hint = source, checkProgram(source)
	case "file":
		k.File, k.Field, _ = strings.Cut(source, "#")
		if name, hint = path.Base(k.File), checkCredential(k.File); k.Field == "" {
			hint = "name the field after #, such as file:.config/tool/auth.json#tokens.access"
		}
	default:
		hint = "write env:NAME, keyring:NAME or file:PATH#FIELD"
	}
	k.Name = cmp.Or(k.Name, name)
	return hint
}

// readKey reads everything about a credential except its source.
func readKey(item strictyaml.Node, problems *strictyaml.Problems) Key {
	var k Key
	header, _ := item.At("header")
	hosts, _ := item.At("hosts")
	item.Decode(map[string]any{"name": &k.Name, "header": &k.Header, "hosts": &k.Hosts, "shared": &k.Shared, "env": &k.As, "base_url": &k.Server}, nil)
	if why := secret.CheckHeader(header.Text); why != "" {
		problems.Add(orNode(header, item), outsideLabel+".header: "+why, `write one such as "Authorization: Bearer ${value}"`)
	}
	for _, n := range hosts.Items {
		if _, err := policy.ParseHost(n.Text); err != nil {
			what, hint, _ := strings.Cut(err.Error(), "; ")
			problems.Add(n, outsideLabel+".hosts: "+what, hint)
		}
	}
	if len(k.Hosts) == 0 {
		problems.Add(item, outsideLabel+" has no hosts", "name the hosts that get the credential: hosts: [api.example.com]")
	}
	for _, name := range []string{"env", "base_url"} {
		if n, ok := item.At(name); ok && checkName(n.Text) != "" {
			problems.Add(n, outsideLabel+"."+name+": "+sandbox.Shown(n.Text), checkName(n.Text))
		}
	}
	return k
}

// orNode returns a node, or another if the file does not have it.
func orNode(n, other strictyaml.Node) strictyaml.Node {
	if n.Place == (strictyaml.Place{}) {
		return other
	}
	return n
}

// ownNames returns the names of the user's own profiles.
func (u User) ownNames() ([]string, error) {
	if u.Profiles == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(u.Profiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, plainError(u.Profiles, err)
	}
	var names []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ownEnding)
		if !ok {
			continue
		}
		if checkProgram(name) != "" {
			return nil, &sandbox.Error{Op: "profile", Path: filepath.Join(u.Profiles, e.Name()), Code: sandbox.ErrInvalid,
				Hint: "the name of a profile has letters, digits, ., _ and -; rename the file"}
		}
		names = append(names, name)
	}
	return names, nil
}

// Each check below returns what is allowed instead, or "" for a valid value.

func checkProgram(name string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune("._-+", r) && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}
	if name == "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, odd) {
		return "name the program alone, without a directory"
	}
	return ""
}

func checkHomePath(name string) string {
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return "name a file or directory by its path from your home directory, such as .config/tool"
	}
	return ""
}

func checkCredential(name string) string {
	if hint := checkHomePath(name); hint != "" {
		return hint
	}
	if path.Dir(target(name)) == "." {
		return "golem keeps credentials in memory by directory, so a file in the home directory itself cannot be one; pass on a variable by credentials.env instead"
	}
	return ""
}

func checkName(name string) string {
	odd := func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' || strings.ContainsFunc(name, odd) {
		return "name an environment variable; names have letters, digits and _"
	}
	return ""
}

func checkVariable(text string) string {
	name, value, _ := strings.Cut(text, "=")
	if strings.ContainsRune(value, 0) {
		return "a value has no NUL byte"
	}
	return checkName(name)
}

func checkSetting(text string) string {
	if !strings.Contains(text, "=") {
		return "write NAME=value"
	}
	return checkVariable(text)
}

func checkHost(name string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune(".-*:", r) && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return "name a host without scheme and path, such as api.example.com"
	}
	if _, err := policy.ParseHost(name); err != nil {
		return "name a host such as api.example.com, or *.example.com for the names below it; --net on is every host"
	}
	return ""
}
