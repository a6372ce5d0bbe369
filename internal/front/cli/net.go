package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/jail/preset"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// netUsage describes --net.
const netUsage = "the network of commands: off, on (every host), or HOST[:PORT],… (only these hosts); +HOST adds a host to those that the program or the agent already has; +go, +npm, +pypi and +debian add the hosts of a package client"

// setNetwork applies the value of --net: off, on, a list of hosts, or a list of hosts that
// are added to those of the program.
func (f *programFlags) setNetwork(text string) error {
	switch text {
	case "":
		return nil
	case "on", "off":
		f.network = map[string]string{"on": "true", "off": "false"}[text]
		return nil
	}
	list, adds := strings.CutPrefix(text, "+")
	var rules []policy.HostRule
	var hosts []string
	for item := range strings.SplitSeq(list, ",") {
		if adds {
			item = strings.TrimPrefix(item, "+")
		}
		if slices.Contains([]string{"on", "off", "true", "false", "all", "none", "*", ""}, item) {
			return usagef("--net %s: it is off, on, or hosts such as api.example.com,*.example.org:8443; +HOST adds a host to those of the program", sandbox.Shown(text))
		}
		if _, ok := preset.Named(item); ok && adds {
			f.presets = append(f.presets, item)
			continue
		} else if ok {
			return usagef("--net %s: %s is a set of hosts; write +%s to add it to the hosts of the program", sandbox.Shown(text), item, item)
		}
		r, err := policy.ParseHost(item)
		if err != nil {
			return usagef("--net %v", err)
		}
		if !strings.ContainsAny(item, ".:") { // more likely a wrong word
			return usagef("--net %s: it is off, on, or hosts such as api.example.com; a host without a dot needs a port, such as %s:80, and the sets of hosts are %s", sandbox.Shown(text), sandbox.Shown(item), strings.Join(policy.PresetNames(), ", "))
		}
		rules, hosts = append(rules, r), append(hosts, item)
	}
	if adds {
		f.hosts = append(f.hosts, rules...)
		return nil
	}
	value, err := json.Marshal(hosts)
	f.network = string(value)
	return err
}

// printWaitingHosts says which hosts a program asked for, and how to allow them. Why is why
// golem could not ask, nil if the user cannot fix it.
func printWaitingHosts(w io.Writer, list []network.WaitingHost, why error) {
	if len(list) > 0 && why != nil {
		fmt.Fprintln(w, "golem: "+why.Error())
	}
	for _, h := range list {
		if h.Listed {
			fmt.Fprintf(w, "golem: it asked for %s, and golem asks you first because it may have read untrusted content; golem approve %s allows it once\n", visible.Text(h.Host), h.Request)
			continue
		}
		fmt.Fprintf(w, "golem: it asked for %s, which is not on the list; golem approve %s allows it once, and --net +%s for a whole call\n", visible.Text(h.Host), h.Request, visible.Text(h.Host))
	}
}
