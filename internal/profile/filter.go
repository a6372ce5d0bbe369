package profile

import (
	"encoding/json"
	"slices"
	"strings"
)

// filters say of some files of the user's home what a program is given of them: the
// rest is of no use to it, or is not for it.
func filters() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		".gitconfig":         gitUser,
		".config/git/config": gitUser,
		".npmrc":             npmRegistries,
		".claude.json":       claudeAccount,
	}
}

// gitUser keeps of a git configuration the user's name and address.
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

// npmRegistries keeps of a configuration of npm where packages come from, except
// addresses with a password in them.
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

// claudeAccount keeps of Claude Code's notes who the user is and what was answered once
// and for all, without the directories and what was said in them.
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
	data, _ := json.MarshalIndent(all, "", "  ") // of a map that was JSON
	return append(data, '\n')
}

// in returns a file of sections, keys and values with the line, and no other of its key:
// one elsewhere might count for more.
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

// String is how the line is told.
func (l Line) String() string {
	name := l.Key
	if l.Section != "" {
		name = l.Section + "." + l.Key
	}
	return name + " = " + l.Value + " in ~/" + l.File
}
