package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/project"
)

func newConfigEdit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit",
		Short: "Edit the project file or your configuration, and check it",
		Long: `Open the project file in your editor (VISUAL, EDITOR). With --user it is your own
configuration, which golem makes if it is missing. When you close the editor, golem saves
the text and checks it as golem lint does.

Exit code 0: saved or unchanged, no problems; 2: problems.`,
		Example: "  golem config edit\n  golem config edit --user",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	user := false
	cmd.Flags().BoolVar(&user, "user", false, "your own configuration, ~/.config/golem/config.yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := flags.options()
		if err != nil {
			return err
		}
		file := o.Config
		if !user {
			root, name, err := project.Find(o.Dir)
			if err != nil {
				return err
			}
			if name == "" {
				return usageError("no project file here; golem init makes one; golem config edit --user edits your own configuration")
			}
			file = filepath.Join(root, name)
		}
		if file == "" {
			return errNoPlace
		}
		saved, err := editFile(file)
		if err != nil {
			return err
		}
		if _, err := flags.open(opening{strict: true, otherwise: emptyProgram}); err != nil { // Main prints all problems, and ends with exit code 2
			return err
		}
		what := "no problems"
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			what = "nothing was saved, and golem made no file"
		} else if !saved {
			what = "unchanged, no problems"
		}
		fmt.Fprintln(cmd.OutOrStdout(), what+": "+visible.Text(file))
		return nil
	}
	return cmd
}

func newConfigSet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Set a value of your configuration",
		Long: `Set a value of your own configuration, ~/.config/golem/config.yaml, which golem makes if
it is missing. golem changes one line of the file, and only if the result is valid. The
values of your configuration are defaults and limits for all programs.`,
		Example: "  golem config set model anthropic:claude-sonnet-4-5\n  golem config set notify off",
	}
	cmd.Args = takesArgs(2, 2, "config set takes a key and a value: golem config set model anthropic:claude-sonnet-4-5")
	flags := &programFlags{dir: "."}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := flags.options()
		if err != nil {
			return err
		}
		file := o.Config
		if file == "" {
			return errNoPlace
		}
		file, old, err := readConfig(file)
		if err != nil {
			return err
		}
		if before, vendor, ok := strings.Cut(args[1], ":"); args[0] == "model" && (!ok || vendor == "" || !slices.Contains(models.Names(), before)) {
			return usagef("model %s: a model is vendor:name, such as anthropic:claude-sonnet-4-5; vendors are %s", visible.Text(args[1]), strings.Join(models.Names(), ", "))
		}
		text, err := o.SetConfig(old, args[0], args[1])
		if err != nil {
			return err
		}
		if err := writeConfig(file, text); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "set %s to %s in %s\n", args[0], visible.Text(args[1]), visible.Text(visible.HomeRelative(file, o.Home)))
		return nil
	}
	return cmd
}

// readConfig returns the file that a name leads to, and its content: nil if there is none. It
// follows a symlink, which stays when the file is written.
func readConfig(file string) (real string, content []byte, err error) {
	if err := project.CheckDangling(file); err != nil {
		return file, nil, err
	}
	if real, err = filepath.EvalSymlinks(file); err != nil {
		real = file
	}
	content, err = os.ReadFile(real)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return real, nil, visible.FileError(real, err)
	}
	return real, content, nil
}

// writeConfig writes a file of the user. The permissions of one that exists stay.
func writeConfig(file string, content []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = durable.WriteFile(file, content, mode)
	}
	if err != nil {
		return visible.FileError(file, err)
	}
	return nil
}

// editFile opens a file in the user's editor and saves the text if it has changed.
func editFile(file string) (saved bool, err error) {
	file, old, err := readConfig(file)
	if err != nil {
		return false, err
	}
	terminal := findTerminal(false)
	if terminal == nil {
		return false, usagef("no terminal to edit at; change %s with another program, then run golem lint", visible.Text(file))
	}
	text, err := editor.Edit(editor.Command(os.Environ()), os.Environ(), terminal, filepath.Base(file), string(old))
	if err != nil {
		return false, fmt.Errorf("%w; %s is as it was; choose another editor with EDITOR=…, or change the file yourself and run golem lint", err, visible.Text(file))
	}
	if text == string(old) {
		return false, nil
	}
	if now, err := os.ReadFile(file); err == nil && string(now) != string(old) {
		return false, fmt.Errorf("%s changed while you edited it; nothing was saved", visible.Text(file))
	}
	return true, writeConfig(file, []byte(text))
}
