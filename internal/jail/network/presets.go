package network

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/preset"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// A Preset is a set of hosts with the hosts that it has on this machine.
type Preset struct {
	preset.Preset
	Hosts policy.Hosts
	Err   error // why golem does not know the hosts
}

// FindPresets asks the package clients of presets for their hosts. The clients run with
// the environment, in an empty directory below base. Others must not be able to write
// there, because clients look for settings in the directories above, too.
func FindPresets(ctx context.Context, names []string, environ []string, base string) []Preset {
	list := make([]Preset, 0, len(names))
	for _, name := range names {
		if one, ok := preset.Named(name); ok {
			list = append(list, Preset{Preset: one})
		}
	}
	dir, err := emptyDirectory(base)
	if err != nil {
		for i := range list {
			list[i].Err = fmt.Errorf("preset %s: no empty directory for its client: %w", list[i].Name, err)
		}
		return list
	}
	defer os.RemoveAll(dir)
	client := preset.Client{Environ: environ, Dir: dir}
	for i := range list {
		var rules []policy.HostRule
		rules, list[i].Err = list[i].Preset.Hosts(ctx, client)
		list[i].Hosts = policy.HostsOfRules(rules...)
	}
	return list
}

// emptyDirectory makes an empty directory in a directory, which it makes if necessary.
func emptyDirectory(base string) (string, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(base, ".empty-")
}

// AddPresets adds the hosts of presets to those of a project. A preset without a package
// client has no hosts. That is a problem only if the user has named it for this call.
func AddPresets(p *project.Project, list []Preset, named []string) (problems strictyaml.Problems) {
	for _, s := range list {
		place, less := p.AddPreset(s.Name, s.Hosts.Rules())
		isNamed := slices.Contains(named, s.Name)
		if less && isNamed {
			problems = append(problems, strictyaml.Problem{Place: strictyaml.Place{Source: "--net"}, What: "the preset " + s.Name + " is not allowed: " + place.String(), Hint: "leave out +" + s.Name})
		}
		if s.Err != nil && isNamed {
			problems = append(problems, strictyaml.Problem{Place: strictyaml.Place{Source: "--net"}, What: s.Err.Error(), Hint: "name the hosts instead, such as --net +mirror.example.org"})
		}
	}
	return problems
}

// PresetNotes says which presets add no host.
func PresetNotes(list []Preset) (notes []string) {
	for _, s := range list {
		switch {
		case s.Err != nil:
			notes = append(notes, s.Err.Error()+"; it adds no host")
		case s.Hosts.IsEmpty():
			notes = append(notes, fmt.Sprintf("preset %s: your settings name no host; it adds none", s.Name))
		}
	}
	return notes
}
