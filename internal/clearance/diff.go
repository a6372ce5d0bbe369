package clearance

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/files/patch"
)

// maxShown limits how much of a file is compared.
const maxShown = 1 << 20

// A FileDiff says how one file of a staged commit differs.
type FileDiff struct {
	File
	OldSize, NewSize int64
	Binary           bool   // it has zero bytes, so only its sizes are shown
	Cut              bool   // it is too large to compare
	Encoding         string // encoding of a text that was converted to be compared, "" for others
	Text             string // unified diff, with the characters of the files, not escaped for a terminal
	Added, Removed   int    // lines

	content      []byte // the beginning of the new content
	was, becomes []byte // old and new content as shown
}

// Diff compares the files of a staged commit with those that they replace. It reads the
// objects that a push would push, and calls show for one file at a time.
func (d *Commits) Diff(ctx context.Context, c *StagedCommit, show func(FileDiff) error) error {
	_, at, err := d.open(ctx, c.Target)
	if err != nil {
		return err
	}
	r, err := d.store.ReaderOf(ctx, c.contents(), at.objects())
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range c.Files {
		diff, err := fileDiff(r, f)
		if err != nil {
			return err
		}
		if err := show(diff); err != nil {
			return err
		}
	}
	return nil
}

// contents returns the hashes of the files of a commit, in the order in which Diff reads
// them.
func (c *StagedCommit) contents() []git.Hash {
	var list []git.Hash
	for _, f := range c.Files {
		for _, one := range []struct {
			mode git.Mode
			hash git.Hash
		}{{f.OldMode, f.Old}, {f.Mode, f.New}} {
			if one.mode != git.None && one.mode != git.Submodule {
				list = append(list, one.hash)
			}
		}
	}
	return list
}

func fileDiff(r *git.Reader, f File) (FileDiff, error) {
	old, oldSize, err := side(r, f.OldMode, f.Old)
	if err != nil {
		return FileDiff{File: f}, err
	}
	current, size, err := side(r, f.Mode, f.New)
	if err != nil {
		return FileDiff{File: f}, err
	}
	return compareContents(f, old, current, oldSize, size), nil
}

// CompareFile compares a file of the branch with another content, of which only the beginning
// need be given.
func CompareFile(r *git.Reader, f File, content []byte, size int64) (review.FileChange, error) {
	old, oldSize, err := side(r, f.OldMode, f.Old)
	if err != nil {
		return review.FileChange{}, err
	}
	return compareContents(f, old, content, oldSize, size).change(), nil
}

// compareContents compares two contents of a file, of which large ones are cut.
func compareContents(f File, old, current []byte, oldSize, size int64) FileDiff {
	diff := FileDiff{File: f, OldSize: oldSize, NewSize: size, content: current}
	diff.Cut = diff.OldSize > maxShown || diff.NewSize > maxShown
	var from, to string
	if !diff.Cut {
		old, from = readable(f.Path, f.OldMode, old)
		current, to = readable(f.Path, f.Mode, current)
		if bytes.IndexByte(old, 0) >= 0 {
			from = to // the old content was not text
		}
		diff.Encoding = encoding(f.Operation, from, to)
	}
	diff.was, diff.becomes = old, current
	shown := current // the new content decides, whatever the old one was
	if f.Mode == git.None {
		shown = old
	}
	diff.Binary = bytes.IndexByte(shown, 0) >= 0
	if diff.Binary || diff.Cut {
		return diff
	}
	if bytes.IndexByte(old, 0) >= 0 {
		old = nil // an old content that was not text is shown by its size
	}
	name := strings.ReplaceAll(scan.ShownName(f.Path), "\n", `\n`) // otherwise a name could show lines that are in no file
	before, after := "a/"+name, "b/"+name
	switch f.Operation {
	case Create:
		before = "/dev/null"
	case Delete:
		after = "/dev/null"
	}
	diff.Text = patch.Unified(before, after, string(old), string(current))
	diff.Added, diff.Removed = count(diff.Text)
	return diff
}

// readable returns a content as it is shown. If it was converted, readable also returns
// the encoding.
func readable(name string, mode git.Mode, content []byte) ([]byte, string) {
	if mode != git.Plain && mode != git.Executable || bytes.IndexByte(content, 0) < 0 {
		return content, ""
	}
	text, encoding := review.Narrow(name, content)
	if encoding == "" {
		return content, ""
	}
	return text, encoding
}

// encoding describes the old and new encoding of a text that was converted.
func encoding(op Operation, from, to string) string {
	switch {
	case from == "" && to == "":
		return ""
	case from == to, op == Create:
		return to + " shown as text"
	case op == Delete:
		return from + " shown as text"
	}
	return cmp.Or(to, "one byte per character") + " now, and was " + cmp.Or(from, "one byte per character")
}

// side returns the content of one side of a change.
func side(r *git.Reader, mode git.Mode, hash git.Hash) ([]byte, int64, error) {
	switch mode {
	case git.None:
		return nil, 0, nil
	case git.Submodule:
		text := fmt.Sprintf("submodule %s\n", hash)
		return []byte(text), int64(len(text)), nil
	}
	return r.Blob(hash, maxShown)
}

// count returns how many lines a unified diff adds and removes.
func count(text string) (added, removed int) {
	head := true
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "@@"):
			head = false
		case head:
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return added, removed
}
