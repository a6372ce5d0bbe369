package program

import (
	"context"
	"net/http"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/toolset/export"
	"github.com/golem-forge/golem/sandbox"
)

// patience is the timeout of a request to an endpoint.
const patience = time.Minute

// exportTools returns the tools that hand on results without git. Requests send those of
// api_send.
func (p *Program) exportTools(clipboard func(context.Context, string) (string, error), scanners func() (*scan.Set, error), requests http.RoundTripper) export.Set {
	locate := func(to string) (sandbox.Host, error) { return export.FindDir(p.options.Home, to) }
	if p.options.Job != nil { // the home is that of the machine's user
		locate = func(string) (sandbox.Host, error) {
			return "", &sandbox.Error{Op: "export", Code: "blocked", Hint: "a job exports no files to the machine that does it; write them into a mount of the program"}
		}
	}
	s := export.Set{Locate: locate, Copy: clipboard, Scanners: scanners, Own: []sandbox.Host{sandbox.Host(p.Storage.Base)}}
	for _, m := range p.Project.Mounts {
		s.Own = append(s.Own, sandbox.Host(m.HostDir()))
	}
	s.Endpoints = export.EndpointsOf(p.Project, p.options.Environ)
	if len(s.Endpoints) > 0 {
		s.Client = &http.Client{
			Timeout:       patience,
			Transport:     requests,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return s
}
