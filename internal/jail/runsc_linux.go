package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// containerFix is the advice for a machine without a usable runsc.
const containerFix = "install gVisor's runsc in /usr/local/bin, or name its file with jail.runsc in your own configuration; docs/jail.md says how"

// oldestRunsc is the oldest release of runsc that golem starts.
const oldestRunsc = "release-20240101"

// chooseRunsc requires the level container if the commands are to run there and there is a
// runsc. It reports whether the user named one that does not work.
func (p *Policy) chooseRunsc() (unusable bool, err error) {
	if p.Least != Container && (!p.Strongest || p.Second != "") { // the level container shows no second path
		return false, nil
	}
	file, err := findRunsc(string(p.Runsc))
	switch {
	case err == nil:
		p.Runsc, p.Least = file, Container
	case p.Least == Container:
		return false, noSandbox("require_os_sandbox or --jail requires the level container: "+inLine(err), containerFix)
	}
	return err != nil && p.Runsc != "", nil
}

// findRunsc returns the file of runsc, without symlinks in its path, after it has shown
// that it works. Without a name it looks in the directories where programs are installed.
// It does not follow PATH, which a project can influence.
func findRunsc(name string) (sandbox.Host, error) {
	if name == "" {
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"} {
			if unix.Access(dir+"/runsc", unix.X_OK) == nil {
				name = dir + "/runsc"
				break
			}
		}
	}
	if name == "" {
		return "", errors.New("there is no runsc in /usr/local/bin or /usr/bin")
	}
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("jail.runsc is %s, which is not an absolute path", sandbox.Shown(name))
	}
	file, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", fmt.Errorf("runsc: %w", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Env, cmd.WaitDelay = []string{"PATH=" + Path}, time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s --version failed: %w", sandbox.Shown(file), err)
	}
	return sandbox.Host(file), checkRunsc(file, out)
}

// checkRunsc checks what runsc --version printed. A runsc that was built from a module has
// no release, and the first command shows whether it works.
func checkRunsc(file string, out []byte) error {
	first, _, _ := bytes.Cut(out, []byte("\n"))
	words := strings.Fields(string(first))
	if len(words) < 2 || words[0] != "runsc" {
		return fmt.Errorf("%s is not runsc: its --version prints %s", sandbox.Shown(file), sandbox.Shown(string(first[:min(len(first), 80)])))
	}
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "release-") })
	if i >= 0 && words[i] < oldestRunsc {
		return fmt.Errorf("%s is %s, and golem needs %s or later", sandbox.Shown(file), sandbox.Shown(words[i]), oldestRunsc)
	}
	return nil
}

// noSandbox returns the error for a machine that lacks the level that commands need.
func noSandbox(why, out string) error {
	return &sandbox.Error{Op: "jail", Code: ErrNoSandbox, Hint: "golem ran no command: " + why + "; " + out}
}
