package continuing

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// Rights are what the commands of a session may use outside it.
type Rights struct {
	AllHosts    bool              `json:"all_hosts,omitempty"`
	Hosts       []policy.HostRule `json:"hosts,omitempty"`
	Mounts      []session.Mount   `json:"mounts,omitempty"`
	Credentials []string          `json:"credentials,omitempty"` // names of variables, files and secrets
}

// rightsName is the file of a session with the rights that it began with.
const rightsName = "rights.json"

// SetHosts sets the hosts. It keeps no rule that would allow more on its own than in the set.
func (r *Rights) SetHosts(h policy.Hosts) {
	r.AllHosts, r.Hosts = h.IsAll(), nil
	for _, rule := range h.Rules() {
		if len(beyond(policy.HostsOfRules(rule), h)) == 0 {
			r.Hosts = append(r.Hosts, rule)
		}
	}
}

// hosts returns the hosts as a set.
func (r Rights) hosts() policy.Hosts {
	if r.AllHosts {
		return policy.AllHosts()
	}
	return policy.HostsOfRules(r.Hosts...)
}

// beyond returns the hosts that another set does not allow, or allows with more limits, as
// texts. All hosts are "*".
func beyond(h, than policy.Hosts) (texts []string) {
	for _, e := range (policy.Grant{Hosts: h}).Within(policy.Grant{Hosts: than}) {
		texts = append(texts, e.Which)
	}
	return texts
}

// AddMount adds a directory that commands see. The source is a path of the host.
func (r *Rights) AddMount(source, target string, access sandbox.Access, kept bool) {
	mode := sandbox.ReadOnly.String()
	switch {
	case access < sandbox.ReadWrite:
	case kept:
		mode = project.Overlay
	default:
		mode = sandbox.ReadWrite.String()
	}
	r.Mounts = append(r.Mounts, session.Mount{Source: realPath(source), Target: target, Mode: mode})
}

// Beyond returns what rights have that others lack, one line each.
func (r Rights) Beyond(began Rights) (lines []string) {
	for _, host := range beyond(r.hosts(), began.hosts()) {
		if host == "*" {
			host = "every host"
		}
		lines = append(lines, "network: "+visible.Text(host))
	}
	for _, m := range r.Mounts {
		if !slices.ContainsFunc(began.Mounts, func(b session.Mount) bool { return covers(b, m) }) {
			lines = append(lines, "mount: "+visible.Text(m.Source)+" at "+visible.Text(m.Target)+" ("+visible.Text(m.Mode)+")")
		}
	}
	for _, name := range r.Credentials {
		if !slices.Contains(began.Credentials, name) {
			lines = append(lines, "credential: "+visible.Text(name))
		}
	}
	return lines
}

// covers reports whether a mount shows at least what another one shows, with at least the
// same access.
func covers(b, m session.Mount) bool {
	modes := []string{sandbox.ReadOnly.String(), project.Overlay, sandbox.ReadWrite.String()}
	below, err := filepath.Rel(b.Source, m.Source)
	has, needs := slices.Index(modes, b.Mode), slices.Index(modes, m.Mode)
	return err == nil && filepath.IsLocal(below) && needs >= 0 && has >= needs
}

// with returns the rights together with others.
func (r Rights) with(more Rights) Rights {
	return Rights{r.AllHosts || more.AllHosts, slices.Concat(r.Hosts, more.Hosts), slices.Concat(r.Mounts, more.Mounts), slices.Concat(r.Credentials, more.Credentials)}
}

// Began returns the rights that a session began with, and those that the user has added. known
// is false if there is no record, or it is damaged: then nothing counts as permitted.
func Began(one *session.Session) (r Rights, known bool) {
	dir, err := one.OpenState()
	if err != nil {
		return Rights{}, false
	}
	defer dir.Close()
	data, err := dir.Read(rightsName)
	if err != nil || len(data) == 0 {
		return Rights{}, false
	}
	read := json.NewDecoder(bytes.NewReader(data))
	read.DisallowUnknownFields() // a limit that this golem does not know must not be lost
	if read.Decode(&r) != nil || len(strings.TrimSpace(string(data[read.InputOffset():]))) > 0 {
		return Rights{}, false
	}
	return r, true
}

// Record adds rights to those that a session began with.
func Record(one *session.Session, r Rights) error {
	if began, known := Began(one); known {
		r = began.with(r)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	dir, err := one.OpenState()
	if err != nil {
		return err
	}
	return errors.Join(dir.Update(rightsName, func([]byte) ([]byte, error) { return data, nil }), dir.Close())
}
