// Package starter makes a new program in a directory, for golem init.
package starter

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

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

//go:embed template
var templates embed.FS

// Kind is what a new program is for.
type Kind string

// The kinds of new programs.
const (
	Documents  Kind = "documents"  // workers read documents and write results
	Repository Kind = "repository" // one worker changes a repository
	Tools      Kind = "tools"      // tools for other agents
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Documents, Repository, Tools} }

// DefaultKind returns the kind of a new program in a directory if the user names none. In a
// git repository it is Repository.
func DefaultKind(dir string) Kind {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return Repository
	}
	return Documents
}

// Options describe a new program.
type Options struct {
	Kind  Kind   // Documents if it is ""
	Model string // the model to write into the project file; "" for none
}

// A file of a new program has a template. Without one it is a directory.
type file struct{ name, template string }

// files returns the files of a new program, in the order in which they are reported.
func (o Options) files() []file {
	switch o.Kind {
	case Repository:
		return []file{{"main.worker", "repository/main.worker"}, {"demo.yaml", "repository/demo.yaml"}, {project.File, "repository/" + project.File}, {schemaFile, schemaFile}}
	case Tools:
		return []file{{"main.worker", "tools/main.worker"}, {"tools/count_words.sh", "tools/count_words.sh"}, {"tools/count_words.json", "tools/count_words.json"},
			{"in/paper.txt", "paper.txt"}, {"demo.yaml", "tools/demo.yaml"}, {project.File, "tools/" + project.File}, {schemaFile, schemaFile}}
	}
	return []file{{"main.worker", "main.worker"}, {"workers/summarise.worker", "summarise.worker"}, {"in/paper.txt", "paper.txt"}, {"out", ""},
		{"demo.yaml", "demo.yaml"}, {project.File, project.File}, {schemaFile, schemaFile}}
}

// schemaFile is the JSON Schema of the project file, for editors. A comment in the
// project file names it.
const schemaFile = "golem-forge.schema.json"

// model returns the line about the model in the project file.
func (o Options) model() string {
	if o.Model == "" {
		return "# model: anthropic:claude-sonnet-4-5"
	}
	return "model: " + strconv.Quote(o.Model)
}

// Make makes a program in a directory: workers, a project file with the git remotes of the
// directory as targets, and what they need. If a file is in the way, it returns an error and
// makes nothing. The directory may come from a stranger: Make follows no symlink out of it.
// It returns the files that it made and the remotes that it skipped.
func Make(dir string, o Options) (made, skipped []string, err error) {
	if err := Check(dir, o); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, visible.FileError(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, visible.FileError(dir, err)
	}
	defer root.Close()
	targets, skipped, err := remoteTargets(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range o.files() {
		if _, err := root.Lstat(s.name); err == nil {
			continue // keep the user's own in/paper.txt or out/
		}
		if err := makeFile(root, s, o.model(), targets); err != nil {
			return made, skipped, visible.FileError(s.name, err)
		}
		made = append(made, s.name)
	}
	return made, skipped, nil
}

// Check returns an error if no program can be made in a directory. The directory need not
// exist.
func Check(dir string, o Options) error {
	if dir == "" {
		return errors.New("no directory is named; use golem init DIR, or golem init for this one")
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return visible.FileError(dir, err)
	case !info.IsDir():
		return fmt.Errorf("%s: not a directory; name a directory, or one that golem can make: golem init DIR", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return visible.FileError(dir, err)
	}
	defer root.Close()
	if err := checkFree(root, o); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// checkFree returns an error if no program can be made in a directory.
func checkFree(root *os.Root, o Options) error {
	names := []string{project.FileShort}
	for _, f := range o.files() {
		if f.name == project.File || strings.HasSuffix(f.name, ".worker") || strings.HasPrefix(f.name, "tools/") {
			names = append(names, f.name)
		}
	}
	for _, name := range names {
		if _, err := root.Lstat(name); err == nil {
			return fmt.Errorf("there is a program already (%s); golem lint checks it", name)
		}
	}
	for _, name := range []string{"workers", "in", "out", "tools"} {
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

func makeFile(root *os.Root, file file, model, targets string) error {
	if file.template == "" {
		return root.MkdirAll(file.name, 0o777)
	}
	text, err := readTemplate(file.template)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(file.name), 0o777); err != nil {
		return err
	}
	filled := strings.Replace(string(text), "{{targets}}\n", targets, 1)
	filled = strings.Replace(filled, "# {{model}}", model, 1)
	f, err := root.OpenFile(file.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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
	common, own := gitDirs(dir)
	data, err := project.ReadFile(common, "config", strictyaml.MaxFile)
	if err != nil {
		return "", nil, nil // no repository
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
		return "\n# Where results go once you have reviewed them: this repository.\nclearance:\n  targets:\n    here: {type: local, path: ., branch: " + strconv.Quote(headOf(own)) + ", at: /}\n", nil, nil
	}
	return "\n# Where results go once you have reviewed them: the remotes of this repository.\nclearance:\n  targets:\n" + b.String(), skipped, nil
}

// gitDirs returns the directories of a repository's configuration and of its HEAD. For a
// worktree both are elsewhere.
func gitDirs(dir string) (common, own string) {
	if linked, err := git.FindLinked(dir); err == nil && len(linked) > 0 {
		return linked[0].Common, linked[0].Own
	}
	return filepath.Join(dir, ".git"), filepath.Join(dir, ".git")
}

// headOf returns the branch that a git directory names as checked out, or main if it is
// unknown.
func headOf(gitDir string) string {
	data, err := project.ReadFile(gitDir, "HEAD", strictyaml.MaxFile)
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

// DefaultWorker returns the worker file of golem run in a directory without a program. It is
// the worker of a new program of the kind Repository, so golem init writes it out.
func DefaultWorker() []byte {
	data, err := templates.ReadFile("template/repository/main.worker")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return data
}
