package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// given returns the input of the entry worker.
func (f *runFlags) given(cmd *cobra.Command, p *program.Program, words []string) (in run.Input, err error) {
	files := f.attach
	var text []string
	for _, word := range words {
		if attachedUnasked(word) {
			files = append(files, word)
		} else {
			text = append(text, word)
		}
	}
	said := 0
	for _, is := range []bool{len(text) > 0, f.input != "", f.file != ""} {
		if is {
			said++
		}
	}
	if said > 1 {
		return in, usageError("the input is given twice; use arguments, --input or --file; --attach FILE gives the worker a file besides")
	}
	switch {
	case f.file == "-": // read below
	case f.file != "":
		data, err := os.ReadFile(f.file)
		if err != nil {
			return in, usagef("--file %s: %v", sandbox.Shown(f.file), errors.Unwrap(err))
		}
		in.Text = string(data)
		from, err := filepath.Abs(f.file) // unlike the name of an attachment, it does not start at the worker's directory
		if err != nil {
			return in, err
		}
		f.handed = append(f.handed, from)
	default:
		in.Text = cmp.Or(f.input, strings.Join(text, " "))
	}
	f.handed = append(f.handed, files...)
	if in.Files, err = p.Attach(files); err != nil {
		return in, err
	}
	takes := f.takesStdin(p)
	if info, err := os.Stdin.Stat(); err == nil && info.Mode().IsRegular() && (takes || p.Entry != nil && p.Entry.Mode == "chat") {
		f.handed = append(f.handed, "/dev/stdin") // a symlink to the file, on Linux
	}
	if takes {
		if err := f.addStdin(cmd, p, &in); err != nil {
			return in, err
		}
	}
	if len(in.Text) > maxInput {
		return in, usagef("the input has more than %s; attach it as a file: --attach FILE", visible.Amount(maxInput))
	}
	if !utf8.ValidString(in.Text) {
		return in, usageError("the input is not UTF-8 text; attach it as a file: --attach FILE")
	}
	if f.resume == "" && strings.TrimSpace(in.Text) == "" && len(in.Files) == 0 && p.Entry != nil && !p.Entry.AllowEmptyInput && p.Entry.Mode != "chat" {
		if f.chatty = !wantsJSON(cmd) && newScreen(os.Stdin).file != nil && findTerminal(false) != nil; f.chatty {
			return in, nil
		}
		return in, usagef("%s needs an input; %s\"what to do\"", visible.Text(p.Entry.Name), f.command(p))
	}
	return in, nil
}

// maxInput is the maximum size of an input in bytes.
const maxInput = 1 << 20

// attachedUnasked reports whether golem attaches a word of the input as a file: a PDF or
// an image that exists.
func attachedUnasked(word string) bool {
	switch strings.ToLower(filepath.Ext(word)) {
	case ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".webp":
		info, err := os.Stat(word)
		return err == nil && info.Mode().IsRegular()
	}
	return false
}

// takesStdin reports whether more input comes from standard input: a pipe or a file. A chat
// and an editor send messages there, and a run that continues needs no input.
func (f *runFlags) takesStdin(p *program.Program) bool {
	if f.file == "-" {
		return true
	}
	if f.resume != "" || f.editor || p.Entry != nil && p.Entry.Mode == "chat" {
		return false
	}
	info, err := os.Stdin.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0)
}

// stdinName is the name of standard input as an attached file, without a suffix.
const stdinName = "stdin"

// stdinPatience is how long golem reads standard input before it says so.
const stdinPatience = 2 * time.Second

// addStdin adds the content of standard input to the input: a text after the words, and
// other content as an attached file.
func (f *runFlags) addStdin(cmd *cobra.Command, p *program.Program, in *run.Input) error {
	notice := time.AfterFunc(stdinPatience, func() {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: reading standard input until it ends; add </dev/null if it holds no input")
	})
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), run.MaxFile+1))
	notice.Stop()
	switch {
	case err != nil:
		return err
	case len(data) == 0:
		return nil
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		attachments, err := p.Attachments()
		if err != nil {
			return err
		}
		file, err := attachments.Add(stdinName, data, in.Files)
		if err != nil {
			return err
		}
		in.Files = append(in.Files, file)
	case strings.TrimSpace(in.Text) == "":
		in.Text = string(data)
	default:
		in.Text = strings.TrimRight(in.Text, "\n") + "\n\n" + string(data)
	}
	return nil
}

// command returns the command that starts the program again, with a space at its end.
func (f *runFlags) command(p *program.Program) string {
	if p.IsDefault() && f.said == "." {
		return "golem run "
	}
	return "golem run " + visible.CommandLine(f.said) + " "
}
