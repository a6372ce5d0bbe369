package inbox

import "github.com/golem-forge/golem/internal/jail"

// A PublishedPort is a port of this machine that leads to a server in the jail, in the form
// of golem ports --json.
type PublishedPort struct {
	Session string `json:"session"`
	What    string `json:"what,omitempty"` // the program or the input that started the session
	Host    uint16 `json:"host"`
	Inside  uint16 `json:"inside"`
}

// Port returns the port as package jail knows it.
func (p PublishedPort) Port() jail.Port { return jail.Port{Host: p.Host, Inside: p.Inside} }

// PublishedPorts returns the ports that are published now for some sessions.
func PublishedPorts(all []ProgramSession) []PublishedPort {
	list := []PublishedPort{}
	for _, s := range all {
		ports, _ := s.Ports()
		for _, p := range ports {
			list = append(list, PublishedPort{s.ID, s.What(), p.Host, p.Inside})
		}
	}
	return list
}
