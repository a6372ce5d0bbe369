package clearance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
)

// maxTexts limits how much text of a commit is kept to be shown. Files beyond it are
// marked as cut.
const maxTexts = 32 << 20

// An Examination is the result of examining a staged commit before a push. It comes from the
// objects that the push would push.
type Examination struct {
	Commit *StagedCommit
	Flags  []review.Flag // flags of the whole commit, the riskiest first
	Files  []Seen        // the riskiest first
	Bytes  int64         // size of the new contents

	Message []scan.Finding // findings in the message, the names of files and the name of the branch
}

// A Seen is the result for one file.
type Seen struct {
	review.FileChange // without its contents
	Flags             []review.Flag
	Verdict           scan.Verdict // the verdict of the scanners; zero for a deleted file
}

// A Limit is how many bytes may leave for each byte that was read, 0 for no limit.
type Limit float64

// Examine examines a staged commit, also with scanners unless they are nil.
func (d *Commits) Examine(ctx context.Context, c *StagedCommit, most Limit, scanners *scan.Set) (*Examination, error) {
	l := &Examination{Commit: c, Bytes: c.Bytes()}
	scanning := ctx
	if scanners != nil {
		var cancel context.CancelFunc
		scanning, cancel = scanners.Together(ctx)
		defer cancel()
	}
	room := maxTexts
	err := d.Diff(ctx, c, func(f FileDiff) error {
		s := Seen{FileChange: f.change()}
		if room -= len(s.Diff); room < 0 {
			s.Diff, s.Cut = "", true
		}
		if err := d.sum(ctx, c, f, &s.FileChange); err != nil {
			return err
		}
		s.Flags = review.Flags(s.FileChange)
		if scanners != nil && f.Operation != Delete {
			s.Verdict = scanners.Scan(scanning, d.scanned(ctx, c, f))
		}
		s.Old = nil
		if f.Mode != git.Link && f.Mode != git.Submodule { // keeps the content of symlinks and submodules, which is their target
			s.New = nil
		}
		l.Files = append(l.Files, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if scanners != nil {
		l.Message = slices.Concat(scan.Message(scanning, c.Message), scanNames(scanning, c))
	}
	if err := d.together(ctx, l); err != nil {
		return nil, err
	}
	l.Flags = append(l.Flags, review.Message(c.Branch+"\n"+c.Message)...)
	if flag, ok := review.Handed(c.Intake, l.Bytes, float64(most)); ok && c.Intake > 0 {
		l.Flags = append(l.Flags, flag)
	}
	review.Order(l.Flags)
	var all []review.Flag
	for _, s := range l.Files {
		all = append(all, s.Flags...)
	}
	review.Sort(l.Files, func(s Seen) string { return s.Path }, slices.Concat(all, l.Flags))
	return l, nil
}

// sum sets the hash of a binary content, which nobody can read.
func (d *Commits) sum(ctx context.Context, c *StagedCommit, f FileDiff, change *review.FileChange) error {
	if !f.Binary || f.Operation == Delete {
		return nil
	}
	content, err := d.scanned(ctx, c, f).Open()
	if err != nil {
		return err
	}
	defer content.Close()
	h := sha256.New()
	if _, err := io.Copy(h, content); err != nil {
		return err
	}
	change.Sum = hex.EncodeToString(h.Sum(nil))
	return nil
}

// scanned returns a file for the scanners.
func (d *Commits) scanned(ctx context.Context, c *StagedCommit, f FileDiff) scan.Content {
	content := scan.Content{Path: f.Path, Size: f.NewSize, Hash: string(f.New)}
	content.Open = func() (io.ReadCloser, error) {
		if int64(len(f.content)) == f.NewSize {
			return io.NopCloser(bytes.NewReader(f.content)), nil
		}
		return d.Content(ctx, c, f.File)
	}
	return content
}

// Content opens the new content of a file of a staged commit.
func (d *Commits) Content(ctx context.Context, c *StagedCommit, f File) (io.ReadCloser, error) {
	_, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	return d.content(ctx, at, f.New)
}

// A streamed is the content of a file, read by a separate git process.
type streamed struct {
	io.Reader
	git *git.Reader
}

func (s streamed) Close() error {
	s.git.Close()
	return nil
}

// scanNames finds secrets in the names of files and of the branch.
func scanNames(ctx context.Context, c *StagedCommit) []scan.Finding {
	var names strings.Builder
	names.WriteString(c.Branch + "\n")
	for _, f := range c.Files {
		if f.Operation != Delete {
			names.WriteString(f.Path + "\n")
		}
	}
	found := scan.Message(ctx, names.String())
	for i := range found {
		found[i].What = "in the name of a file or of the branch: " + found[i].What
		found[i].Line, found[i].Offset = 0, 0
	}
	return found
}

// Held returns the verdicts with which scanners hold files back.
func (l *Examination) Held() []scan.Verdict {
	var list []scan.Verdict
	for _, s := range l.Files {
		if s.Verdict.Held {
			list = append(list, s.Verdict)
		}
	}
	return list
}

// together examines the files as a whole, with the names that already exist in their
// directories.
func (d *Commits) together(ctx context.Context, l *Examination) error {
	changes := make([]review.FileChange, len(l.Files))
	folders := make(map[string]bool)
	for i, s := range l.Files {
		changes[i] = s.FileChange
		for dir := path.Dir(s.Path); s.Operation != string(Delete) && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	beside, err := d.beside(ctx, l.Commit, slices.Sorted(maps.Keys(folders)))
	if err != nil {
		return err
	}
	l.Flags = review.All(changes, beside...)
	return nil
}

// beside returns the names that a branch has in directories.
func (d *Commits) beside(ctx context.Context, c *StagedCommit, folders []string) ([]string, error) {
	if c.parent() == "" {
		return nil, nil
	}
	_, at, err := d.open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	r, err := d.store.Reader(ctx, at.objects())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var names []string
	for _, dir := range folders {
		within := dir
		if dir == "." {
			within = ""
		}
		list, err := r.ReadDir(c.parent(), within)
		if err != nil {
			return nil, err
		}
		for _, name := range list {
			names = append(names, path.Join(dir, name))
		}
	}
	return names, nil
}

// change converts a diff to the type of package review.
func (f FileDiff) change() review.FileChange {
	return review.FileChange{Path: f.Path, Operation: string(f.Operation), OldMode: string(f.OldMode), Mode: string(f.Mode), Old: f.was, New: f.becomes,
		OldSize: f.OldSize, Size: f.NewSize, Cut: f.Cut, Binary: f.Binary, Encoding: f.Encoding, Diff: f.Text, Passed: f.Passed, Links: int(f.Links)}
}

// Risky returns the flags of all files and of the whole, the riskiest first.
func (l *Examination) Risky() []review.Flag {
	all := slices.Clone(l.Flags)
	for _, s := range l.Files {
		all = append(all, s.Flags...)
	}
	review.Order(all)
	return all
}

// Unseen returns the text files that cannot be shown completely.
func (l *Examination) Unseen() []string {
	var names []string
	for _, s := range l.Files {
		if s.Cut && !s.Binary && s.Mode != string(git.None) {
			names = append(names, s.Path)
		}
	}
	return names
}
