package project

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Credential is a secret that golem adds to requests of commands. Its value comes from
// one of Variable, Secret, Command and Value.
type Credential struct {
	Name     string
	Variable string        // the environment variable that holds it
	Secret   string        // its name among the user's secrets
	Command  []string      // a program of the user that prints it
	TTL      time.Duration // how long the output of Command is valid, 0 for as long as golem runs
	File     string        // the file of the user's home that has it
	Value    string        // the value itself, for a login of the user that golem has read
	// Placeholder stands for Value in commands, "" for a new one.
	Placeholder string
	// Plain lets it leave without TLS, because the user chose a server without.
	Plain  bool
	Header string // the header that carries it, with ${value} or ${basic:USER}
	As     string // the variable in which commands find a placeholder, "" for none
	Own    bool   // the user's configuration defines it, not the project
	// Agent says that it is a login of the agent. Only the agent's profile says which hosts
	// get it.
	Agent bool
	From  strictyaml.Place
}

// Source describes where the value comes from, for people.
func (c Credential) Source() string {
	switch {
	case c.Variable != "":
		return "$" + c.Variable
	case c.Secret != "":
		return "your secret " + c.Secret
	case len(c.Command) > 0:
		return "the output of " + strings.Join(c.Command, " ")
	}
	return "your login in ~/" + c.File
}

// credentialsKey describes the secrets that golem adds to requests. Own says that it is
// for the user's configuration.
func credentialsKey(own bool) strictyaml.Key {
	key := strictyaml.Key{Name: "credentials", Type: strictyaml.Named, Example: `{github: {from: env:GITHUB_TOKEN, header: "Authorization: Bearer ${value}"}}`,
		Doc: "Secrets by name that golem adds to requests, for hosts with the key `credential`. Commands never get the value.", Keys: []strictyaml.Key{
			{Name: "from", Type: strictyaml.Text, Example: "env:GITHUB_TOKEN",
				Doc: "The source of the value: `env:NAME` is an environment variable of yours, and `keyring` the secret of the same name, which `golem secret set` stores. Required."},
			{Name: "header", Type: strictyaml.Text, Example: `"Authorization: Bearer ${value}"`,
				Doc: "The header that golem sets, with `${value}` for the value, or `${basic:USER}` for a user and the value as HTTP's Basic authentication encodes them. Required."},
			{Name: "env", Type: strictyaml.Text, Example: "GITHUB_TOKEN",
				Doc: "The environment variable in which commands find a placeholder, for programs that need one. By default that of `from`."},
		}}
	if own {
		key.Keys[0].Doc = strings.Replace(key.Keys[0].Doc, "Required.", "Required, unless there is `command`.", 1)
		key.Keys = append(key.Keys, strictyaml.Key{Name: "command", Type: strictyaml.Texts, Example: "[gh, auth, token]",
			Doc: "A program that prints the value. It runs outside the jail, as you. Only your own configuration has this key."},
			strictyaml.Key{Name: "ttl", Type: strictyaml.Span, Example: "10m",
				Doc: "How long the output of `command` is valid. Before the first request after that time golem runs the program again. Without it golem runs the program once."})
		return key
	}
	key.Instead = map[string]string{"command": "only your own configuration has it: golem config edit --user", "ttl": "only your own configuration has it, with command: golem config edit --user"}
	return key
}

// readCredentials reads the value of the key credentials.
func readCredentials(all strictyaml.Node, own bool, problems *strictyaml.Problems) []Credential {
	var list []Credential
	for _, f := range all.Fields {
		if c, ok := readCredential(f, own, problems); ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b Credential) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func readCredential(f strictyaml.Field, own bool, problems *strictyaml.Problems) (Credential, bool) {
	c := Credential{Name: f.Key.Text, Own: own, From: f.Key.Place}
	label := "credentials." + sandbox.Shown(c.Name)
	before := len(*problems)
	if c.Name == "" || len(c.Name) > 64 || strings.Trim(c.Name, letters+digits+"._-") != "" || strings.ContainsAny(c.Name[:1], ".-") {
		problems.Add(f.Key, label+": not a name", "a name has letters, digits, ., _ and -, such as github")
	}
	from, hasFrom := f.Value.At("from")
	command, hasCommand := f.Value.At("command")
	variable, isVariable := strings.CutPrefix(from.Text, "env:")
	switch {
	case hasFrom && hasCommand:
		problems.Add(command, label+": from beside command", "keep one of the two")
	case hasCommand && len(command.Texts()) == 0:
		problems.Add(command, label+".command: no program", "write a program with its arguments, such as [gh, auth, token]")
	case hasCommand:
		c.Command = command.Texts()
	case !hasFrom:
		problems.Add(f.Key, label+" has no source", "write from: env:NAME or from: keyring")
	case isVariable && isVariableName(variable):
		c.Variable, c.As = variable, variable
	case from.Text == "keyring":
		c.Secret = c.Name
	default: // the text may be the secret itself
		problems.Add(from, label+".from: no source", "write env:NAME for an environment variable, or keyring for a secret that golem secret set stores; the value itself is not written down")
	}
	if n, ok := f.Value.At("ttl"); ok {
		span, err := n.Duration()
		if c.TTL = span; !hasCommand {
			problems.Add(n, label+": ttl without command", "only the output of a program can be made anew; remove it")
		} else if err == nil && span < time.Second {
			problems.Add(n, label+".ttl: "+sandbox.Shown(n.Text), "write a second or more, such as 10m")
		}
	}
	if n, ok := f.Value.At("env"); ok {
		if c.As = n.Text; !isVariableName(n.Text) {
			problems.Add(n, label+".env: not a name of a variable", "write a name such as GITHUB_TOKEN")
		}
	}
	header, ok := f.Value.At("header")
	if c.Header = header.Text; !ok {
		problems.Add(f.Key, label+" has no header", `write one such as header: "Authorization: Bearer ${value}"`)
	} else if why := secret.CheckHeader(header.Text); why != "" {
		problems.Add(header, label+".header: "+why, `write one such as "Authorization: Bearer ${value}"`)
	}
	return c, len(*problems) == before
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

func isVariableName(name string) bool {
	return name != "" && strings.Trim(name, letters+digits+"_") == "" && !strings.ContainsAny(name[:1], digits)
}

// vendor returns the vendor that a credential is for, if its source says so.
func (c Credential) vendor() (secret.Vendor, bool) {
	name := c.Secret
	if len(c.Command) > 0 && filepath.Base(c.Command[0]) == "gh" {
		name = "github"
	}
	return secret.VendorOf(c.Variable, name)
}

// isVendorHost reports whether the hosts of a rule are all the vendor's.
func isVendorHost(v secret.Vendor, r policy.HostRule) bool {
	var own []policy.HostRule
	for _, host := range v.Hosts {
		own = append(own, policy.HostRule{Host: host, Ports: r.Ports})
	}
	asked := policy.Grant{Hosts: policy.HostsOfRules(policy.HostRule{Host: r.Host, Ports: r.Ports})}
	return len(asked.Within(policy.Grant{Hosts: policy.HostsOfRules(own...)})) == 0
}
