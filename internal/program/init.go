package program

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
)

//go:embed template
var templates embed.FS

// starter is what a new program is made of, in the order in which it is told.
var starter = []struct{ file, template string }{
	{"main.worker", "main.worker"},
	{"workers/summarise.worker", "summarise.worker"},
	{"in/paper.txt", "paper.txt"},
	{"out", ""},
	{"demo.yaml", "demo.yaml"},
	{project.File, project.File},
}

// Init makes a program in a folder: two workers, something to read, a place to
// write, and a project file with the folder's own git remotes as targets. What
// stands in the way is an error, and then nothing is made. The folder may come
// from anybody: no link in it is followed out of it. It returns what it made,
// and which remotes it left out.
func Init(dir string) (made, leftOut []string, err error) {
	if dir == "" {
		return nil, nil, errors.New("no folder is named; golem init DIR, or golem init for this one")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, nil, fmt.Errorf("%s: it is no folder; name one, or one to be made: golem init DIR", dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, plainError(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, plainError(dir, err)
	}
	defer root.Close()
	if err := checkFree(root); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	targets, leftOut, err := remoteTargets(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range starter {
		if _, err := root.Lstat(s.file); err == nil {
			continue // an in/paper.txt or out/ of the user's own stays
		}
		if err := makeStarter(root, s.file, s.template, targets); err != nil {
			return made, leftOut, plainError(s.file, err)
		}
		made = append(made, s.file)
	}
	return made, leftOut, nil
}

// checkFree reports whether a program can be made in a folder.
func checkFree(root *os.Root) error {
	for _, name := range []string{"main.worker", "workers/summarise.worker", project.File, project.FileShort} {
		if _, err := root.Lstat(name); err == nil {
			return fmt.Errorf("there is a program already (%s); golem lint checks it", name)
		}
	}
	for _, name := range []string{"workers", "in", "out"} {
		if info, err := root.Lstat(name); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder, and one is needed there; move it, or name another folder: golem init DIR", name)
		}
	}
	return nil
}

func makeStarter(root *os.Root, name, template, targets string) error {
	if template == "" {
		return root.MkdirAll(name, 0o777)
	}
	text, err := templates.ReadFile(path.Join("template", template))
	if err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	filled := strings.Replace(string(text), "{{targets}}\n", targets, 1)
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(filled)
	return errors.Join(err, f.Close())
}

// remoteTargets writes the git remotes of a folder as clearance targets. The
// repository's own file is read, and no program is run. A remote that cannot be
// a target is left out: one with a secret in its address, say.
func remoteTargets(dir string) (text string, leftOut []string, err error) {
	data, err := readFile(filepath.Join(dir, ".git"), "config", strictyaml.MaxFile)
	if err != nil {
		return "", nil, nil // no repository, or one whose remotes are elsewhere
	}
	var b strings.Builder
	remote := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			name, ok := strings.CutPrefix(line, `[remote "`)
			remote = ""
			if ok {
				remote, _, _ = strings.Cut(name, `"`)
			}
			continue
		}
		key, url, ok := strings.Cut(line, "=")
		if !ok || remote == "" || strings.TrimSpace(key) != "url" {
			continue
		}
		url = strings.TrimSpace(url)
		if filepath.IsAbs(url) {
			url = "file://" + filepath.ToSlash(url) // as git takes it
		}
		if why := git.BadURL(url); why != "" || !plainName(remote) {
			leftOut = append(leftOut, quoteAll(remote))
		} else {
			fmt.Fprintf(&b, "    %s: {type: remote, url: %s, branch: main, at: /}\n", remote, strconv.Quote(url))
		}
		remote = ""
	}
	if b.Len() == 0 && len(leftOut) > 0 {
		return "", leftOut, nil
	}
	if b.Len() == 0 {
		return "\n# Where results go once you have reviewed them: this repository.\nclearance:\n  targets:\n    here: {type: local, path: ., branch: " + strconv.Quote(headOf(dir)) + ", at: /}\n", nil, nil
	}
	return "\n# Where results go once you have reviewed them: the remotes of this repository.\nclearance:\n  targets:\n" + b.String(), leftOut, nil
}

// headOf returns the branch that is checked out in a repository, main if that is not
// known.
func headOf(dir string) string {
	data, err := readFile(filepath.Join(dir, ".git"), "HEAD", strictyaml.MaxFile)
	branch, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: refs/heads/")
	if err != nil || !ok || git.BadBranch(branch) != "" {
		return "main"
	}
	return branch
}

// plainName reports whether a remote's name can be a target's.
func plainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// plainError names a file as the user did, and what the system says of it.
func plainError(name string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
