// Package pager shows a long text in the user's pager, as git and gh do. The user chooses
// the program by an environment variable, and it runs as the user, outside any jail.
package pager

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Command returns the pager that the environment chooses: GOLEM_PAGER, PAGER, or else less.
// It is "" if the user wants none, which an empty value or cat says. It is also "" at a
// terminal that a pager cannot control.
func Command(environ []string) string {
	if slices.Contains(environ, "TERM=dumb") {
		return ""
	}
	for _, name := range []string{"GOLEM_PAGER", "PAGER"} {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				if value = strings.TrimSpace(value); value == "cat" {
					return ""
				}
				return value
			}
		}
	}
	return "less"
}

// A Pager is a pager that runs.
type Pager struct {
	cmd         *exec.Cmd
	read, write *os.File
	size        int64 // of the text
}

// find returns the program of a name in the PATH of an environment, "" for none. golem's own PATH
// may have directories that workers write to, such as node_modules/.bin.
func find(name string, environ []string) string {
	if filepath.Base(name) != name {
		return name
	}
	for _, entry := range environ {
		variable, list, _ := strings.Cut(entry, "=")
		if !strings.EqualFold(variable, "PATH") {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if file, err := exec.LookPath(filepath.Join(dir, name)); filepath.IsAbs(dir) && err == nil {
				return file
			}
		}
	}
	return ""
}

// Start starts a pager for a text, on the terminal that out is, from the PATH of environ. The caller calls Feed and
// Wait concurrently. The error is ErrNone if the pager could not be started.
func Start(command string, environ []string, out *os.File, text string) (*Pager, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil, ErrNone
	}
	p := &Pager{cmd: exec.Command(find(words[0], environ), words[1:]...), size: int64(len(text))}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = withDefaults(environ)
	var err error
	if p.read, p.write, err = os.Pipe(); err != nil {
		return nil, ErrNone
	}
	p.cmd.Stdin = p.read
	if p.cmd.Start() != nil {
		p.read.Close()
		p.write.Close()
		return nil, ErrNone
	}
	return p, nil
}

// withDefaults adds settings for less, unless the user has their own. LESS is as git sets
// it: colours, no clearing, no paging of a short text. golem writes UTF-8, also if the
// locale names no character set; less would print it as <E2><94><86>.
func withDefaults(environ []string) []string {
	environ = slices.Clone(environ)
	for _, e := range []string{"LESS=FRX", "LESSCHARSET=utf-8"} {
		name, _, _ := strings.Cut(e, "=")
		if !slices.ContainsFunc(environ, func(has string) bool { return strings.HasPrefix(has, name+"=") }) {
			environ = append(environ, e)
		}
	}
	return environ
}

// Feed writes the text to the pager. It returns when all of it was read, by the pager or by
// Wait.
func (p *Pager) Feed(text string) {
	io.WriteString(p.write, text) // Wait reads the rest, so this does not fail
	p.write.Close()
}

// Wait waits until the user leaves the pager. It is no error to leave it before the end of
// the text. The error is ErrNone if the pager read nothing or ended with an error. Then the
// user may not have seen the text.
func (p *Pager) Wait() error {
	defer p.read.Close()
	err := p.cmd.Wait()
	unread, _ := io.Copy(io.Discard, p.read) // what the pager left in the pipe
	var ended *exec.ExitError
	switch {
	case unread == p.size:
		return ErrNone
	case errors.As(err, &ended) && !ended.Exited(): // a signal ended it, as after Ctrl-C
		return nil
	case err != nil:
		return ErrNone
	}
	return nil
}

// ErrNone is the error of a pager that did not show the text.
var ErrNone = errors.New("no pager showed the text")
