package profile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/secret"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// ownEnding is the extension of profile files.
const ownEnding = ".yaml"

// ownSchema describes the file of a user's own profile.
func ownSchema() strictyaml.Key {
	return strictyaml.Key{Name: "profile", Type: strictyaml.Group, Empty: true, Keys: []strictyaml.Key{
		{Name: "description", Type: strictyaml.Text, Doc: "One line that the start shows."},
		{Name: "extends", Type: strictyaml.Text, Doc: "A built-in profile to start from."},
		{Name: "programs", Type: strictyaml.Texts, Doc: "Programs that the profile is for, besides the one of its name."},
		{Name: "files", Type: strictyaml.Texts, Doc: "Files and directories of your home without credentials; golem copies them into the program's home."},
		{Name: "env", Type: strictyaml.Texts, Doc: "Environment variables: NAME passes on yours, NAME=value sets one."},
		{Name: "credentials", Type: strictyaml.Group, Doc: "What the program can log in with.", Keys: []strictyaml.Key{
			{Name: "files", Type: strictyaml.Texts, Doc: "Files of your home; the directories that they are in are in memory and end with the program."},
			{Name: "env", Type: strictyaml.Texts, Doc: "Environment variables."},
			{Name: "outside", Type: strictyaml.Groups, Doc: "Credentials that golem adds to requests, if the network is limited to hosts. The program gets placeholders.", Keys: []strictyaml.Key{
				{Name: "from", Type: strictyaml.Text, Doc: "The source: env:NAME is an environment variable, keyring:NAME a secret of golem secret, and file:PATH#FIELD a field of a JSON file of your home."},
				{Name: "header", Type: strictyaml.Text, Doc: "The header that golem sets, with ${value} for the value."},
				{Name: "hosts", Type: strictyaml.Texts, Doc: "The hosts that get it."},
				{Name: "env", Type: strictyaml.Text, Doc: "The variable in which the program gets the placeholder, unless it is that of from."},
				{Name: "base_url", Type: strictyaml.Text, Doc: "Your environment variable with the URL of another server, which replaces the hosts."},
			}},
			{Name: "keep", Type: strictyaml.Texts, Doc: "Directories beside the credential files that stay with the session, such as conversations."},
		}},
		{Name: "network", Type: strictyaml.Bool, Doc: "The program needs the network: the start warns if it is off."},
		{Name: "hosts", Type: strictyaml.Texts, Doc: "Hosts that the program needs. Without --net it reaches these, and golem asks about others."},
		{Name: "optional", Type: strictyaml.Texts, Doc: "Hosts that the program asks for and does not need. Without --net golem refuses these without a question."},
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
	root, problems := strictyaml.Parse(file, data)
	if len(problems) == 0 {
		ownSchema().Check(root, &problems)
	}
	if len(problems) > 0 {
		return Profile{}, false, problems
	}
	p, err := u.own(name, root)
	p.File = file
	return p, true, err
}

// own returns the profile that a checked file describes.
func (u User) own(name string, root strictyaml.Node) (Profile, error) {
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
	p := Profile{Name: name, About: "your own profile", Alone: true}
	if n, ok := root.At("extends"); ok {
		list := profiles(u.Home, u.Getenv)
		i := slices.IndexFunc(list, func(b Profile) bool { return b.Name == n.Text })
		if i < 0 {
			problems = append(problems, strictyaml.Problem{Place: n.Place, What: "extends: " + sandbox.Shown(n.Text), Hint: "built-in profiles are " + strings.Join(namesOf(list), ", ")})
		} else {
			p = list[i]
			p.Name = name
		}
	}
	if n, ok := root.At("description"); ok {
		p.About = n.Text
	}
	if n, ok := root.At("network"); ok {
		p.Net = n.Bool()
	}
	p.Programs = texts(checkProgram, "programs")
	p.Copies = slices.Concat(p.Copies, texts(checkHomePath, "files"))
	p.Hosts = slices.Concat(p.Hosts, texts(checkHost, "hosts"))
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
	outside, _ := root.At("credentials", "outside")
	keys := readKeys(outside, &problems)
	p.Outside = slices.Concat(keys, p.Outside)
	for _, k := range keys { // with an unlimited network the program gets the key itself
		if k.Variable != "" && !slices.Contains(p.Keys, k.Variable) {
			p.Keys = append(slices.Clip(p.Keys), k.Variable)
		}
	}
	p.Private = slices.Clone(p.Private)
	for _, file := range texts(checkCredential, "credentials", "files") {
		p.Logins = append(slices.Clip(p.Logins), file)
		if !slices.ContainsFunc(p.Private, func(d Private) bool { return within(d.Dir, target(file)) }) {
			// A directory in memory hides any directory inside it.
			dir := path.Dir(file)
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

// readKeys reads the credentials that golem adds to requests.
func readKeys(list strictyaml.Node, problems *strictyaml.Problems) []Key {
	const label = "credentials.outside"
	var keys []Key
	for _, item := range list.Items {
		from, _ := item.At("from")
		header, _ := item.At("header")
		kind, source, _ := strings.Cut(from.Text, ":")
		k := Key{Name: source, Header: header.Text}
		hint := checkName(source)
		switch kind {
		case "env":
			k.Variable = source
		case "keyring":
			k.Secret, hint = source, checkProgram(source)
		case "file":
			k.File, k.Field, _ = strings.Cut(source, "#")
			if k.Name, hint = path.Base(k.File), checkCredential(k.File); k.Field == "" {
				hint = "name the field after #, such as file:.config/tool/auth.json#tokens.access"
			}
		default:
			hint = "write env:NAME, keyring:NAME or file:PATH#FIELD"
		}
		if hint != "" { // the text may be the secret itself
			problems.Add(orNode(from, item), label+".from: no source", hint)
		}
		if why := secret.CheckHeader(header.Text); why != "" {
			problems.Add(orNode(header, item), label+".header: "+why, `write one such as "Authorization: Bearer ${value}"`)
		}
		hosts, _ := item.At("hosts")
		for _, n := range hosts.Items {
			if _, err := policy.ParseHost(n.Text); err != nil {
				what, hint, _ := strings.Cut(err.Error(), "; ")
				problems.Add(n, label+".hosts: "+what, hint)
			}
		}
		if k.Hosts = hosts.Texts(); len(k.Hosts) == 0 {
			problems.Add(item, label+" has no hosts", "name the hosts that get the credential: hosts: [api.example.com]")
		}
		for _, v := range []struct {
			name string
			to   *string
		}{{"env", &k.As}, {"base_url", &k.Server}} {
			if n, ok := item.At(v.name); ok {
				if *v.to = n.Text; checkName(n.Text) != "" {
					problems.Add(n, label+"."+v.name+": "+sandbox.Shown(n.Text), checkName(n.Text))
				}
			}
		}
		keys = append(keys, k)
	}
	return keys
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

func checkHost(name string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune(".-*:", r) && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return "name a host without scheme and path, such as api.example.com"
	}
	return ""
}
