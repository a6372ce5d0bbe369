package command

import (
	"path"
	"slices"
	"strings"
)

// This file finds commands of the set build that use another directory than the tree. The
// package does not know the mounts. The tree is everything below the directory where the
// line starts, and /work, which is the mount at / for commands.

// findOutside says which word of a build command may name code outside the tree, "" if none
// does.
func findOutside(p *Part, words []Word) string {
	if p.leaves != "" {
		return p.leaves
	}
	tool := name(words)
	for i, w := range words[1:] {
		switch {
		case !w.Literal && strings.ContainsAny(w.Text, "$`{<"), strings.Contains(w.Text, "{}"): // find fills in {}
			return w.Text + " could name code outside the tree"
		case tool == "go" && isGoOutput(words[i].Text, w.Text):
		case tool == "go" && strings.Contains(w.Text, "@"):
			return w.Text + " may be code from elsewhere"
		case tool == "cargo" && w.Text == "--open":
			return w.Text + " starts another program"
		case isOutside(w.Text):
			return w.Text + " may be outside the tree"
		}
	}
	return ""
}

// isGoOutput reports whether a word of the go command is the name of a file to write.
func isGoOutput(before, text string) bool {
	outputs := []string{"-o", "-coverprofile", "-cpuprofile", "-memprofile"}
	option, _, _ := strings.Cut(text, "=")
	return slices.Contains(outputs, option) || slices.Contains(outputs, before) && !strings.HasPrefix(text, "-")
}

// isOutside reports whether a word is a path outside the tree, or has one as the value of an
// option or in a list.
func isOutside(text string) bool {
	pieces := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("=:,", r) })
	if len(text) > 2 && text[0] == '-' { // -CDIR
		pieces = append(pieces, text[2:])
	}
	return slices.ContainsFunc(pieces, func(piece string) bool {
		clean := path.Clean(piece)
		switch {
		case clean == "/work", strings.HasPrefix(clean, "/work/"), clean == "/dev/null":
			return false
		}
		return path.IsAbs(clean) || strings.HasPrefix(piece, "~") || clean == ".." || strings.HasPrefix(clean, "../")
	})
}

// findLeaving says how a line may change to a directory outside the tree, "" if it does not. A
// cd into the tree may fail, so it does not make a later .. safe.
func findLeaving(parts []Part) string {
	for _, p := range parts {
		words := p.words()
		switch tool := name(words); {
		case tool == "cd":
			to := slices.DeleteFunc(slices.Clone(words[1:]), func(w Word) bool { return w.is("--", "-L", "-P", "-e", "-@") })
			if len(to) != 1 || !to[0].Literal || to[0].is("-") || isOutside(to[0].Text) {
				return shorten(p.Text) + " may leave the tree"
			}
		case tool == "find" && slices.ContainsFunc(p.Words, func(w Word) bool { return w.is("-execdir", "-okdir") }):
			return "-execdir may run it outside the tree"
		case p.Runs && slices.ContainsFunc(words[1:], func(w Word) bool {
			return !w.Literal || strings.HasPrefix(w.Text, "-C") || strings.HasPrefix(w.Text, "-D") || strings.HasPrefix(w.Text, "--ch") || strings.HasPrefix(w.Text, "--w")
		}):
			return shorten(p.Text) + " may run it outside the tree"
		}
	}
	return ""
}
