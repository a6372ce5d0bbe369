package program

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/toolset/export"
	"github.com/golem-forge/golem/sandbox"
)

// patience is how long a service may take to answer.
const patience = time.Minute

// exportTools returns the tools by which the user hands results on without git.
func (p *Program) exportTools(clipboard func(context.Context, string) (string, error), scanners func() (*scan.Set, error)) export.Set {
	s := export.Set{Locate: p.exportTo, Copy: clipboard, Scanners: scanners, Own: []sandbox.Host{sandbox.Host(p.stateBase())}}
	for _, m := range p.Project.Mounts {
		s.Own = append(s.Own, sandbox.Host(hostOf(m)))
	}
	for _, e := range p.Project.Endpoints {
		to := export.Endpoint{Name: e.Name, URL: e.URL, Method: e.Method, Type: e.Type}
		for _, h := range e.Headers {
			header := export.Header{Name: h.Name, Shown: h.Text, Value: h.Text}
			if h.Variable != "" {
				value, ok := environ(p.options.Environ, h.Variable)
				if !ok || value == "" {
					header.Missing = h.Variable
				}
				header.Shown, header.Value = h.Text+"(from "+h.Variable+")", h.Text+value
			}
			to.Headers = append(to.Headers, header)
		}
		s.Endpoints = append(s.Endpoints, to)
	}
	if len(s.Endpoints) > 0 {
		s.Client = &http.Client{
			Timeout:       patience,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return s
}

// exportTo returns the folder that the user means: from where golem was called, or from
// the home for ~.
func (p *Program) exportTo(to string) (sandbox.Host, error) {
	home, ok := strings.CutPrefix(to, "~")
	switch {
	case strings.TrimSpace(to) == "" || strings.Contains(to, "\x00"):
		return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "say which folder of yours: --to ~/exports"}
	case ok && (home == "" || home[0] == '/' || home[0] == filepath.Separator):
		if p.options.Home == "" {
			return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "nobody knows what ~ is here; name the folder in full"}
		}
		to = p.options.Home + home
	case ok:
		return "", &sandbox.Error{Op: "file_export", Code: "invalid_args", Hint: "only your own ~ is known; name the folder in full, or as ./~… where it is called so"}
	}
	whole, err := filepath.Abs(to)
	return sandbox.Host(whole), err
}
