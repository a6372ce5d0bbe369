package forge

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/project"
)

//go:embed template
var templates embed.FS

// starter is what a new program is made of, in the order in which it is told.
var starter = []struct{ file, template string }{
	{"main.worker", "main.worker"},
	{"workers/summarise.worker", "summarise.worker"},
	{"in/paper.txt", "paper.txt"},
	{"out", ""},
	{project.File, project.File},
}

// Init makes a program in a folder: two workers, something to read, a place to
// write, and a project file with the folder's own git remotes as targets. What
// stands in the way is an error, and then nothing is made. It returns what it
// made.
func Init(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, plainError(dir, err)
	}
	for _, name := range []string{"main.worker", "workers/summarise.worker", project.File, project.FileShort} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("%s: there is a program already (%s); golem lint checks it", dir, name)
		}
	}
	targets, err := remoteTargets(dir)
	if err != nil {
		return nil, err
	}
	var made []string
	for _, s := range starter {
		name := filepath.Join(dir, filepath.FromSlash(s.file))
		if _, err := os.Lstat(name); err == nil {
			continue // an in/paper.txt or out/ of the user's own stays
		}
		if err := makeStarter(name, s.template, targets); err != nil {
			return made, plainError(s.file, err)
		}
		made = append(made, s.file)
	}
	return made, nil
}

func makeStarter(name, template, targets string) error {
	if template == "" {
		return os.MkdirAll(name, 0o777)
	}
	text, err := templates.ReadFile(path.Join("template", template))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	filled := strings.Replace(string(text), "{{targets}}\n", targets, 1)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(filled)
	return errors.Join(err, f.Close())
}

// remoteTargets writes the git remotes of a folder as clearance targets. The
// repository's own file is read, and no program is run.
func remoteTargets(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, ".git", "config"))
	if errors.Is(err, fs.ErrNotExist) || err != nil && isNotDir(dir) {
		return "", nil
	}
	if err != nil {
		return "", plainError(".git/config", err)
	}
	var b strings.Builder
	remote := ""
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			name, ok := strings.CutPrefix(line, `[remote "`)
			remote = ""
			if ok {
				remote, _, _ = strings.Cut(name, `"`)
			}
			continue
		}
		key, url, ok := strings.Cut(line, "=")
		if ok && remote != "" && strings.TrimSpace(key) == "url" && plainName(remote) {
			fmt.Fprintf(&b, "    %s: {type: remote, url: %s, branch: main, at: /out}\n", remote, strconv.Quote(strings.TrimSpace(url)))
			remote = ""
		}
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "\n# Where results go once you have reviewed them: the remotes of this repository.\nclearance:\n  targets:\n" + b.String(), nil
}

// plainName reports whether a remote's name can be a target's.
func plainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isNotDir reports whether .git is a file, as in a worktree: its remotes are
// elsewhere, and named by hand if they are wanted.
func isNotDir(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil && !info.IsDir()
}

// plainError names a file as the user did, and what the system says of it.
func plainError(name string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
