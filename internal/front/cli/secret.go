package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/records/secret"
)

// userSecrets returns the secrets of the user.
func userSecrets() (keyring.Keyring, error) {
	home, _ := os.UserHomeDir()
	file := configFile(home)
	if file == "" {
		return keyring.Keyring{}, usageError("no directory for secrets: HOME is not set")
	}
	return keyring.Open(filepath.Join(filepath.Dir(file), "secrets"), os.Getenv, time.Now), nil
}

// findSecret returns a secret of the user by its name.
func findSecret(name string) (string, error) {
	if strings.HasPrefix(name, keyring.LoginPrefix) { // only its own server gets a login
		return "", keyring.ErrNotFound
	}
	s, err := userSecrets()
	if err != nil {
		return "", err
	}
	return s.Get(name)
}

// findStoredSecret is findSecret without the secrets of other programs: the system may ask
// the user about those.
func findStoredSecret(name string) (string, error) {
	s, err := userSecrets()
	if err != nil {
		return "", err
	}
	return s.GetStored(name)
}

func newSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Store keys and tokens that golem adds to requests",
		Long: `Store keys and tokens by name in the system's keyring. Without a keyring, golem uses files
that only you can read. A credential with from: keyring uses the secret of its name, and
models use the secret of their vendor, such as anthropic. Commands never get the value:
golem adds it to their requests, outside the jail.`,
		Example: "  golem secret set github\n  golem secret ls\n  golem secret rm github",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && slices.Contains(strings.Fields(subSynonyms["show"]+" show print read"), args[0]) {
				return usageError("golem never prints a secret; golem secret ls lists the names, golem secret set NAME replaces one")
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretSet(), newSecretList(), newSecretRemove())
	return cmd
}

func newSecretSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret, or replace it",
		Long: `Store a secret, or replace the one with this name. At a terminal golem asks for the value
and does not show it. Without a terminal it reads the value from stdin, without the
final newline.`,
		Example: "  golem secret set github\n  golem secret set anthropic --json",
		Args:    secretName,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := userSecrets()
			if err != nil {
				return err
			}
			value, err := readSecret(cmd, args[0])
			if err != nil {
				return err
			}
			in, why, err := s.Set(args[0], value)
			if err != nil {
				return err
			}
			return printOr(cmd, map[string]any{"name": args[0], "in": in}, func(w io.Writer) {
				fmt.Fprintf(w, "stored %s in %s\n", args[0], placeOfSecret(s, in))
				if why != "" {
					note(cmd, "the system's keyring is not available ("+visible.Line(why, 200)+"); only you can read the file, but it is not encrypted")
				}
			})
		},
	}
}

// placeOfSecret describes where a secret is.
func placeOfSecret(s keyring.Keyring, in keyring.Place) string {
	if in == keyring.InKeyring {
		return "the system's keyring"
	}
	home, _ := os.UserHomeDir()
	return "a file in " + visible.Text(visible.HomeRelative(s.Dir, home))
}

// Limits of a value.
const (
	minSecret = 8
	maxSecret = 16 << 10
)

// readSecret reads the value of a secret: at a terminal without echo, elsewhere from stdin.
func readSecret(cmd *cobra.Command, name string) (string, error) {
	var data []byte
	var err error
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Value of %s (golem does not show it): ", name)
		data, err = readHidden(cmd.Context(), fd)
		fmt.Fprintln(cmd.ErrOrStderr())
		if caught := (signaled{}); errors.As(err, &caught) {
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: stored nothing for %s\n", name)
			return "", caught.atQuestion()
		}
	} else {
		data, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxSecret+2))
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case err != nil:
		return "", fmt.Errorf("the value of %s: %w", name, err)
	case value == "":
		return "", usagef("no value; type it, or pipe it: gh auth token | golem secret set %s", name)
	case len(value) > maxSecret:
		return "", usagef("the value has more than %d bytes; a key or token is one line of text", maxSecret)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return "", usageError("the value has a line end or another character that no key has; a key or token is one line of plain ASCII")
	case len(value) < minSecret:
		return "", usagef("the value is shorter than %d characters, so golem could not tell it from other text; check it", minSecret)
	}
	return value, nil
}

// readHidden reads a line at a terminal that does not show it. The error is a signaled if a
// signal ends the wait; then the terminal has its usual modes again.
func readHidden(ctx context.Context, fd int) ([]byte, error) {
	usual, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	type result struct {
		data []byte
		err  error
	}
	line := make(chan result, 1)
	go func() {
		data, err := term.ReadPassword(fd)
		line <- result{data, err}
	}()
	select {
	case r := <-line:
		return r.data, r.err
	case <-ctx.Done(): // golem ends, and the read with it
		term.Restore(fd, usual)
		return nil, context.Cause(ctx)
	}
}

func newSecretList() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the names of secrets, and where they are",
		Long:    "List the secrets that golem stored: name, place and date. golem never prints a value.",
		Example: "  golem secret ls\n  golem secret ls --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := userSecrets()
			if err != nil {
				return err
			}
			list, err := s.List()
			if err != nil {
				return err
			}
			var rows [][]string
			for _, e := range list {
				place, date := "-", "-"
				if e.In != "" {
					place, date = placeOfSecret(s, e.In), e.Set.Local().Format("2006-01-02")
				}
				rows = append(rows, []string{e.Name, place, date})
			}
			err = printTableOr(cmd, map[string]any{"secrets": append([]keyring.Entry{}, list...)}, "no secrets; golem secret set NAME stores one", nil, rows)
			for _, e := range list {
				if e.Problem != "" && !wantsJSON(cmd) {
					note(cmd, "warning: the secret "+e.Name+" cannot be used: "+visible.Line(e.Problem, 300))
				}
			}
			return err
		},
	}
}

func newSecretRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a secret",
		Long:    "Remove a secret from the keyring, or its file. It stays valid at the service that issued it.",
		Example: "  golem secret rm github\n  golem secret rm github --json",
		Args:    secretName,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := userSecrets()
			if err != nil {
				return err
			}
			if err := s.Remove(args[0]); errors.Is(err, keyring.ErrNotFound) {
				return usagef("no secret %s; golem secret ls lists them", args[0])
			} else if err != nil {
				return err
			}
			return printLineOr(cmd, map[string]any{"removed": args[0]}, "removed %s", args[0])
		},
	}
}

// secretName checks that the only argument is the name of a secret. It never prints a wrong
// argument, which may be the value.
func secretName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("secret %s needs a name, such as golem secret %s github", cmd.Name(), cmd.Name())
	case len(args) > 1:
		return usagef("secret %s takes one name; the value is not an argument, because other users can see those", cmd.Name())
	case keyring.CheckName(args[0]) != "":
		return usageError("not a name: " + keyring.CheckName(args[0]))
	}
	return nil
}

// secrets returns the values of environment variables whose names look like credentials.
func secrets(environ []string) []string {
	var values []string
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); secret.IsVariable(name) {
			values = append(values, value)
		}
	}
	return values
}
