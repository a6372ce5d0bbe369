package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// publishPorts publishes the ports of --publish, before the command starts.
func (f *execFlags) publishPorts(ctx context.Context, p *program.Program, x *session.Exec) error {
	for _, text := range f.publish {
		port, err := jail.ParsePort(text)
		if err != nil {
			return usagef("--publish %v", err)
		}
		if p.Project.Network.IsAll() {
			return usagef("--publish %s: the command uses the network of this machine, where its servers can be reached anyway; leave out --publish, or limit the network with --net", text)
		}
		if err := x.Ports.Publish(ctx, port); err != nil {
			return err
		}
	}
	return nil
}

// describePorts describes published ports after the network.
func describePorts(list []jail.Port) string {
	if len(list) == 0 {
		return ""
	}
	return "; published: " + strings.Join(visible.Each(list, jail.Port.String), ", ")
}

func newPorts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ports [SESSION] [add|rm PORT...]",
		Short: "Show, publish and close ports of servers in the jail",
		Long: `Show the published ports of sessions in this directory. A published port is a port of
this machine, at 127.0.0.1, that leads to a server in the jail. add publishes a port while
a command runs in the session: PORT, or HOSTPORT:PORT for port PORT inside at port
HOSTPORT of this machine. rm closes one. Without SESSION, golem takes the only session in
which a command runs. golem closes all ports when the command ends.`,
		Example: "  golem ports\n  golem ports add 8080:3000\n  golem ports npm-otter rm 8080",
	}
	f := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, verb, ports, err := parsePorts(args)
		if err != nil {
			return err
		}
		all, err := f.sessionsHere()
		if err != nil {
			return err
		}
		if id != "" {
			w, err := naming.Find(all, id)
			if err != nil {
				return err
			}
			all = []*workSession{w}
		}
		if verb != "" {
			w, err := runningSession(all)
			if err != nil {
				return err
			}
			all = []*workSession{w}
		}
		for _, p := range ports {
			if verb == "add" {
				err = all[0].PublishPort(p)
			} else {
				err = all[0].WithdrawPort(p.Host)
			}
			if err != nil {
				return err
			}
		}
		return printPorts(cmd, all)
	}
	return cmd
}

// parsePorts reads the arguments of golem ports.
func parsePorts(args []string) (id, verb string, ports []jail.Port, err error) {
	isVerb := func(text string) bool { return text == "add" || text == "rm" || text == "remove" }
	if len(args) > 0 && !isVerb(args[0]) {
		if _, err := jail.ParsePort(args[0]); err == nil {
			return "", "", nil, usagef("golem ports %s: add a port or remove one: golem ports add %s", args[0], args[0])
		}
		id, args = args[0], args[1:]
	}
	if len(args) == 0 {
		return id, "", nil, nil
	}
	if !isVerb(args[0]) {
		return "", "", nil, usagef("golem ports: %s is neither add nor rm; write golem ports [SESSION] add PORT", visible.Name(args[0]))
	}
	if verb = args[0]; len(args) == 1 {
		return "", "", nil, usagef("golem ports %s: which port? write golem ports %s PORT", verb, verb)
	}
	for _, text := range args[1:] {
		p, err := jail.ParsePort(text)
		if err != nil {
			return "", "", nil, usagef("golem ports %s %v", verb, err)
		}
		ports = append(ports, p)
	}
	return id, verb, ports, nil
}

// runningSession returns the session in which a command runs that ports can lead to.
func runningSession(all []*workSession) (*workSession, error) {
	var running []*workSession
	var ids []string
	for _, w := range all {
		if _, is := w.Ports(); is {
			running, ids = append(running, w), append(ids, w.ID)
		}
	}
	switch len(running) {
	case 1:
		return running[0], nil
	case 0:
		return nil, &sandbox.Error{Op: "ports", Code: sandbox.ErrNotFound, Hint: "no command runs here that a port could lead to; golem exec --publish PORT COMMAND starts one. With --net on, and at the level landlock, golem publishes no ports"}
	}
	return nil, usagef("commands run in the sessions %s; name one: golem ports %s add PORT", strings.Join(ids, ", "), ids[0])
}

// printPorts prints the published ports of sessions.
func printPorts(cmd *cobra.Command, all []*workSession) error {
	var list []inbox.ProgramSession
	for _, w := range all {
		list = append(list, w.of())
	}
	ports := inbox.PublishedPorts(list)
	var rows [][]string
	for _, p := range ports {
		rows = append(rows, []string{cmp.Or(p.Name, p.Session), p.What, p.Port().String()})
	}
	return printTableOr(cmd, map[string]any{"ports": ports}, "no published ports; golem ports add PORT publishes one while a command runs", nil, rows)
}
