package git

import (
	"os"
	"slices"
	"strings"
)

// A setting is one key and value of a git configuration file.
type setting struct{ section, sub, key, value string } // section and key in lower case

// harmlessKeys are the settings that commands in the jail may read, by section. Git needs
// them to read a repository as its user does. None of them runs a program or names a path
// of the host. None holds an address, which could contain a password.
var harmlessKeys = map[string][]string{
	"core": {"repositoryformatversion", "filemode", "symlinks", "ignorecase", "precomposeunicode", "autocrlf", "eol", "safecrlf", "quotepath", "sparsecheckout",
		"sparsecheckoutcone", "logallrefupdates", "whitespace", "abbrev", "trustctime", "checkstat", "bigfilethreshold", "compression"},
	"extensions": {"objectformat", "compatobjectformat", "refstorage", "noop"},
	"user":       {"name", "email"},
	"branch":     {"remote", "merge", "rebase"},
	"remote":     {"fetch"},
	"submodule":  {"active"},
	"index":      {"version", "sparse"},
	"i18n":       {"commitencoding", "logoutputencoding"},
	"merge":      {"conflictstyle", "ff", "renames"},
	"pull":       {"rebase", "ff"},
	"push":       {"default"},
	"rerere":     {"enabled"},
	"diff":       {"algorithm", "renames"},
}

// isHarmless reports whether commands may read a setting.
func (v setting) isHarmless() bool {
	if !slices.Contains(harmlessKeys[v.section], v.key) {
		return false
	}
	switch v.section { // a remote may have its address as its name
	case "remote":
		return plainRemote(v.sub)
	case "branch":
		return v.key != "remote" || v.value == "." || plainRemote(v.value)
	}
	return true
}

func plainRemote(name string) bool { return name != "" && !strings.ContainsAny(name, `:@\`) }

// maxConfig limits the size of a configuration file. readConfig returns nothing for a
// larger one.
const maxConfig = 1 << 20

// readConfig returns the settings of a configuration file in a git directory. It returns
// none if it cannot read the file. It does not follow includes.
func readConfig(dir, name string) []setting {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return nil
	}
	return parseConfig(string(data))
}

// parseConfig reads what git config writes. It stops at text that it does not understand.
func parseConfig(text string) []setting {
	var list []setting
	var at setting
	text = strings.TrimPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "\ufeff")
	for text != "" {
		text = strings.TrimLeft(text, " \t\n")
		switch {
		case text == "":
		case text[0] == '#' || text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '[':
			section, rest, ok := parseSection(text[1:])
			if !ok {
				return list
			}
			at, text = section, rest
		default:
			end := strings.IndexFunc(text, func(r rune) bool {
				return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			if end < 0 {
				end = len(text)
			}
			if end == 0 || at.section == "" {
				return list
			}
			v := at
			v.key, text = strings.ToLower(text[:end]), strings.TrimLeft(text[end:], " \t")
			v.value = "true" // git reads a key without a value as true
			if rest, ok := strings.CutPrefix(text, "="); ok {
				if v.value, text, ok = parseValue(rest); !ok {
					return list
				}
			}
			list = append(list, v)
		}
	}
	return list
}

// parseSection reads the name of a section after its opening bracket.
func parseSection(text string) (at setting, rest string, ok bool) {
	end := strings.IndexAny(text, "] \t\n")
	if end < 0 || text[end] == '\n' {
		return at, "", false
	}
	at.section, text = strings.ToLower(text[:end]), strings.TrimLeft(text[end:], " \t")
	if section, sub, dotted := strings.Cut(at.section, "."); dotted {
		at.section, at.sub = section, sub
	}
	if quoted, is := strings.CutPrefix(text, `"`); is {
		var sub strings.Builder
		for quoted != "" && quoted[0] != '"' && quoted[0] != '\n' {
			if quoted[0] == '\\' && len(quoted) > 1 {
				quoted = quoted[1:]
			}
			sub.WriteByte(quoted[0])
			quoted = quoted[1:]
		}
		if at.sub, text, ok = sub.String(), strings.TrimPrefix(quoted, `"`), strings.HasPrefix(quoted, `"`); !ok {
			return at, "", false
		}
	}
	rest, ok = strings.CutPrefix(text, "]")
	return at, rest, ok
}

// parseValue reads a value up to the end of its line.
func parseValue(text string) (value, rest string, ok bool) {
	var b strings.Builder
	keep := 0 // length of the value without spaces at its end
	quotes := false
	text = strings.TrimLeft(text, " \t")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n' && quotes:
			return "", "", false
		case c == '\n':
			return b.String()[:keep], text[i+1:], true
		case c == '"':
			quotes = !quotes
			keep = b.Len()
		case (c == '#' || c == ';') && !quotes:
			_, rest, _ := strings.Cut(text[i:], "\n")
			return b.String()[:keep], rest, true
		case c == '\\':
			if i++; i == len(text) {
				return "", "", false
			}
			known := strings.IndexByte("ntb\"\\\n", text[i])
			if known < 0 {
				return "", "", false
			}
			if text[i] != '\n' {
				b.WriteByte("\n\t\b\"\\"[known])
			}
			keep = b.Len()
		default:
			b.WriteByte(c)
			if quotes || c != ' ' && c != '\t' {
				keep = b.Len()
			}
		}
	}
	return b.String()[:keep], "", !quotes
}

// String returns the setting as git config writes it, with its section.
func (v setting) String() string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	section := v.section
	if v.sub != "" {
		section += ` "` + escape.Replace(v.sub) + `"`
	}
	value := strings.NewReplacer("\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(escape.Replace(v.value))
	return "[" + section + "]\n\t" + v.key + ` = "` + value + "\"\n"
}
