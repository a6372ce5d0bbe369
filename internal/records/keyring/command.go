package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Run runs a program of the user that prints a secret, and returns the secret without the
// line end. It searches the program in the PATH of env. The program starts in /, where nobody
// else can put a configuration for it, as anybody could in a temporary directory.
func Run(ctx context.Context, command, env []string) (string, error) {
	const patience = 30 * time.Second // it may ask a keyring, which may ask the user
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	program, err := findProgram(command[0], env)
	if err != nil {
		return "", err
	}
	var out, wrong bytes.Buffer
	cmd := exec.CommandContext(ctx, program, command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = "/", env, &out, &wrong, 10*time.Second
	if err := cmd.Run(); err != nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(wrong.String()), "\n"); line != "" {
			err = fmt.Errorf("%w: %s", err, line)
		}
		return "", fmt.Errorf("%s: %w", command[0], err)
	}
	value := strings.TrimRight(out.String(), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s printed nothing", command[0])
	}
	return value, nil
}

// findProgram returns the path of a program by the PATH of an environment.
func findProgram(name string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return "", errors.New(name + " is a relative path; write the whole path, or only the name of a program")
	}
	for _, one := range env {
		list, ok := strings.CutPrefix(one, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if program, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(dir) {
				return program, nil
			}
		}
	}
	return "", errors.New("there is no program " + name + " in your PATH")
}
