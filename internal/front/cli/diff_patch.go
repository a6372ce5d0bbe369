package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
)

// maxPatched is the size of the largest content that a patch holds.
const maxPatched = 64 << 20

// printPatch prints the changes as a patch for git apply, with the exact bytes of the
// files. It must not print to a terminal, which would obey escape sequences in the files.
// All other text goes to standard error.
func (w *workSession) printPatch(cmd *cobra.Command, r *session.Review) error {
	errs := cmd.ErrOrStderr()
	fmt.Fprintf(errs, "golem: %s: %s\n", w.title(), r.Total())
	v := newReviewText(cmd.OutOrStdout(), w, r)
	flags := w.flags(r)
	for _, f := range flags {
		fmt.Fprintln(errs, "! "+v.flag(f))
	}
	if text := w.moreFlags(r, flags); text != "" {
		fmt.Fprintln(errs, "! "+text)
	}
	note(cmd, w.skippedBy(r)...)
	top := w.patchTop(r)
	if top != w.dir {
		fmt.Fprintf(errs, "golem: the paths in the patch are relative to %s\n", visible.Name(top))
	}
	contents, err := w.program.Storage.Sessions.OpenContents(w.Session)
	if err != nil {
		return err
	}
	defer contents.Close()
	lacks := 0
	for _, c := range r.Files {
		why, err := w.patchFile(rawOutput(cmd.OutOrStdout()), contents, top, c)
		if err != nil {
			return err
		}
		if why != "" {
			lacks++
			fmt.Fprintf(errs, "golem: the patch lacks %s: %s\n", w.shown(c.Path), why)
		}
	}
	return exitIf(lacks > 0, exitFailed)
}

// rawOutput returns the writer below the one that escapes text, if that is no terminal.
func rawOutput(w io.Writer) io.Writer {
	if s := streamOf(w); s != nil && s.file == nil {
		return s
	}
	return w
}

// patchTop returns the directory that the paths in a patch are relative to: the nearest
// one above all changed mounts.
func (w *workSession) patchTop(r *session.Review) string {
	top := ""
	for _, c := range r.Files {
		m, ok := w.mountOf(c.Path)
		if !ok {
			continue
		}
		if top == "" {
			top = m.source
		}
		for !inbox.IsBelow(top, m.source) {
			top = filepath.Dir(top)
		}
	}
	if top == "" {
		return w.dir
	}
	return top
}

// patchFile writes the change of one file. why is not "" if a patch cannot hold it.
func (w *workSession) patchFile(out io.Writer, contents *session.Contents, top string, c session.FileChange) (why string, err error) {
	name := strings.TrimPrefix(c.Path, "/")
	if host, ok := w.hostOf(c.Path); ok {
		if below, err := filepath.Rel(top, host); err == nil {
			name = filepath.ToSlash(below)
		}
	}
	f := patch.File{Name: name}
	mode := func(kind overlay.Kind, mode string) string {
		if kind == overlay.File || kind == overlay.Symlink {
			return mode
		}
		return ""
	}
	f.OldMode, f.Mode = mode(c.OldKind, c.GitModes[0]), mode(c.Kind, c.GitModes[1])
	switch {
	case c.Kind == overlay.Special:
		return "golem applies no pipes, sockets or devices", nil
	case c.Kind == overlay.Dir && c.OldKind != overlay.Dir:
		return "a patch has no empty directories", nil
	case c.OldKind == overlay.Dir:
		return "a patch has no directories; remove or replace it yourself", nil
	case c.OldKind == c.Kind && c.Kind == overlay.File && c.OldMode != "" && f.OldMode == f.Mode && c.Op == overlay.Mode:
		return "git has no permissions except executable", nil
	}
	real, own, err := contents.Read(c.Path, maxPatched)
	if err != nil {
		return "", err
	}
	if c.OldKind == overlay.Symlink {
		to, err := contents.OldLink(c.Path)
		if err != nil {
			return "", err
		}
		real = []byte(to)
	}
	if c.Kind == overlay.Symlink {
		own = []byte(c.LinkTarget)
	}
	if f.OldMode != "" && real == nil || f.Mode != "" && own == nil {
		return fmt.Sprintf("it is larger than %s, or cannot be read", visible.Amount(maxPatched)), nil
	}
	f.Old, f.New = real, own
	f.Numbered = c.Op == overlay.Modify && settle.HasHunks(real, own)
	return "", f.Write(out)
}
