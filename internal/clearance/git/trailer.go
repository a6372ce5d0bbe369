package git

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// trailerForm matches a trailer: a word, a colon and a text.
var trailerForm = lazyPattern(`^[A-Za-z0-9][A-Za-z0-9-]*: \S.*$`)

// BadTrailer returns why a text cannot be the trailer of a commit, or "" if it can. A trailer
// is one line.
func BadTrailer(text string) string {
	const most = 200
	switch {
	case len(text) > most:
		return fmt.Sprintf("a trailer has at most %d bytes", most)
	case strings.ContainsFunc(text, func(r rune) bool { return !sandbox.Plain(r) }):
		return "a trailer is one line without invisible characters"
	case !trailerForm().MatchString(text) || strings.TrimSpace(text) != text:
		return sandbox.Shown(text) + " is no trailer; Co-authored-by: Claude <noreply@anthropic.com> is one"
	}
	return ""
}

// withTrailer returns the message of a commit with a trailer at its end. If the last paragraph
// consists of trailers, the trailer joins them. A message that has the trailer stays as it is.
func withTrailer(message, trailer string) string {
	if trailer == "" {
		return message
	}
	text := strings.TrimRight(message, "\n")
	last := text[strings.LastIndex(text, "\n\n")+1:]
	all := len(last) < len(text) // the first paragraph is the subject
	for line := range strings.SplitSeq(strings.TrimPrefix(last, "\n"), "\n") {
		if line == trailer && all {
			return message
		}
		all = all && trailerForm().MatchString(line)
	}
	if all {
		return text + "\n" + trailer + "\n"
	}
	if text == "" {
		return trailer + "\n"
	}
	return text + "\n\n" + trailer + "\n"
}

// addTrailers gives the commits of the untrusted directory the trailer. The same commits always
// get the same hashes. A signature is for the commit as it was, so a commit that changes loses it.
func (im *Import) addTrailers(ctx context.Context) error {
	if im.trailer == "" {
		return nil
	}
	s := im.target.store
	r, err := s.Reader(ctx, im.Objects())
	if err != nil {
		return err
	}
	defer r.Close()
	renamed := make(map[Hash]Hash)
	var paths, hashes strings.Builder
	for i, hash := range im.made {
		raw, err := r.rawCommit(hash)
		if err != nil {
			return err
		}
		text := rewrite(raw, im.trailer, renamed)
		if text == raw {
			continue
		}
		sum := sha1.Sum(fmt.Appendf(nil, "commit %d\x00%s", len(text), text))
		renamed[hash] = Hash(hex.EncodeToString(sum[:]))
		im.made[i] = renamed[hash]
		name := filepath.Join(im.dir, fmt.Sprint("commit-", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return storeError(err)
		}
		paths.WriteString(quote(name) + "\n")
		hashes.WriteString(string(renamed[hash]) + "\n")
	}
	for i, b := range im.Branches {
		if now, ok := renamed[b.Commit]; ok {
			im.Branches[i].Commit = now
		}
	}
	if len(renamed) == 0 {
		return nil
	}
	cmd := s.command(ctx, place{dir: im.checked()}, "hash-object", "-t", "commit", "-w", "--no-filters", "--stdin-paths")
	cmd.Stdin = strings.NewReader(paths.String())
	out, err := s.run(cmd)
	if err == nil && string(out) != hashes.String() {
		err = refusal("commits", "", sandbox.ErrInternal, "git made other commits than golem expected; nothing was taken")
	}
	return err
}

// rewrite returns the text of a commit object with a trailer, with the new names of its parents,
// and without a signature if that changes something.
func rewrite(raw, trailer string, renamed map[Hash]Hash) string {
	head, message, ok := strings.Cut(raw, "\n\n")
	now := withTrailer(message, trailer)
	changed := now != message
	var lines []string
	signature := false
	for line := range strings.SplitSeq(head, "\n") {
		if signature = signature && strings.HasPrefix(line, " "); signature {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "gpgsig", "gpgsig-sha256", "mergetag":
			signature = true
			continue
		case "parent":
			if to, is := renamed[Hash(value)]; is {
				line, changed = "parent "+string(to), true
			}
		}
		lines = append(lines, line)
	}
	if !changed || !ok {
		return raw
	}
	return strings.Join(lines, "\n") + "\n\n" + now
}
