package command

import (
	"slices"
	"strings"
)

// maxPatterns is how many patterns are proposed for one line.
const maxPatterns = 4

// Narrow returns the patterns that a line may be remembered by, as narrow as
// its words allow: for each command the words up to the first operand. There
// are none where only the line itself is narrow enough: it is not understood,
// writes files, sets variables, or runs a program that does whatever its
// operands say.
func Narrow(line string) []string {
	var patterns []string
	for _, p := range Parse(line).Parts {
		if p.Plain {
			continue
		}
		text := narrow(p.Words)
		if _, why := NewPattern(text, true); why != "" || broad(name(p.Words)) {
			return nil
		}
		if !slices.Contains(patterns, text) {
			patterns = append(patterns, text)
		}
	}
	if len(patterns) > maxPatterns || !Covers(patterns, line) {
		return nil
	}
	return patterns
}

// Covers reports whether every command of a line begins with the words of one
// of the patterns, and does nothing that they do not say: it is understood and
// of literal words, no program runs it, no variable is set for it, nothing is
// written by redirection, and no option makes it another command.
func Covers(patterns []string, line string) bool {
	l := Parse(line)
	var all []Pattern
	for _, text := range patterns {
		p, why := NewPattern(text, true)
		if why != "" {
			return false
		}
		all = append(all, p)
	}
	runs := false
	for _, p := range l.Parts {
		if p.Plain {
			continue
		}
		runs = true
		known := p.Unknown == "" && !p.Runs && p.own == nil && len(p.Assigns) == 0 && !slices.ContainsFunc(p.Words, func(w Word) bool { return !w.Literal })
		if !known || !slices.ContainsFunc(all, func(pattern Pattern) bool { ok, _ := pattern.passes(p); return ok }) {
			return false
		}
	}
	return runs && len(l.Writes) == 0
}

// narrow returns the words of a command up to its first operand.
func narrow(words []Word) string {
	if len(words) == 0 {
		return ""
	}
	n := name(words)
	list := []string{n}
	at := 1
	for range subcommands(words) {
		if at == len(words) || !words[at].Literal || words[at].mayBeOption() {
			return "" // what it does is not said
		}
		list = append(list, words[at].Text)
		at++
	}
	for ; at < len(words) && words[at].Literal && words[at].mayBeOption() && words[at].Text != "--"; at++ {
		list = append(list, words[at].Text)
	}
	return strings.Join(list, " ")
}

// subcommands returns how many words behind its name say what a program does.
func subcommands(words []Word) int {
	switch name(words) {
	case "git", "go", "cargo", "gh", "apt", "brew", "dotnet", "terraform", "systemctl", "rustup", "poetry", "uv", "pip", "pip3", "composer", "make", "mvn", "gradle":
		return 1
	case "npm", "yarn", "pnpm", "bundle":
		if len(words) > 1 && words[1].is("run", "exec", "run-script") {
			return 2
		}
		return 1
	}
	return 0
}

// broad reports whether what a program does is in its operands, so that its
// name and options say little.
func broad(n string) bool {
	switch n {
	case "rm", "mv", "dd", "chmod", "chown", "kill", "pkill", "killall", "curl", "wget", "nc", "ncat", "socat", "scp", "rsync", "docker", "podman", "kubectl",
		"python", "python2", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "npx", "uvx", "pipx", "awk", "gawk", "mawk", "sed", "vim", "vi", "ed",
		"parallel", "watch", "strace", "script", "expect", "flock", "crontab", "at":
		return true
	}
	return isShell(n) || strings.Contains(n, "/")
}
