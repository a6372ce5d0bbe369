package lint

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// CheckSettings returns problems that do not keep golem from reading the project file, but
// that are mistakes: a mount whose directory does not exist, and a model of no vendor.
func CheckSettings(p *project.Project, vendors []string) strictyaml.Problems {
	var problems strictyaml.Problems
	if p == nil {
		return nil
	}
	values := make(map[string]project.Value)
	for _, v := range p.Values() {
		values[v.Key] = v
	}
	if mode := values["sandbox.mode"].Text; mode != "sandboxed" { // golem makes sandboxed zones
		for _, m := range p.Mounts {
			checkSource(m, &problems)
		}
	}
	if v, ok := values["model"]; ok && v.Text != "" {
		vendor, name, _ := strings.Cut(v.Text, ":")
		node := strictyaml.Node{Place: v.From}
		switch {
		case name == "":
			problems.Add(node, "model: "+sandbox.Shown(v.Text)+" names no vendor", "write vendor:name, such as anthropic:claude-sonnet-4-5 or ollama:qwen3; vendors are "+strings.Join(vendors, ", "))
		case !slices.Contains(vendors, vendor):
			problems.Add(node, "model: there is no vendor "+sandbox.Shown(vendor), strictyaml.DidYouMean(vendor, vendors)+" Vendors are "+strings.Join(vendors, ", "))
		}
	}
	for _, name := range p.Fallbacks {
		if vendor, _, _ := strings.Cut(name, ":"); !slices.Contains(vendors, vendor) {
			problems.Add(strictyaml.Node{Place: values["fallback_models"].From}, "fallback_models: there is no vendor "+sandbox.Shown(vendor), strictyaml.DidYouMean(vendor, vendors)+" Vendors are "+strings.Join(vendors, ", "))
		}
	}
	return problems
}

// checkSource adds a problem if the directory of a mount in a file does not exist. The first
// write makes a writable one, so that is a problem only if its name looks like a mistake.
func checkSource(m project.Mount, problems *strictyaml.Problems) {
	if m.From == strictyaml.Default {
		return
	}
	dir := m.HostDir()
	if _, err := os.Stat(dir); err == nil {
		return
	}
	shown := filepath.ToSlash(string(m.Source))
	hint := "make it with mkdir -p " + sandbox.Shown(shown) + ", or name a directory that exists"
	near := siblingsLike(dir)
	if near == "" && m.Access() >= sandbox.ReadWrite {
		return
	}
	if near != "" {
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
