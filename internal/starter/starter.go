// Package starter makes a new program in a directory, for golem init.
package starter

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/visible"
)

//go:embed template
var templates embed.FS

// files are the files of a new program and their templates, in the order in which they are
// reported. out is a directory.
var files = []struct{ file, template string }{
	{"main.worker", "main.worker"},
	{"workers/summarise.worker", "summarise.worker"},
	{"in/paper.txt", "paper.txt"},
	{"out", ""},
	{"demo.yaml", "demo.yaml"},
	{project.File, project.File},
	{schemaFile, schemaFile},
}

// schemaFile is the JSON Schema of the project file, for editors. A comment in the
// project file names it.
const schemaFile = "golem-forge.schema.json"

// Make makes a program in a directory: two workers, a text to read, a directory to write to,
// and a project file with the git remotes of the directory as targets. If a file is in the
// way, it returns an error and makes nothing. The directory may come from a stranger: Make
// follows no symlink out of it. It returns the files that it made and the remotes that it
// skipped.
func Make(dir string) (made, skipped []string, err error) {
	if dir == "" {
		return nil, nil, errors.New("no directory is named; use golem init DIR, or golem init for this one")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, nil, fmt.Errorf("%s: not a directory; name a directory, or one that golem can make: golem init DIR", dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, visible.FileError(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, visible.FileError(dir, err)
	}
	defer root.Close()
	if err := checkFree(root); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	targets, skipped, err := remoteTargets(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range files {
		if _, err := root.Lstat(s.file); err == nil {
			continue // keep the user's own in/paper.txt or out/
		}
		if err := makeFile(root, s.file, s.template, targets); err != nil {
			return made, skipped, visible.FileError(s.file, err)
		}
		made = append(made, s.file)
	}
	return made, skipped, nil
}

// checkFree returns an error if no program can be made in a directory.
func checkFree(root *os.Root) error {
	for _, name := range []string{"main.worker", "workers/summarise.worker", project.File, project.FileShort} {
		if _, err := root.Lstat(name); err == nil {
			return fmt.Errorf("there is a program already (%s); golem lint checks it", name)
		}
	}
	for _, name := range []string{"workers", "in", "out"} {
		if info, err := root.Lstat(name); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a directory, and golem needs one there; move it, or name another directory: golem init DIR", name)
		}
	}
	return nil
}

// readTemplate returns the text of a template. The schema has none: it is made from the
// keys of the project file.
func readTemplate(name string) ([]byte, error) {
	if name == schemaFile {
		return project.Schema().JSONSchema("The project file of a golem program")
	}
	return templates.ReadFile(path.Join("template", name))
}

func makeFile(root *os.Root, name, template, targets string) error {
	if template == "" {
		return root.MkdirAll(name, 0o777)
	}
	text, err := readTemplate(template)
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

// remoteTargets returns the git remotes of a directory as clearance targets in YAML. It reads
// the repository's configuration file and does not run git. It skips a remote that cannot be
// a target, for example one with a secret in its URL.
func remoteTargets(dir string) (text string, skipped []string, err error) {
	data, err := project.ReadFile(filepath.Join(dir, ".git"), "config", strictyaml.MaxFile)
	if err != nil {
		return "", nil, nil // no repository, or its configuration is elsewhere
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
			url = "file://" + filepath.ToSlash(url) // as git reads it
		}
		if why := git.BadURL(url); why != "" || !isPlainName(remote) {
			skipped = append(skipped, visible.Quote(remote))
		} else {
			fmt.Fprintf(&b, "    %s: {type: remote, url: %s, branch: main, at: /}\n", remote, strconv.Quote(url))
		}
		remote = ""
	}
	if b.Len() == 0 && len(skipped) > 0 {
		return "", skipped, nil
	}
	if b.Len() == 0 {
		return "\n# Where results go once you have reviewed them: this repository.\nclearance:\n  targets:\n    here: {type: local, path: ., branch: " + strconv.Quote(headOf(dir)) + ", at: /}\n", nil, nil
	}
	return "\n# Where results go once you have reviewed them: the remotes of this repository.\nclearance:\n  targets:\n" + b.String(), skipped, nil
}

// headOf returns the branch that is checked out in a repository, or main if it is unknown.
func headOf(dir string) string {
	data, err := project.ReadFile(filepath.Join(dir, ".git"), "HEAD", strictyaml.MaxFile)
	branch, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: refs/heads/")
	if err != nil || !ok || git.BadBranch(branch) != "" {
		return "main"
	}
	return branch
}

// isPlainName reports whether the name of a remote can be the name of a target.
func isPlainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}
