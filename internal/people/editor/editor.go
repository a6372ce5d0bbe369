// Package editor opens a text in the user's editor, as git does. The user chooses the
// program by an environment variable, and it runs as the user, outside any jail.
package editor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Command returns the editor that the environment chooses: GOLEM_EDITOR, VISUAL, EDITOR,
// or else vi.
func Command(environ []string) string {
	for _, name := range []string{"GOLEM_EDITOR", "VISUAL", "EDITOR"} {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok && strings.TrimSpace(value) != "" {
				return value
			}
		}
	}
	return "vi"
}

// maxText is the size of the largest text that Edit reads back.
const maxText = 16 << 20

// Edit opens a text at a terminal, in a file of the given name, and returns the text that
// the user saved. A shell reads the command, as with git, so it may have arguments. Edit
// returns an error if the editor fails.
func Edit(command string, environ []string, terminal *os.File, name, text string) (string, error) {
	dir, err := os.MkdirTemp("", "golem-edit-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-c", command+` "$@"`, command, file)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, terminal, terminal, terminal
	if err := cmd.Run(); err != nil {
		if ended, is := errors.AsType[*exec.ExitError](err); is {
			return "", fmt.Errorf("the editor %s failed (%s)", sandbox.Shown(command), ended)
		}
		return "", fmt.Errorf("the editor %s cannot be started", sandbox.Shown(command))
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", errors.New("the editor removed the file")
	}
	if info.Size() > maxText {
		return "", errors.New("the edited text is too large")
	}
	data, err := os.ReadFile(file)
	return string(data), err
}
