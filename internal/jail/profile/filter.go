package profile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A filter keeps only the part of a file that the program gets. The rest is useless to the
// program or not meant for it.
type filter struct {
	part string // the part, for the user
	keep func([]byte) []byte
}

// filters returns the filters by the names of files in the user's home. The filter of a git
// configuration is gitUser, which reads other files too.
func filters() map[string]filter {
	return map[string]filter{
		".npmrc":               {"the registries", npmRegistries},
		".config/pip/pip.conf": {"the package indexes", pipIndexes},
		".pip/pip.conf":        {"the package indexes", pipIndexes},
		".claude.json":         {"your account and permanent answers", claudeAccount},
	}
}

// PartOf returns, for the user, the part of a file that the program gets: "your name and
// address". It is "" if golem copies the whole file.
func PartOf(name string) string {
	if git, _ := Common(); slices.Contains(git, name) {
		return "your name and address"
	}
	return filters()[name].part
}

// gitUser keeps the user's name and email address of a git configuration, and nothing
// else: no other key, no comment. It returns nil if there is neither. file is the path of
// the configuration, and home the user's home: gitUser also reads the files that the
// configuration includes.
//
// It ignores conditional includes (includeIf). Most conditions are about the repository in
// which git runs. One home directory serves a command in all of its directories, of which
// several may be repositories, and the agent can make more. Without the conditions the
// command gets the user's default name and address.
func gitUser(home, file string, config []byte) []byte {
	left := maxIncluded
	kept := gitUserLines(home, file, config, 0, &left)
	if len(kept) == 0 {
		return nil
	}
	return []byte("[user]\n" + strings.Join(kept, ""))
}

const (
	maxIncludes  = 10  // how deep files may include each other, as in git
	maxIncluded  = 100 // how many files golem reads in total
	maxGitConfig = 1 << 20
)

// gitUserLines returns the lines about the user in a configuration and in the files that it
// includes. left is how many files it may still read: a file that includes itself several
// times would otherwise be read several times more at each depth.
func gitUserLines(home, file string, config []byte, depth int, left *int) (kept []string) {
	section := ""
	for line := range strings.Lines(string(config)) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "[") {
			section, text, _ = strings.Cut(text, "]")
			section = strings.ToLower(section) + "]"
		}
		key, value, found := strings.Cut(text, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		value, ok := gitValue(value)
		switch {
		case !found || !ok:
		case section == "[user]" && (key == "name" || key == "email"):
			kept = append(kept, "\t"+key+" = "+value+"\n")
		case section == "[include]" && key == "path" && depth < maxIncludes && *left > 0:
			name, err := strconv.Unquote(value)
			if below, ok := strings.CutPrefix(name, "~/"); ok {
				name = filepath.Join(home, below)
			}
			if err != nil || name == "" || !filepath.IsAbs(home) {
				continue
			}
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(file), name)
			}
			if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() > maxGitConfig {
				continue // as in git, an included file need not exist
			}
			*left--
			if data, err := os.ReadFile(name); err == nil {
				kept = append(kept, gitUserLines(home, name, data, depth+1, left)...)
			}
		}
	}
	return kept
}

// gitValue returns a value of a git configuration in quotes, without a comment. It reports
// false if the value is not complete in its line.
func gitValue(text string) (string, bool) {
	var b strings.Builder
	spaces, inQuotes := 0, false // spaces at the end are not part of the value
	escaped := false
	for _, r := range strings.TrimSpace(text) {
		switch {
		case escaped:
			if !strings.ContainsRune(`"\ntb`, r) {
				return "", false
			}
			b.WriteString(`\` + string(r))
			escaped, spaces = false, 0
			continue
		case r == '\\':
			escaped = true
			continue
		case r == '"':
			inQuotes = !inQuotes
			continue
		case (r == '#' || r == ';') && !inQuotes:
			return `"` + b.String()[:b.Len()-spaces] + `"`, true
		case r == ' ' || r == '\t':
			if spaces++; inQuotes {
				spaces = 0
			}
		default:
			spaces = 0
		}
		b.WriteRune(r)
	}
	return `"` + b.String() + `"`, !escaped && !inQuotes
}

// npmRegistries keeps the package registries of an npm configuration, except URLs with a
// password.
func npmRegistries(config []byte) []byte {
	var kept []string
	for line := range strings.Lines(string(config)) {
		text := strings.TrimSpace(line)
		key, value, _ := strings.Cut(text, "=")
		key = strings.TrimSpace(key)
		scoped := strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry")
		if (key == "registry" || scoped) && !strings.Contains(value, "@") {
			kept = append(kept, text)
		}
	}
	return []byte(strings.Join(append(kept, ""), "\n"))
}

// pipIndexes keeps the package indexes of a pip configuration, except URLs with a password.
func pipIndexes(config []byte) []byte {
	var b strings.Builder
	key, urls := "", []string(nil)
	end := func() {
		if len(urls) > 0 {
			b.WriteString(key + " = " + strings.Join(urls, "\n    ") + "\n")
		}
		key, urls = "", nil
	}
	for line := range strings.Lines(string(config)) {
		text := strings.TrimSpace(line)
		isFurther := line[0] == ' ' || line[0] == '\t' // a value of the last key
		switch {
		case text == "" || strings.ContainsAny(text[:1], "#;"):
			continue
		case text[0] == '[' && !isFurther:
			end()
			b.WriteString(text + "\n")
			continue
		case !isFurther:
			end()
			key, text, _ = strings.Cut(text, "=")
			key = strings.ReplaceAll(strings.TrimSpace(key), "_", "-")
		}
		for _, url := range strings.Fields(text) {
			if (key == "index-url" || key == "extra-index-url") && !strings.Contains(url, "@") {
				urls = append(urls, url)
			}
		}
	}
	end()
	return []byte(b.String())
}

// withoutPasswords returns the variables that hold URLs without a password.
func withoutPasswords(getenv func(string) string, names ...string) (list []string) {
	for _, name := range names {
		if value := getenv(name); value != "" && !strings.Contains(value, "@") {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// claudeAccount keeps the account and the permanent answers in Claude Code's state file,
// without its directories and their conversations.
func claudeAccount(notes []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(notes, &all) != nil {
		return []byte("{}\n")
	}
	known := []string{"hasCompletedOnboarding", "lastOnboardingVersion", "theme", "editorMode", "userID", "oauthAccount", "primaryApiKey",
		"customApiKeyResponses", "bypassPermissionsModeAccepted"}
	for key := range all {
		if !slices.Contains(known, key) {
			delete(all, key)
		}
	}
	data, _ := json.MarshalIndent(all, "", "  ") // the map came from JSON, so this cannot fail
	return append(data, '\n')
}

// in returns a configuration file with the line, and removes other lines with its key:
// one elsewhere could take precedence.
func (l Line) in(data []byte) []byte {
	setting := l.Key + " = " + l.Value + "\n"
	var b strings.Builder
	done := l.Section == ""
	if done {
		b.WriteString(setting)
	}
	for line := range strings.Lines(string(data)) {
		if key, _, _ := strings.Cut(line, "="); strings.TrimSpace(key) == l.Key {
			continue
		}
		b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		if !done && strings.TrimSpace(line) == "["+l.Section+"]" {
			b.WriteString(setting)
			done = true
		}
	}
	if !done {
		b.WriteString("[" + l.Section + "]\n" + setting)
	}
	return []byte(b.String())
}

// String returns the line as golem prints it.
func (l Line) String() string {
	name := l.Key
	if l.Section != "" {
		name = l.Section + "." + l.Key
	}
	return name + " = " + l.Value + " in ~/" + l.File
}
