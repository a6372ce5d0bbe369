package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/session"
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
	var names []string
	for _, p := range list {
		names = append(names, p.String())
	}
	return fmt.Sprintf("; published: %s", strings.Join(names, ", "))
}
