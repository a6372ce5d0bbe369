package project

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxBytes    = 1 << 50 // a pebibyte: a larger number is a typing error
	leastBytes  = 1000    // a smaller number without a unit is one, too
	maxDuration = 366 * 24 * time.Hour
)

// How to write no limit, in place of 0.
const (
	noLimit      = "leave the key out for none"
	commandLimit = "leave the key out for the default; a command always has a limit"
	runLimit     = "write a number; without the key the default applies"
)

// A check says what is wrong with a value, and what to write instead: see strictyaml.Key.
type check = func(strictyaml.Node) (what, hint string)

// checkRange returns what is wrong with a number that is zero or too large.
func checkRange(n strictyaml.Node, above, below bool, most, without string) (what, hint string) {
	switch {
	case !above:
		return sandbox.Shown(n.Text), "0 would be no limit; " + without
	case !below:
		return sandbox.Shown(n.Text), "at most " + most
	}
	return "", ""
}

// wholeFrom returns the check of a whole number from least to most.
func wholeFrom(least, most int64, without string) check {
	return func(n strictyaml.Node) (string, string) {
		v, _ := n.Int()
		return checkRange(n, v >= least, v <= most, fmt.Sprint(most), without)
	}
}

// bytesFrom1 returns the check of a size.
func bytesFrom1(without string) check {
	return func(n strictyaml.Node) (string, string) {
		v, _ := n.Bytes()
		return checkRange(n, v > 0, v <= maxBytes, fmt.Sprint(int64(maxBytes)), without)
	}
}

// bytesOfCommand checks a limit of commands. A small number needs a unit, because memory: 4 does
// not mean 4 bytes.
func bytesOfCommand(n strictyaml.Node) (what, hint string) {
	if v, err := n.Int(); err == nil && v > 0 && v < leastBytes {
		return sandbox.Shown(n.Text), fmt.Sprintf("that is %[1]d bytes; write a unit, such as %[1]dMB or %[1]dGiB", v)
	}
	return bytesFrom1(commandLimit)(n)
}

// timeAbove0 returns the check of a time.
func timeAbove0(without string) check {
	return func(n strictyaml.Node) (string, string) {
		v, _ := n.Duration()
		return checkRange(n, v > 0, v <= maxDuration, "8784h", without)
	}
}

// numberTo returns the check of a number up to most. Zero is valid if isZeroValid.
func numberTo(most float64, isZeroValid bool) check {
	return func(n strictyaml.Node) (string, string) {
		v, _ := n.Number()
		return checkRange(n, isZeroValid || v > 0, v <= most, fmt.Sprint(int64(most)), noLimit)
	}
}

// notBlank returns the check of a text that must not be empty.
func notBlank(hint string) check {
	return func(n strictyaml.Node) (string, string) {
		if strings.TrimSpace(n.Text) == "" {
			return "an empty text", hint
		}
		return "", ""
	}
}

func checkModel(n strictyaml.Node) (what, hint string) {
	if vendor, name, _ := strings.Cut(n.Text, ":"); vendor == "" || name == "" {
		return sandbox.Shown(n.Text), "write vendor:name, such as openai:gpt-5-mini"
	}
	return "", ""
}

func checkServer(n strictyaml.Node) (what, hint string) {
	if u, err := url.Parse(n.Text); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "no address of a server", "write https://HOST/v1, without user and password"
	}
	return "", ""
}

func checkServerKey(n strictyaml.Node) (what, hint string) {
	if n.Text == "" || strings.Trim(n.Text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return "no name of a variable", "name the variable, such as TEAM_KEY; the key itself is not written down"
	}
	return "", ""
}

func checkTrailer(n strictyaml.Node) (what, hint string) {
	if why := git.BadTrailer(n.Text); why != "" {
		return why, "write a word, a colon and a text: \"Co-authored-by: Claude <noreply@anthropic.com>\""
	}
	return "", ""
}

func checkEtc(n strictyaml.Node) (what, hint string) {
	var wrong *sandbox.Error
	if errors.As(jail.CheckEtc(n.Text), &wrong) {
		return sandbox.Shown(n.Text) + " cannot be shown", wrong.Hint
	}
	return "", ""
}

func checkProtect(n strictyaml.Node) (what, hint string) {
	if _, err := sandbox.New(sandbox.Config{Protect: []string{n.Text}}); err != nil {
		return sandbox.Shown(n.Text) + " is not a pattern", ".env, *.key and /ci/** are"
	}
	return "", ""
}

// checkIgnoredDir checks a name of ignored_without_git. Directories with files that have an effect
// stay visible.
func checkIgnoredDir(n strictyaml.Node) (what, hint string) {
	name := strings.ToLower(n.Text)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\*?[") || strings.HasPrefix(name, ".git") || name == ".golem" {
		return sandbox.Shown(n.Text) + " cannot be ignored", "write the name of a directory that a package manager fills, such as Pods, without a path or a pattern"
	}
	return "", ""
}

func checkMediaType(n strictyaml.Node) (what, hint string) {
	if kind, rest, ok := strings.Cut(n.Text, "/"); !ok || kind == "" || rest == "" || strings.ContainsAny(n.Text, " ;\t\n") {
		return sandbox.Shown(n.Text) + " is no media type", "image/png and image/* are"
	}
	return "", ""
}
