package command

import (
	"slices"
	"strings"
)

// maxPatterns limits how many patterns are proposed for one line.
const maxPatterns = 4

// Narrow proposes patterns for remembering a line, as narrow as its words allow. For each
// command, a pattern holds the words up to the first operand. Narrow returns none if only
// the line itself is narrow enough: it is not understood, writes files, sets variables,
// or runs a program whose operands decide what it does.
func Narrow(line string) []string {
	var patterns []string
	for _, p := range Parse(line).Parts {
		if p.Plain {
			continue
		}
		text := narrow(p.Words)
		if _, why := NewPattern(text, true); why != "" || isBroad(name(p.Words)) {
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

// Covers reports whether the patterns describe all that a line does. Every command must
// start with the words of a pattern, be understood, and have only literal words. No other
// program may run it, and no variable may be set for it. The line must not write files by
// redirection, and no option may make it another command.
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
		if !known || !slices.ContainsFunc(all, func(pattern Pattern) bool { ok, _ := pattern.passes(&p); return ok }) {
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
			return "" // the subcommand is not known
		}
		list = append(list, words[at].Text)
		at++
	}
	for ; at < len(words) && words[at].Literal && words[at].mayBeOption() && words[at].Text != "--"; at++ {
		list = append(list, words[at].Text)
	}
	return strings.Join(list, " ")
}

// subcommands returns how many words after the program name select what the program does.
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

// isBroad reports whether the operands of a program decide what it does, so that its name
// and options say little.
func isBroad(n string) bool {
	switch n {
	case "rm", "mv", "dd", "chmod", "chown", "kill", "pkill", "killall", "curl", "wget", "nc", "ncat", "socat", "scp", "rsync", "docker", "podman", "kubectl",
		"python", "python2", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "npx", "uvx", "pipx", "awk", "gawk", "mawk", "sed", "vim", "vi", "ed",
		"parallel", "watch", "strace", "script", "expect", "flock", "crontab", "at":
		return true
	}
	return isShell(n) || strings.Contains(n, "/")
}
