package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/target"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
)

// usersTool is the value of --tool without a name.
const usersTool = " "

// maxToolFiles is how many files golem copies for a tool.
const maxToolFiles = 10_000

// maxNotes is how many lines golem prints about what a tool does not show.
const maxNotes = 20

// openTool opens the changes at and below the typed paths in a diff tool, and waits until the user
// closes it.
func openTool(cmd *cobra.Command, w *workSession, name string, args []string) (err error) {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	if len(args) > 0 && name == usersTool && editor.IsKnownTool(args[0]) && !w.hasChanged(args[0]) {
		return usagef("the session has not changed %s; the tool is golem diff --tool=%[1]s", args[0])
	}
	tool, err := editor.FindDiffTool(strings.TrimSpace(name), func(key string) (string, error) { return gitEnv(w).UserSetting(ctx, key) })
	if err != nil {
		return err
	}
	r, _, err := w.review(cmd.ErrOrStderr(), "diff", args, false)
	if err != nil {
		return err
	}
	dir := editor.CopiesDir(w.program.Storage.Sessions.State)
	copies, err := editor.MakeCopies(dir)
	if err != nil {
		return visible.FileError(dir, err)
	}
	defer func() {
		if caught, is := errors.AsType[signaled](context.Cause(ctx)); is {
			err = caught.code()
		}
		err = errors.Join(err, copies.Remove())
	}()
	c := &toolCopies{workSession: w, Copies: copies, moved: make(map[string]bool)}
	if err := c.addAll(ctx, r); err != nil {
		return err
	}
	c.describe(cmd, r)
	if len(copies.Pairs) == 0 {
		note(cmd, "there is nothing that a tool can show; golem diff"+w.option()+" shows all")
		return nil
	}
	if tool.ComparesTrees() {
		return tool.Open(ctx, os.Environ(), toolStreams(), copies.Dir(), copies.Before(), copies.After())
	}
	return c.openEach(ctx, cmd, tool)
}

// toolStreams returns the streams of a tool.
func toolStreams() [3]*os.File { return [3]*os.File{os.Stdin, os.Stdout, os.Stderr} }

// gitEnv returns the environment in which golem finds git and the pager. One in a directory of the session does not count.
func gitEnv(w *workSession) target.Env {
	e := target.Env{Variables: os.Environ(), Writable: []string{w.program.Storage.Base}}
	for _, m := range w.mounts {
		e.Writable = append(e.Writable, m.source)
	}
	return e
}

// toolCopies makes the copies for a tool.
type toolCopies struct {
	*workSession
	*editor.Copies
	contents *session.Contents
	moved    map[string]bool // the old names of moved files
	notes    []string        // what the tool does not show
	omitted  int             // changes after the limits
}

// addAll copies both versions of all files of a review.
func (c *toolCopies) addAll(ctx context.Context, r *session.Review) (err error) {
	if c.contents, err = c.program.Storage.Sessions.OpenContents(c.Session); err != nil {
		return err
	}
	defer c.contents.Close()
	folded := 0
	for _, f := range r.Files {
		c.moved[f.From] = true
	}
	for _, f := range r.Files {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case f.IsFolded():
			folded++
			continue
		}
		if f.OldKind == overlay.Dir {
			c.addLost(ctx, f)
		}
		before, after, why := c.versions(f)
		c.add(f.Path, before, after, why)
	}
	if folded > 0 {
		c.notes = append(c.notes, "the tool does not show "+visible.Count(folded, "file")+" that only moved")
	}
	return c.Seal()
}

// versions returns both versions of a file, nil for one that does not exist. why says what the tool cannot
// show, "" for nothing.
func (c *toolCopies) versions(f session.FileChange) (before, after []byte, why string) {
	if f.Kind == overlay.Special || f.OldKind == overlay.Special {
		return nil, nil, "a pipe, socket or device, which golem does not copy"
	}
	before, after, err := c.contents.Read(f.Path, editor.MaxCopied)
	if err != nil {
		return nil, nil, err.Error()
	}
	if f.From != "" {
		before = c.readOld(f.From)
	}
	if f.OldKind == overlay.Symlink {
		to, err := c.contents.OldLink(f.Path)
		if err != nil {
			return nil, nil, err.Error()
		}
		before = linkText(to)
	}
	if f.Kind == overlay.Symlink {
		after = linkText(f.LinkTarget)
	}
	had, has := f.OldKind == overlay.File || f.From != "", f.Kind == overlay.File
	switch {
	case had && before == nil || has && after == nil:
		return nil, nil, fmt.Sprintf("larger than %s, or golem cannot read it", visible.Amount(editor.MaxCopied))
	case f.Op == overlay.Mode:
		return nil, nil, what(f)
	case f.OldMode != "" && had && has:
		why = "permissions " + f.OldMode + " → " + f.Mode
	case f.From != "":
		why = "moved from " + c.shown(f.From)
	case f.Kind == overlay.Dir:
		why = "a directory, without its files"
	}
	return before, after, why
}

// linkText returns the content of the text file that stands for a symlink.
func linkText(to string) []byte { return []byte("symlink to " + visible.Text(to) + "\n") }

// add copies the versions of a file, and notes what the tool does not show.
func (c *toolCopies) add(name string, before, after []byte, why string) {
	if before != nil || after != nil {
		if len(c.Pairs) >= maxToolFiles {
			c.omitted++
			return
		}
		err := c.Add(strings.TrimPrefix(name, "/"), before, after)
		if errors.Is(err, editor.ErrFull) {
			c.omitted++
			return
		}
		if err != nil {
			why = "golem cannot copy it: " + visible.FileError("", err).Error()
		}
	}
	if why != "" {
		c.notes = append(c.notes, c.shown(name)+": "+visible.Text(why))
	}
}

// addLost copies the files of a directory that the session deleted or replaced.
func (c *toolCopies) addLost(ctx context.Context, f session.FileChange) {
	m, ok := c.mountOf(f.Path)
	host, _ := c.hostOf(f.Path)
	below, err := filepath.Rel(m.source, host)
	root, wrong := os.OpenRoot(m.source)
	if err := errors.Join(err, wrong); !ok || err != nil {
		return
	}
	defer root.Close()
	visited := 0
	err = fs.WalkDir(root.FS(), filepath.ToSlash(below), func(name string, d fs.DirEntry, err error) error {
		at := f.Path + strings.TrimPrefix(name, filepath.ToSlash(below))
		visited++
		switch {
		case ctx.Err() != nil || visited > 10*maxToolFiles:
			return fs.SkipAll
		case err != nil:
			c.add(at, nil, nil, "golem cannot read it")
			return fs.SkipDir
		case d.IsDir() || c.moved[at]:
		case d.Type() == fs.ModeSymlink:
			to, err := root.Readlink(filepath.FromSlash(name))
			if err == nil {
				c.add(at, linkText(to), nil, "")
			}
		case !d.Type().IsRegular():
			c.add(at, nil, nil, "a pipe, socket or device, which golem does not copy")
		default:
			why := ""
			content := c.readOld(at)
			if content == nil {
				why = fmt.Sprintf("larger than %s, or golem cannot read it", visible.Amount(editor.MaxCopied))
			}
			c.add(at, content, nil, why)
		}
		return nil
	})
	if err != nil || visited > 10*maxToolFiles {
		c.add(f.Path, nil, nil, "the tool does not show all files of this directory")
	}
}

// readOld returns the content of a file in the user's directory, nil if golem cannot read it.
func (c *toolCopies) readOld(name string) []byte {
	m, ok := c.mountOf(name)
	if !ok {
		return nil
	}
	root, err := os.OpenRoot(m.source)
	if err != nil {
		return nil
	}
	defer root.Close()
	below := filepath.FromSlash(strings.TrimPrefix(strings.TrimPrefix(name, m.target), "/"))
	if info, err := root.Lstat(below); err != nil || !info.Mode().IsRegular() || info.Size() > editor.MaxCopied {
		return nil
	}
	content, err := root.ReadFile(below)
	if err != nil {
		return nil
	}
	return content
}

// describe prints what a person reads before the tool starts: warnings, and what the tool does not show.
func (c *toolCopies) describe(cmd *cobra.Command, r *session.Review) {
	errs := cmd.ErrOrStderr()
	v := newReviewText(errs, c.workSession, r)
	v.head(review.Shorten(r.Flags))
	for i, text := range c.notes {
		if i == maxNotes {
			v.line("%s of %s; golem diff%s --stat lists all changes", visible.Number(i), visible.Count(len(c.notes), "note"), c.option())
			break
		}
		v.line("%s", text)
	}
	if c.omitted > 0 {
		v.line("the tool lacks %s: golem copies at most %s and 512 MiB; name fewer with golem diff%s --tool PATH", visible.Count(c.omitted, "file"), visible.Count(maxToolFiles, "file"), c.option())
	}
	for _, text := range c.skippedBy(r) {
		v.line("%s", text)
	}
	v.b.screen.w.Write([]byte(v.b.String()))
}

// openEach opens one file after the other. At a terminal it asks before each after the first.
func (c *toolCopies) openEach(ctx context.Context, cmd *cobra.Command, tool editor.DiffTool) error {
	terminal := findTerminal(false)
	for i, p := range c.Pairs {
		if i > 0 && terminal != nil && tool.Prompt {
			summary := fmt.Sprintf("open %s in %s (%d of %d)", c.shown("/"+p.Name), visible.Text(tool.Name), i+1, len(c.Pairs))
			yes, stopped, err := newAsker(terminal, cmd.ErrOrStderr(), patience).confirm(ctx, "diff --tool", summary)
			if err != nil || stopped || ctx.Err() != nil {
				return err
			}
			if !yes {
				continue
			}
		}
		if err := tool.Open(ctx, os.Environ(), toolStreams(), c.Dir(), p.Before, p.After); err != nil {
			return err
		}
	}
	return nil
}
