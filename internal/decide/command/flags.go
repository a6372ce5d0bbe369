package command

import (
	"path"
	"slices"
	"strings"
)

// sameFlags lists spellings of one option that are the same for every program. A rule
// that restricts one spelling restricts all of them.
var sameFlags = [][]string{{"-r", "-R", "--recursive"}, {"-f", "--force"}}

// ownFlags lists, by program, spellings of one option that do not start with the same
// letter.
var ownFlags = map[string][][]string{
	"curl":    {{"-X", "--request"}, {"-T", "--upload-file"}, {"-K", "--config"}, {"-k", "--insecure"}, {"-x", "--proxy"}, {"-F", "--form"}},
	"kill":    {{"-9", "-KILL", "-SIGKILL", "-s", "--signal", "-n"}},
	"pkill":   {{"-9", "-KILL", "-SIGKILL", "-s", "--signal"}},
	"killall": {{"-9", "-KILL", "-SIGKILL", "-s", "--signal"}},
	"tar":     {{"-f", "--file"}, {"-x", "--extract", "--get"}, {"-P", "--absolute-names"}},
	"npm":     {{"-g", "--global", "--location"}},
	"git":     {{"-D", "--delete"}, {"-n", "--no-verify"}},
}

// spellings returns the options that mean the same as flag for a program.
func spellings(program, flag string) []string {
	list := []string{flag}
	for _, table := range [][][]string{ownFlags[program], sameFlags} {
		for _, same := range table {
			if slices.Contains(same, flag) {
				list = append(list, same...)
			}
		}
	}
	return list
}

// hasFlag reports whether a command has an option. It finds a long option with a value or
// shortened, and single letters combined or separate. It knows other spellings of both.
// Maybe is true if the command could have the option: a word is not known, or an option
// that this package does not know starts with the same letter.
func hasFlag(words []Word, flag string) (sure, maybe bool) {
	program := path.Base(words[0].Text)
	args := words[1:]
	if !strings.HasPrefix(flag, "--") && len(flag) <= 4 { // single letters; a longer one is a word, such as -delete
		sure, maybe = true, true
		for _, letter := range flag[1:] {
			is, could := hasSpelling(program, args, "-"+string(letter))
			sure, maybe = sure && is, maybe && (is || could)
		}
	}
	if strings.HasPrefix(flag, "--") || len(flag) > 4 {
		sure, maybe = hasSpelling(program, args, flag)
	}
	for _, w := range args {
		sure = sure || w.Literal && w.Text == flag
		maybe = maybe || !w.Literal && w.mayBeOption()
		// A refspec that starts with a plus is a forced push.
		if sub := words[1]; program == "git" && sub.is("push") && slices.Contains(spellings("git", flag), "--force") {
			sure = sure || w.Literal && len(w.Text) > 1 && w.Text[0] == '+'
			maybe = maybe || !w.Literal && w.begins == ""
		}
	}
	return sure, maybe
}

// hasSpelling reports whether words contain the option in any spelling.
func hasSpelling(program string, words []Word, flag string) (sure, maybe bool) {
	all := spellings(program, flag)
	for _, w := range words {
		if !w.Literal || len(w.Text) < 2 || w.Text[0] != '-' {
			continue
		}
		key, _, _ := strings.Cut(w.Text, "=")
		for _, is := range all {
			switch {
			case key == is:
				sure = true
			case strings.HasPrefix(is, "--"):
				sure = sure || len(key) > 2 && strings.HasPrefix(is, key)
			case len(is) == 2:
				sure = sure || !strings.HasPrefix(key, "--") && strings.Contains(w.Text, is[1:])
			}
		}
		maybe = maybe || len(all) == 1 && mayBeSameOption(flag, key)
	}
	return sure, maybe
}

// mayBeSameOption reports whether a long and a short option could be the same: the short one
// contains the first letter of the long one.
func mayBeSameOption(a, b string) bool {
	if strings.HasPrefix(b, "--") {
		a, b = b, a
	}
	if !strings.HasPrefix(a, "--") || len(a) < 3 || strings.HasPrefix(b, "--") || len(b) < 2 {
		return false
	}
	return strings.Contains(strings.ToLower(b[1:]), strings.ToLower(a[2:3])) && len(b) <= 5
}
