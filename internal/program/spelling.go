package program

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Respellings returns the keys in the files of the program that are not written in
// snake_case.
func Respellings(p *Program) []strictyaml.Respelling {
	var list []strictyaml.Respelling
	for _, name := range slices.Sorted(maps.Keys(p.Content.Files)) {
		list = append(list, respellingsIn(p, name)...)
	}
	return list
}

func respellingsIn(p *Program, name string) []strictyaml.Respelling {
	data := []byte(p.Content.Files[name])
	if p.Project != nil && name == p.Project.File {
		return project.Respellings(name, data)
	}
	if slices.ContainsFunc(p.Workers, func(w *worker.Worker) bool { return w.File == name }) {
		return worker.Respellings(name, data)
	}
	return nil
}

// Respell writes these keys in snake_case, and changes nothing else in the files. It
// returns the keys that it could not change.
func Respell(p *Program) (skipped []strictyaml.Respelling, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.Content.Files)) {
		list := respellingsIn(p, name)
		if len(list) == 0 {
			continue
		}
		old := []byte(p.Content.Files[name])
		changed, not := strictyaml.ApplyRespellings(old, list)
		skipped = append(skipped, not...)
		if bytes.Equal(changed, old) {
			continue
		}
		if err := replaceUnchanged(filepath.Join(p.root, filepath.FromSlash(name)), old, changed); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// replaceUnchanged replaces a file if it is a regular file with the old content.
func replaceUnchanged(file string, old, changed []byte) error {
	info, err := os.Lstat(file)
	if err != nil {
		return visible.FileError(file, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s: it is a symlink; run golem lint --fix where its target is, or change the target yourself", visible.Text(file))
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return visible.FileError(file, err)
	}
	if !bytes.Equal(now, old) {
		return fmt.Errorf("%s: it changed meanwhile and stays as it is; run golem lint --fix again", visible.Text(file))
	}
	if err := durable.WriteFile(file, changed, info.Mode().Perm()); err != nil {
		return visible.FileError(file, err)
	}
	return nil
}

// LintSettings returns problems that do not keep golem from reading the project file, but
// that are mistakes: a mount whose directory does not exist, and a model of no vendor.
func LintSettings(p *Program, vendors []string) strictyaml.Problems {
	var problems strictyaml.Problems
	if p.Project == nil {
		return nil
	}
	values := make(map[string]project.Value)
	for _, v := range p.Project.Values() {
		values[v.Key] = v
	}
	if mode := values["sandbox.mode"].Text; mode != "sandboxed" { // golem makes sandboxed zones
		for _, m := range p.Project.Mounts {
			lintSource(m, &problems)
		}
	}
	if v, ok := values["model"]; ok && v.Text != "" {
		vendor, name, _ := strings.Cut(v.Text, ":")
		node := strictyaml.Node{Place: v.From}
		switch {
		case name == "":
			problems.Add(node, "model: "+sandbox.Shown(v.Text)+" names no vendor", "write vendor:name, such as anthropic:claude-sonnet-4-5 or ollama:qwen3; vendors are "+strings.Join(vendors, ", "))
		case !slices.Contains(vendors, vendor):
			problems.Add(node, "model: there is no vendor "+sandbox.Shown(vendor), didYouMean(vendor, vendors)+" Vendors are "+strings.Join(vendors, ", "))
		}
	}
	return problems
}

// lintSource adds a problem if the directory of a mount in a file does not exist.
func lintSource(m project.Mount, problems *strictyaml.Problems) {
	if m.From == strictyaml.Default {
		return
	}
	dir := string(m.Source)
	if m.Base != "" {
		dir = filepath.Join(string(m.Base), dir)
	}
	if _, err := os.Stat(dir); err == nil {
		return
	}
	shown := filepath.ToSlash(string(m.Source))
	hint := "make it with mkdir -p " + sandbox.Shown(shown) + ", or name a directory that exists"
	if near := siblingsLike(dir); near != "" {
		hint = "did you mean " + sandbox.Shown(path.Join(path.Dir(shown), near)) + "? Otherwise " + hint
	}
	problems.Add(strictyaml.Node{Place: m.From}, "the directory "+sandbox.Shown(shown)+" for "+sandbox.Shown(m.Target)+" does not exist", hint)
}

// siblingsLike returns a directory beside dir with a similar name, "" if there is none.
func siblingsLike(dir string) string {
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if near := sandbox.Nearest(filepath.Base(dir), names); len(near) > 0 {
		return near[0]
	}
	return ""
}
