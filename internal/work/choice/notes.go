package choice

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// Notes are what people noted while they reviewed a session: the files that they viewed, and
// their comments. golem keeps them beside the session, where its commands cannot read or
// change them.
type Notes struct {
	// Viewed has the digest of each file that somebody marked as viewed, by path. The mark counts
	// only for a file with this digest: see IsViewed.
	Viewed   map[string]string `json:"viewed,omitempty"`
	Comments []Comment         `json:"comments,omitempty"` // in the order in which they were written
}

// A Comment is what a person wrote about the changes of a session, about a file in them, or about
// some of its lines.
type Comment struct {
	ID      string    `json:"id"`
	By      string    `json:"by"` // where it was written, and the account of the person
	Written time.Time `json:"written"`
	Path    string    `json:"path,omitempty"` // "" for all changes
	Line    int       `json:"line,omitempty"` // the first line, 0 for the whole file
	Last    int       `json:"last,omitempty"`
	Old     bool      `json:"old,omitempty"`    // the lines are those of the user's directory
	Digest  string    `json:"digest,omitempty"` // of the file, as File.Digest returns it
	Lines   []string  `json:"lines,omitempty"`  // the lines
	Before  []string  `json:"before,omitempty"` // a few lines above them
	After   []string  `json:"after,omitempty"`  // a few lines below them
	Text    string    `json:"text"`
	Sent    time.Time `json:"sent,omitzero"` // when golem gave it to the agent
}

// The limits on notes.
const (
	MaxCommentText = 8 << 10 // bytes
	maxComments    = 1000
	maxQuoted      = 200 // lines of one comment
	maxQuotedBytes = 64 << 10
	around         = 3 // lines above and below
)

// notesName is the document with the notes of a session.
const notesName = "review.json"

// ReadNotes returns the notes about a session.
func ReadNotes(one *session.Session) (n Notes, err error) {
	dir, err := one.OpenState()
	if err != nil {
		return n, err
	}
	defer dir.Close()
	data, err := dir.Read(notesName)
	if err == nil {
		n, err = parseNotes(one, data)
	}
	return n, err
}

func parseNotes(one *session.Session, data []byte) (n Notes, err error) {
	if len(data) == 0 {
		return n, nil
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return Notes{}, fmt.Errorf("the comments on session %s are damaged: %w; their file is %s in %s", one.ID, err, notesName, visible.Text(one.Dir()))
	}
	return n, nil
}

// ChangeNotes changes the notes about a session. No other process changes them meanwhile.
func ChangeNotes(one *session.Session, change func(*Notes) error) error {
	dir, err := one.OpenState()
	if err != nil {
		return err
	}
	err = dir.Update(notesName, func(old []byte) ([]byte, error) {
		n, err := parseNotes(one, old)
		if err == nil {
			err = change(&n)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(n)
	})
	return errors.Join(err, dir.Close())
}

// Add adds a comment.
func (n *Notes) Add(c Comment) error {
	if len(n.Comments) >= maxComments {
		return &sandbox.Error{Op: "comment", Path: c.Path, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("the session has %d comments already; golem comments remove ID removes one", maxComments)}
	}
	n.Comments = append(n.Comments, c)
	return nil
}

// Remove removes a comment.
func (n *Notes) Remove(id string) error {
	i := slices.IndexFunc(n.Comments, func(c Comment) bool { return c.ID == id })
	if i < 0 {
		return &sandbox.Error{Op: "comment", Path: id, Code: sandbox.ErrNotFound, Hint: "the session has no such comment; golem comments lists them"}
	}
	n.Comments = slices.Delete(n.Comments, i, i+1)
	return nil
}

// Unsent returns the comments that the agent did not get yet.
func (n Notes) Unsent() (list []Comment) {
	for _, c := range n.Comments {
		if c.Sent.IsZero() {
			list = append(list, c)
		}
	}
	return list
}

// MarkSent records when the agent got some comments.
func (n *Notes) MarkSent(sent []Comment, now time.Time) {
	for i := range n.Comments {
		if slices.ContainsFunc(sent, func(c Comment) bool { return c.ID == n.Comments[i].ID }) {
			n.Comments[i].Sent = now
		}
	}
}

// IsViewed reports whether somebody marked a file as viewed, and whether it still has the
// content that they viewed. The file must have been read.
func (n Notes) IsViewed(f *File) (viewed, changedSince bool) {
	digest, marked := n.Viewed[f.Path]
	viewed = marked && f.isKnown() && digest == f.Digest()
	return viewed, marked && !viewed
}

// SetViewed marks a file with a digest as viewed, or removes the mark.
func (n *Notes) SetViewed(path, digest string, viewed bool) {
	if !viewed {
		delete(n.Viewed, path)
		return
	}
	if n.Viewed == nil {
		n.Viewed = make(map[string]string)
	}
	n.Viewed[path] = digest
}

// CheckViewable returns an error if golem could not tell when the content of a file changes.
func (f *File) CheckViewable() error {
	if f.isKnown() {
		return nil
	}
	return &sandbox.Error{Op: "viewed", Path: f.Path, Code: sandbox.ErrInvalid, Hint: "the file is too large for golem to read, so golem cannot tell when it changes"}
}

// isKnown reports whether the digest of a file covers all of its content.
func (f *File) isKnown() bool {
	return (f.Kind != overlay.File || f.Own != nil) && (f.OldKind != overlay.File || f.Real != nil)
}

// NewComment returns a comment on lines of a file that was read. Line 0 means the whole file, and
// no file means all changes.
func NewComment(f *File, line, last int, old bool, text, by string, now time.Time) (Comment, error) {
	text = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "�"))
	c := Comment{ID: strings.ToLower(rand.Text()[:6]), By: by, Written: now, Text: text}
	if f != nil {
		c.Path, c.Digest = f.Path, f.Digest()
	}
	refuse := func(hint string) (Comment, error) {
		return Comment{}, &sandbox.Error{Op: "comment", Path: c.Path, Code: sandbox.ErrInvalid, Hint: hint}
	}
	switch {
	case text == "":
		return refuse("the comment is empty; write what should change")
	case len(text) > MaxCommentText:
		return refuse(fmt.Sprintf("the comment has more than %s; write a shorter one", visible.Amount(MaxCommentText)))
	case line == 0:
		return c, nil
	case f == nil:
		return refuse("a comment on a line needs a file")
	}
	c.Line, c.Last, c.Old = line, max(line, last), old
	all := f.lines(old)
	switch {
	case len(all) == 0:
		return refuse("golem shows no lines of this file; comment on the whole file")
	case line < 0 || c.Last > len(all):
		return refuse(fmt.Sprintf("the file has lines 1 to %d", len(all)))
	case c.Last-line >= maxQuoted:
		return refuse(fmt.Sprintf("choose at most %d lines", maxQuoted))
	}
	c.Lines = slices.Clone(all[line-1 : c.Last])
	c.Before = slices.Clone(all[max(0, line-1-around) : line-1])
	c.After = slices.Clone(all[c.Last:min(len(all), c.Last+around)])
	size := 0
	for _, l := range slices.Concat(c.Lines, c.Before, c.After) {
		size += len(l)
	}
	if size > maxQuotedBytes {
		return refuse("these lines are too long to quote; comment on the whole file")
	}
	return c, nil
}

// lines returns the lines of a text file, nil if it has none to show.
func (f *File) lines(old bool) []string {
	content := f.Own
	if old {
		content = f.Real
	}
	if len(content) == 0 || !filecontent.IsText(content) {
		return nil
	}
	return strings.Split(strings.TrimSuffix(filecontent.Decode(content, false), "\n"), "\n")
}

// ReadCommented reads the files that comments are about, by name.
func ReadCommented(store session.Sessions, one *session.Session, list []Comment) (map[string]*File, error) {
	var names []string
	for _, c := range list {
		if c.Path != "" && !slices.Contains(names, c.Path) {
			names = append(names, c.Path)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	look, err := store.ListChanges(one)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	found, _, err := ReadFiles(look, names, false)
	return found, err
}

// A Standing says what became of the lines of a comment.
type Standing string

// The standings.
const (
	General Standing = "general" // the comment is about all changes
	Same    Standing = "same"    // the lines are where they were, as they were
	Moved   Standing = "moved"   // the lines are as they were, in another place
	Altered Standing = "changed" // the lines, or the whole file, are other ones now
	Gone    Standing = "gone"    // the session does not change the file any more
)

// String describes a standing for a person.
func (s Standing) String() string {
	return map[Standing]string{General: "about all changes", Same: "not changed since", Moved: "moved, not changed since", Altered: "changed since", Gone: "the session does not change this file any more"}[s]
}

// Stand returns what became of the lines of a comment, and the first of them now. The file is
// nil if the session does not change it any more; otherwise it must have been read.
func (c Comment) Stand(f *File) (s Standing, line int) {
	switch {
	case c.Path == "":
		return General, 0
	case f == nil:
		return Gone, 0
	case f.isKnown() && f.Digest() == c.Digest:
		return Same, c.Line
	case c.Line == 0:
		return Altered, 0
	}
	all := f.lines(c.Old)
	best, at, found := -1, 0, 0
	for i := range max(0, len(all)-len(c.Lines)+1) {
		if !slices.Equal(all[i:i+len(c.Lines)], c.Lines) {
			continue
		}
		found++
		// The lines around tell equal lines apart, and then the distance does.
		score := same(reversed(all[:i]), reversed(c.Before)) + same(all[i+len(c.Lines):], c.After)
		if score > best || score == best && distance(i+1, c.Line) < distance(at, c.Line) {
			best, at = score, i+1
		}
	}
	isAlone := found == 1 && strings.ContainsFunc(strings.Join(c.Lines, ""), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	switch {
	case found == 0 || !isAlone && 2*best < len(c.Before)+len(c.After):
		return Altered, 0
	case at == c.Line:
		return Same, at
	}
	return Moved, at
}

func distance(a, b int) int { return max(a-b, b-a) }

// same counts how many lines at the beginning of two lists are equal.
func same(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// reversed returns the last lines of a list, the last one first.
func reversed(list []string) []string {
	list = slices.Clone(list[max(0, len(list)-around):])
	slices.Reverse(list)
	return list
}

// Place names what a comment is about: "app.go, lines 3-5".
func (c Comment) Place(shown func(path string) string) string {
	text := "all changes"
	switch {
	case c.Path == "":
	case c.Line == 0:
		text = shown(c.Path)
	case c.Last == c.Line:
		text = fmt.Sprintf("%s, line %d", shown(c.Path), c.Line)
	default:
		text = fmt.Sprintf("%s, lines %d-%d", shown(c.Path), c.Line, c.Last)
	}
	if c.Old {
		text += " before the change"
	}
	return text
}

// maxTold is how many quoted lines of a comment a message has.
const maxTold = 12

// Message returns comments as a message for the agent. shown returns the name that the agent has
// for a file. The quoted lines are the agent's own text: each has a mark that no line of a
// comment begins with.
func Message(list []Comment, shown func(path string) string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "I reviewed your changes. Please answer %s with another version of the files. Lines that begin with > are quoted from the files, and are not part of my comments.\n", visible.Count(len(list), "comment"))
	for i, c := range list {
		fmt.Fprintf(&b, "\n%d. %s\n", i+1, c.Place(shown))
		for k, line := range c.Lines {
			if k == maxTold {
				fmt.Fprintf(&b, "> … and %s\n", visible.Count(len(c.Lines)-k, "more line"))
				break
			}
			fmt.Fprintf(&b, "> %s\n", visible.Text(line))
		}
		for line := range strings.Lines(visible.Prose(c.Text)) {
			b.WriteString("   " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}
