package program

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/continuing"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// rights returns what the commands of the gate may use outside the session. A run counts with
// everything that the project allows, because it may call other workers.
func (d *OpenWorker) rights(g tool.Gate, x *session.Exec) (r continuing.Rights) {
	hosts, files := d.program.Project.Network, d.allFiles
	if x != nil {
		hosts, files = g.Hosts(), g.Files
	}
	r.SetHosts(hosts)
	for _, rule := range hosts.Rules() {
		if rule.Credential != "" {
			r.Credentials = append(r.Credentials, "secret "+rule.Credential)
		}
	}
	for _, name := range files.Anchors() {
		m, ok := files.MountOf(name)
		if !ok {
			continue
		}
		source, kept := string(m.Source), false
		if m.Backend != nil {
			source, kept = string(m.Backend.Traits().Host), m.Backend.Traits().Through != ""
		}
		r.AddMount(source, m.Target, m.Access, kept)
	}
	if x != nil {
		for _, m := range x.Profile.Mounts {
			r.AddMount(string(m.Source), m.Target, sandbox.ReadOnly, false)
		}
		for _, file := range x.Profile.Logins {
			if !slices.Contains(x.Profile.Hidden, file) {
				r.Credentials = append(r.Credentials, "~/"+file)
			}
		}
		for _, e := range x.Env {
			if name, _, _ := strings.Cut(e, "="); slices.Contains(x.Profile.Keys, name) || secret.IsVariable(name) || slices.Contains(x.Passed, name) {
				r.Credentials = append(r.Credentials, name)
			}
		}
	}
	slices.Sort(r.Credentials)
	r.Credentials = slices.Compact(r.Credentials)
	return r
}
