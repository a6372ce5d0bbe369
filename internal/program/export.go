package program

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/toolset/export"
	"github.com/golem-forge/golem/sandbox"
)

// patience is the timeout of a request to an endpoint.
const patience = time.Minute

// exportTools returns the tools that hand on results without git.
func (p *Program) exportTools(clipboard func(context.Context, string) (string, error), scanners func() (*scan.Set, error)) export.Set {
	s := export.Set{Locate: func(to string) (sandbox.Host, error) { return exportTo(p.options.Home, to) }, Copy: clipboard, Scanners: scanners, Own: []sandbox.Host{sandbox.Host(p.options.stateBase())}}
	for _, m := range p.Project.Mounts {
		s.Own = append(s.Own, sandbox.Host(hostOf(m)))
	}
	s.Endpoints = endpointsOf(p.Project, p.options.Environ)
	if len(s.Endpoints) > 0 {
		s.Client = &http.Client{
			Timeout:       patience,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return s
}

// endpointsOf returns the services that results are sent to, with the values of
// environment variables in their headers.
func endpointsOf(p *project.Project, variables []string) (list []export.Endpoint) {
	for _, e := range p.Endpoints {
		to := export.Endpoint{Name: e.Name, ForModels: e.ForModels, URL: e.URL, Method: e.Method, Type: e.Type}
		for _, h := range e.Headers {
			header := export.Header{Name: h.Name, Shown: h.Text, Value: h.Text}
			if h.Variable != "" {
				value, ok := environ(variables, h.Variable)
				if !ok || value == "" {
					header.Missing = h.Variable
				}
				header.Shown, header.Value = h.Text+"(from "+h.Variable+")", h.Text+value
			}
			to.Headers = append(to.Headers, header)
		}
		list = append(list, to)
	}
	return list
}

// exportTo returns the directory of the host that a name means. A relative name starts at
// the current directory, ~ is the home.
func exportTo(home, to string) (sandbox.Host, error) {
	rest, ok := strings.CutPrefix(to, "~")
	switch {
	case strings.TrimSpace(to) == "" || strings.Contains(to, "\x00"):
		return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "name a directory of yours: --to ~/exports"}
	case ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator):
		if home == "" {
			return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "your home directory is not known here; use an absolute path instead of ~"}
		}
		to = home + rest
	case ok:
		return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "golem expands only ~ itself; use an absolute path, or ./~… for a name that begins with ~"}
	}
	whole, err := filepath.Abs(to)
	return sandbox.Host(whole), err
}
