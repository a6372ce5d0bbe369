package profile

import (
	"encoding/json"
	"slices"
	"strings"
)

// filters returns, for some files of the user's home, a function that keeps only the
// parts the program gets. The rest is useless to the program or not meant for it.
func filters() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		".gitconfig":         gitUser,
		".config/git/config": gitUser,
		".npmrc":             npmRegistries,
		".claude.json":       claudeAccount,
	}
}

// gitUser keeps the user's name and email address of a git configuration.
func gitUser(config []byte) []byte {
	var kept []string
	in := false
	for line := range strings.Lines(string(config)) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "[") {
			in = strings.EqualFold(text, "[user]")
			if in {
				kept = append(kept, "[user]")
			}
			continue
		}
		key, _, _ := strings.Cut(text, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); in && (key == "name" || key == "email") {
			kept = append(kept, "\t"+text)
		}
	}
	return []byte(strings.Join(append(kept, ""), "\n"))
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
