package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/jail/preset"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// findAgent returns the command as an agent: with its profile and the user's logins.
func (f *execFlags) findAgent(user profile.User, command string) (network.Agent, error) {
	p, err := user.ProfileFor(f.profile, command)
	if err != nil {
		return network.Agent{}, err
	}
	f.profiles = p.InRepository
	agent, err := network.NewAgent(p, os.Getenv, findStoredSecret)
	f.agent = agent.Needs()
	return agent, err
}

// describeNetwork describes the hosts that commands reach.
func describeNetwork(p *program.Program, h policy.Hosts) string {
	switch {
	case h.IsAll():
		return "network on"
	case h.IsEmpty():
		return "network off"
	case p.Project.ByAgent:
		rules := agentRules(h)
		hasKey := rules[0].Credential != ""
		rules[0].Credential = ""
		text := "network: " + visible.Text(rules[0].String())
		if more := len(rules) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		text += ", asks about others"
		if hasKey {
			text += "; keys stay outside"
		}
		return text
	}
	list := h.Patterns()
	const most = 6
	if more := len(list) - most; more > 0 {
		list = append(list[:most], visible.Count(more, "more host"))
	}
	others := " only"
	if p.Project.AskHosts {
		others = ", asks about others"
	}
	return "network: " + visible.Text(strings.Join(list, ", ")) + others
}

// describeFiles describes the files and variables of the user that a profile gives to a
// program: those without credentials, and those with.
func describeFiles(p profile.Profile) (adds, secrets []string) {
	adds = copiesOf(p.Copies)
	for _, file := range p.Logins {
		text := copiesOf([]string{file})[0]
		switch {
		case !slices.Contains(p.Hidden, file):
			secrets = append(secrets, text)
		case p.HasPlaceholders(file):
			adds = append(adds, text+" with placeholders")
		default:
			adds = append(adds, text)
		}
	}
	for _, l := range p.Lines {
		adds = append(adds, l.String())
	}
	return adds, append(secrets, present(p.Keys)...)
}

// tellNetwork prints what the command reaches, with which keys, and which keys it can read.
func tellNetwork(w io.Writer, p *program.Program, hosts policy.Hosts, agent network.Agent, secrets []string) {
	isList := !hosts.IsAll() && !hosts.IsEmpty()
	needs := agent.Needs()
	if isList && len(agent.Profile.Outside) > 0 {
		var parts []string
		for _, r := range agentRules(hosts) {
			c, ok := p.Project.Credential(r.Credential)
			r.Credential = ""
			text := visible.Text(r.String())
			if ok {
				text += " with " + visible.Text(c.Source()) + ", which stays outside"
			}
			parts = append(parts, text)
		}
		fmt.Fprintln(w, "golem: it reaches "+strings.Join(parts, "; "))
		if list := slices.Clone(needs.Optional); len(list) > 0 && p.Project.ByAgent {
			const most = 3
			if more := len(list) - most; more > 0 {
				list = append(list[:most], visible.Count(more, "more host"))
			}
			fmt.Fprintln(w, "golem: it does not need "+visible.Text(strings.Join(list, ", "))+", which golem refuses without a question; --net +HOST allows one, and --profile-help lists them")
		}
		if len(agent.Logins) == 0 {
			fmt.Fprintf(w, "golem: you have no login for %s that golem knows; %s\n", visible.Text(agent.Profile.Name), agent.Profile.LoginAdvice())
		}
		if dropped := present(agent.Profile.Dropped); len(dropped) > 0 {
			fmt.Fprintf(w, "golem: it does not get %s, which may contain a key; --net on passes it on\n", strings.Join(dropped, ", "))
		}
	}
	if len(secrets) > 0 {
		outside := ""
		if hosts.IsAll() && len(agent.Logins) > 0 {
			outside = "; without --net on your keys stay outside"
		}
		fmt.Fprintf(w, "golem: warning: the agent can read these credentials: %s%s\n", strings.Join(secrets, "; "), outside)
	}
	for _, s := range agent.Profile.LocalServers() {
		if !hosts.IsAll() && len(hosts.Find("127.0.0.1", s.Port)) == 0 {
			fmt.Fprintf(w, "golem: warning: ~/%s names a server on this machine, %s, which the agent cannot reach; --net +127.0.0.1:%d lets it\n", visible.Text(s.File), visible.Text(s.Address), s.Port)
		}
	}
	var names []string
	for _, r := range needs.Hosts {
		if !r.GitRead {
			r.Credential, r.Methods = "", nil
			names = append(names, visible.Text(r.String()))
		}
	}
	switch {
	case hosts.IsAll() && len(agent.Profile.Hosts) > 0:
		fmt.Fprintf(w, "golem: the agent can reach every host; the profile needs only %s, and --net %s limits it to these\n", strings.Join(names, ", "), strings.Join(names, ","))
	case hosts.IsEmpty() && agent.Profile.Net:
		advice := "--net on gives it yours"
		if len(names) > 0 {
			advice = "--net " + strings.Join(names, ",") + " gives it these hosts, and --net on all"
		}
		fmt.Fprintln(w, "golem: it is of little use without the network; "+advice)
	case isList && len(names) > 0 && !slices.ContainsFunc(needs.Hosts, func(r policy.HostRule) bool { return !r.GitRead && isListed(hosts, r) }):
		fmt.Fprintf(w, "golem: warning: the list has none of the hosts that %s needs; --net +%s adds them\n", visible.Text(agent.Profile.Name), strings.Join(names, ",+"))
	}
}

// isListed reports whether a list has the host of a rule, at one of its ports.
func isListed(h policy.Hosts, r policy.HostRule) bool {
	r = policy.HostsOfRules(r).Rules()[0]
	return slices.ContainsFunc(r.Ports, func(port uint16) bool { return len(h.Find(r.Host, port)) > 0 })
}

// agentRules returns the rules of a list, those with a credential first.
func agentRules(h policy.Hosts) []policy.HostRule {
	return slices.SortedStableFunc(slices.Values(h.Rules()), func(a, b policy.HostRule) int {
		rank := func(r policy.HostRule) int {
			switch {
			case r.Credential != "":
				return 0
			case r.GitRead || len(r.Methods) > 0:
				return 2
			}
			return 1
		}
		return rank(a) - rank(b)
	})
}

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
		if u, wrong := url.Parse(item); err != nil && wrong == nil && u.Host != "" {
			return usagef("--net %s: it is the name of a host, without %s:// and a path: --net %s", sandbox.Shown(text), u.Scheme, visible.CommandLine(u.Host))
		}
		if err != nil {
			return usagef("--net %v", err)
		}
		if near := sandbox.Nearest(item, policy.PresetNames()); len(near) > 0 && !strings.ContainsAny(item, ".:") {
			return usagef("--net %s: did you mean --net +%s? The sets of hosts are %s", sandbox.Shown(text), near[0], strings.Join(policy.PresetNames(), ", "))
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
		if h.Raise != "" {
			fmt.Fprintf(w, "golem: it has reached the limit of its budget; golem approve %s raises the limit by %s, and golem exec -c continues\n", h.Request, h.Raise)
			continue
		}
		if h.Listed {
			fmt.Fprintf(w, "golem: it asked for %s, and golem asks you first because it may have read untrusted content; golem approve %s allows it once\n", visible.Text(h.Host), h.Request)
			continue
		}
		fmt.Fprintf(w, "golem: it asked for %s, which is not on the list; golem approve %s allows it once, and --net +%s for a whole call\n", visible.Text(h.Host), h.Request, visible.Text(h.Host))
	}
}
