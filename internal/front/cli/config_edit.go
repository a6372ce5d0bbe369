package cli

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
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
			root, name, err := findProjectFile(o.Dir, "golem config edit --user edits your own configuration")
			if err != nil {
				return err
			}
			file = filepath.Join(root, name)
		}
		if file == "" {
			return errNoHome
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
		Short: "Set a value of your configuration or of the project file",
		Long: `Set a value of your own configuration, ~/.config/golem/config.yaml, which golem makes if
it is missing. The values of your configuration are defaults and limits for all programs.
With --project it is the project file here, which has the hosts that commands reach.

If KEY is a list, golem adds VALUE to it, or with --remove takes it away. A key in a group
is GROUP.KEY. For network.allow, +npm means the preset npm. golem changes as few lines as it
can, comments stay, and it writes only a valid file. If the change allows more than before,
golem shows it and asks; --yes approves it.

Exit code 0: set; 2: not a valid change; 3: not approved.`,
		Example: `  golem config set model anthropic:claude-sonnet-4-5
  golem config set --project network.allow +npm
  golem config set --project --remove network.allow api.example.com`,
	}
	cmd.Args = takesArgs(2, 2, "config set takes a key and a value: golem config set model anthropic:claude-sonnet-4-5, or golem config set --project network.allow +npm")
	c := configSet{flags: addProgramFlags(cmd)}
	cmd.Flags().BoolVar(&c.project, "project", false, "the project file, and not your own configuration")
	cmd.Flags().BoolVar(&c.edit.Remove, "remove", false, "remove the value from a list")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "approve a change that allows more, without a question")
	cmd.RunE = c.run
	return cmd
}

// A configSet is a call of golem config set.
type configSet struct {
	flags        *programFlags
	edit         project.ConfigEdit
	project, yes bool
}

func (c *configSet) run(cmd *cobra.Command, args []string) error {
	o, err := c.flags.options()
	if err != nil {
		return err
	}
	c.edit.Key, c.edit.Value, c.edit.File, c.edit.Schema = args[0], args[1], o.Config, project.ConfigSchema()
	root, name := "", ""
	if c.project {
		if root, name, err = findProjectFile(o.Dir, "without --project golem config set changes your own configuration"); err != nil {
			return err
		}
		c.edit.File, c.edit.Schema = filepath.Join(root, name), project.Schema()
	} else if c.edit.File == "" {
		return errNoHome
	}
	if err := c.checkKey(); err != nil {
		return err
	}
	file, old, err := readConfig(c.edit.File)
	if err != nil {
		return err
	}
	text, err := c.edit.Apply(old)
	switch {
	case err != nil:
	case c.project:
		err = o.CheckProjectFile(root, name, text)
	default:
		err = o.CheckConfig(text)
	}
	if err != nil {
		return err
	}
	if yes, err := c.approve(cmd, o, file, old, text); err != nil || !yes {
		return cmp.Or(err, error(exit(exitDenied)))
	}
	verb := "set %s to %s in %s\n"
	if _, lists := project.EditableKeys(c.edit.Schema); c.edit.Remove {
		verb = "removed from %s: %s in %s\n"
	} else if lists[c.edit.Key] {
		verb = "added to %s: %s in %s\n"
	}
	fmt.Fprintf(cmd.OutOrStdout(), verb, c.edit.Key, visible.Text(c.edit.Value), visible.Text(visible.HomeRelative(file, o.Home)))
	return nil
}

// checkModel returns an error for a text that is no name of a model.
func checkModel(text string) error {
	if vendor, name, ok := strings.Cut(text, ":"); !ok || name == "" || !slices.Contains(models.Names(), vendor) {
		return usagef("model %s: a model is vendor:name, such as anthropic:claude-sonnet-4-5; vendors are %s", visible.Text(text), strings.Join(models.Names(), ", "))
	}
	return nil
}

// checkKey checks a model, translates +PRESET, and says which file has a key that this one lacks.
func (c *configSet) checkKey() error {
	if preset, is := strings.CutPrefix(c.edit.Value, "+"); is && c.edit.Key == "network.allow" {
		c.edit.Key, c.edit.Value = "network.presets", preset
		if names := policy.PresetNames(); !slices.Contains(names, preset) {
			near := ""
			if list := sandbox.Nearest(preset, names); len(list) > 0 {
				near = "did you mean +" + list[0] + "? "
			}
			return usagef("no preset +%s; %sthere are %s", visible.Text(preset), near, strings.Join(names, ", "))
		}
	}
	if err := checkModel(c.edit.Value); err != nil && c.edit.Key == "model" {
		return err
	}
	other, option := project.Schema(), "--project "
	if c.project {
		other, option = project.ConfigSchema(), ""
	}
	here, _ := project.EditableKeys(c.edit.Schema)
	if there, _ := project.EditableKeys(other); !slices.Contains(here, c.edit.Key) && slices.Contains(there, c.edit.Key) {
		return usagef("%s has no key %s; golem config set %s%s", map[bool]string{true: "the project file", false: "your own configuration"}[c.project], c.edit.Key, option, visible.CommandLine(c.edit.Key, c.edit.Value))
	}
	return nil
}

// harmlessKeys are keys with which no value allows more than another.
var harmlessKeys = []string{"model", "summary_model", "fallback_models", "effort", "show_thinking", "temperature", "max_answer_tokens", "commit.trailer", "theme.color", "session", "notify", "hub", "state.max_bytes"}

// widens reports whether the change may allow more. In doubt it does.
func (c *configSet) widens() bool {
	switch {
	case slices.Contains(harmlessKeys, c.edit.Key):
		return false
	case c.edit.Remove: // from a list of what is allowed, or of something else
		return !slices.Contains([]string{"network.allow", "network.presets", "network.fetch", "roots", "tools.allow", "models"}, c.edit.Key)
	case c.edit.Key == "tools.deny" || c.edit.Key == "network" && c.edit.Value == "off" || c.edit.Key == "approval.unseen" && c.edit.Value == "false" || c.edit.Key == "approval.mode" && c.edit.Value == "auto_deny":
		return false
	}
	return true
}

// approve writes the file. If the change allows more, it shows it first and asks.
func (c *configSet) approve(cmd *cobra.Command, o program.Options, file string, old, text []byte) (bool, error) {
	change := fileChange{command: "config set", file: file, old: old, text: text, says: "so that it allows more", yes: c.yes}
	if !c.widens() {
		return true, change.write()
	}
	change.again = append([]string{"golem"}, strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "golem "))...)
	if c.project {
		change.again = append(change.again, "--project")
	}
	if c.edit.Remove {
		change.again = append(change.again, "--remove")
	}
	change.again = append(change.again, "--yes", c.edit.Key, c.edit.Value)
	return change.approve(cmd, c.flags, o)
}

// A fileChange is a change of a file with settings that the user decides about.
type fileChange struct {
	command   string // of golem
	file      string
	old, text []byte
	says      string   // completes "change FILE …"
	yes       bool     // the user gave --yes
	again     []string // the command line that approves the change
}

// write writes the file, unless it has changed since golem read it.
func (c fileChange) write() error {
	if now, err := os.ReadFile(c.file); err == nil && string(now) != string(c.old) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s changed meanwhile; nothing was written; run the command again", visible.Text(c.file))
	}
	return writeConfig(c.file, c.text)
}

// diff returns the change as lines.
func (c fileChange) diff() []string {
	name := filepath.Base(c.file)
	return strings.Split(strings.TrimSuffix(patch.Unified(name, name, string(c.old), string(c.text)), "\n"), "\n")
}

// approve shows the change, asks about it, and writes the file.
func (c fileChange) approve(cmd *cobra.Command, f *programFlags, o program.Options) (bool, error) {
	request, err := tool.NewCommandRequest(c.command, "change "+visible.HomeRelative(c.file, o.Home)+" "+c.says, nil, c.diff(), nil, map[string]string{"file": c.file, "sha256": fmt.Sprintf("%x", sha256.Sum256(c.text))})
	if err != nil {
		return false, err
	}
	d := decision{cmd: cmd, terminal: findTerminal(false), out: cmd.ErrOrStderr(), yes: c.yes}
	if d.program, err = f.open(opening{otherwise: emptyProgram}); err != nil {
		return false, err
	}
	if err := checkUnseen(c.command, d.program, c.yes); err != nil {
		return false, err
	}
	if d.terminal == nil || c.yes { // otherwise the question shows it
		showRequest(d.out, request)
	}
	return d.confirmed(request, "changed", visible.CommandLine(c.again...), c.write)
}

// findProjectFile finds the project file for a change. golem reads no symlink as a project file,
// so it changes none: it could lead to another file of the user.
func findProjectFile(dir, otherwise string) (root, name string, err error) {
	if root, name, err = project.Find(dir); err != nil {
		return "", "", err
	}
	if name == "" {
		return "", "", usageError("no project file here; golem init makes one; " + otherwise)
	}
	if info, err := os.Lstat(filepath.Join(root, name)); err == nil && !info.Mode().IsRegular() {
		return "", "", usagef("%s is not a regular file, so it is no project file; %s", visible.Text(name), otherwise)
	}
	return root, name, nil
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
