package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/editor"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/visible"
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
		if err := editFile(file); err != nil {
			return err
		}
		if _, err := flags.open(opening{strict: true, otherwise: emptyProgram}); err != nil { // Main prints all problems, and ends with exit code 2
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "no problems: "+visible.Text(file))
		return nil
	}
	return cmd
}

// editFile opens a file in the user's editor and saves the text if it has changed.
func editFile(file string) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // the symlink stays
	}
	terminal := findTerminal(false)
	if terminal == nil {
		return usagef("no terminal to edit at; change %s with another program, then run golem lint", visible.Text(file))
	}
	mode := fs.FileMode(0o600)
	old, err := os.ReadFile(file)
	if info, wrong := os.Stat(file); wrong == nil {
		mode = info.Mode().Perm()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return visible.FileError(file, err)
	}
	text, err := editor.Edit(editor.Command(os.Environ()), os.Environ(), terminal, filepath.Base(file), string(old))
	if err != nil {
		return err
	}
	if text == string(old) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return visible.FileError(file, err)
	}
	if now, err := os.ReadFile(file); err == nil && string(now) != string(old) {
		return fmt.Errorf("%s changed while you edited it; nothing was saved", visible.Text(file))
	}
	return durable.WriteFile(file, []byte(text), mode)
}
