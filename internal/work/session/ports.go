package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// connectPorts makes published ports lead to a session of the jail, and lets golem ports
// publish more.
func (w *Workspace) connectPorts(s *jail.Jail) {
	if !w.ports.ConnectTo(s) || w.Session == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.portServer == nil {
		if server, err := jail.ServePorts(w.Session.dir, w.ports); err == nil { // without it golem ports finds no command
			w.portServer = server
		}
	}
}

// closePorts closes all published ports.
func (w *Workspace) closePorts() error {
	w.mu.Lock()
	server := w.portServer
	w.portServer = nil
	w.mu.Unlock()
	var err error
	if server != nil {
		err = server.Close()
	}
	return errors.Join(err, w.ports.Close())
}

// Ports returns the ports that are published for the session now. Running reports whether
// a golem runs commands in it that ports can lead to.
func (s *Session) Ports() (ports []jail.Port, running bool) {
	for _, a := range jail.AskPorts(s.dir, jail.PortsRequest{}) {
		ports, running = append(ports, a.Ports...), true
	}
	return ports, running
}

// PublishPort publishes a port while a golem runs commands in the session.
func (s *Session) PublishPort(p jail.Port) error {
	switch answers := jail.AskPorts(s.dir, jail.PortsRequest{Add: &p}); {
	case len(answers) == 0:
		return s.noCommand("publish", p.Host)
	case answers[0].Error != "":
		return errors.New(answers[0].Error)
	}
	return nil
}

// WithdrawPort closes a published port of the host. Connections that are open stay open.
func (s *Session) WithdrawPort(host uint16) error {
	var list []string
	answers := jail.AskPorts(s.dir, jail.PortsRequest{Remove: host})
	for _, a := range answers {
		if a.Removed {
			return nil
		}
		for _, p := range a.Ports {
			list = append(list, p.String())
		}
	}
	if len(answers) == 0 {
		return s.noCommand("close", host)
	}
	hint := "session " + naming.Label(s) + " has no published port; golem ports add PORT publishes one"
	if len(list) > 0 {
		hint = "session " + naming.Label(s) + " has " + strings.Join(list, ", ")
	}
	return &sandbox.Error{Op: "close", Path: fmt.Sprint(host), Code: sandbox.ErrNotFound, Hint: hint}
}

// noCommand returns the error for a session in which no command runs that a port could
// lead to.
func (s *Session) noCommand(op string, port uint16) error {
	return &sandbox.Error{Op: op, Path: fmt.Sprint(port), Code: sandbox.ErrNotFound,
		Hint: "no golem runs commands in session " + naming.Label(s) + " that a port could lead to; start one with golem exec --session " + naming.Label(s) + " --publish PORT"}
}
