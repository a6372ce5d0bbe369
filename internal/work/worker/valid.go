package worker

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// The functions in this file check values of the right form: see strictyaml.Key.

// checkWith returns the check of a text. hint says what to write instead.
func checkWith(isValid func(text string) bool, hint string) func(strictyaml.Node) (string, string) {
	return func(n strictyaml.Node) (string, string) {
		if isValid(n.Text) {
			return "", ""
		}
		return shown(n.Text), hint
	}
}

// isModel reports whether a text is the name of a vendor and of a model.
func isModel(text string) bool {
	vendor, name, _ := strings.Cut(text, ":")
	return vendor != "" && name != ""
}

func isInstructionFile(name string) bool {
	return !strings.ContainsAny(name, "/\\\x00") && !strings.HasPrefix(name, ".") && strings.TrimSpace(name) != ""
}

func isSuffix(text string) bool {
	return len(text) >= 2 && text[0] == '.' && !strings.ContainsAny(text, "/\x00")
}

const suffixHint = "a suffix is a dot and more, such as .md or .tar.gz"

func checkCompatible(n strictyaml.Node) (what, hint string) {
	if strings.TrimSpace(n.Text) == "" {
		return "an empty name", "name a model, such as anthropic:*"
	}
	return "", ""
}

// checkNumber returns the check of a number. hint says which numbers are valid.
func checkNumber(isValid func(float64) bool, hint string) func(strictyaml.Node) (string, string) {
	return func(n strictyaml.Node) (string, string) {
		v, err := n.Number()
		if whole, wrong := n.Int(); wrong == nil {
			v, err = float64(whole), nil
		}
		if err != nil || isValid(v) {
			return "", ""
		}
		return shown(n.Text), hint
	}
}

// isBudget reports whether a number limits something. Zero would mean no limit.
func isBudget(v float64) bool { return v > 0 && v <= 1e12 }

const budgetHint = "a number above 0; leave the key out for no limit"

// checkFile returns the check of a file in the program's directory.
func checkFile(n strictyaml.Node) (what, hint string) {
	if !IsFile(n.Text) {
		return shown(n.Text), "it is a file or a directory of the program's directory, as ./tools/lib"
	}
	return checkInProgram(n)
}

// checkPassedOn checks the name of a variable that golem passes on.
func checkPassedOn(n strictyaml.Node) (what, hint string) {
	switch {
	case strings.Contains(n.Text, "="):
		return "a value", "a secret does not belong in a file; write only the name, and golem passes on the user's value"
	case !isVariable(n.Text):
		return shown(n.Text), "write the name of an environment variable, such as SEARCH_API_KEY"
	case canChoosePrograms(n.Text) || strings.HasPrefix(n.Text, "GOLEM_"):
		return shown(n.Text) + " is not passed on", "such a variable chooses programs or files, and the jail has its own; name those that the program itself asks for, such as SEARCH_API_KEY"
	}
	return "", ""
}

// isState reports whether a text is a variable with a path in a program's own directory.
func isState(text string) bool {
	name, file, _ := strings.Cut(text, "=")
	return isVariable(name) && !canChoosePrograms(name) && !strings.HasPrefix(name, "GOLEM_") && filepath.IsLocal(file) && file == path.Clean(file)
}

func checkTimeout(n strictyaml.Node) (what, hint string) {
	if span, err := n.Duration(); err == nil && span <= 0 {
		return shown(n.Text), "a time above zero, or leave it out for that of limits.time"
	}
	return "", ""
}

func isShellDir(text string) bool { return sandbox.ValidPath(text) && !path.IsAbs(text) }
