package mcp

import (
	"context"
	"errors"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A resource is something that a client may read without a call: it changes nothing, and
// tells nothing that calls of this client would not.
type resource struct {
	uri, name, about, mime string
	read                   func() ([]byte, error)
}

// maxTail is how many records of the journal are told.
const maxTail = 200

// resources are those that there are.
func (s *server) resources() []resource {
	return []resource{{
		uri: "golem://journal", name: "journal", mime: "application/x-ndjson",
		about: "What was done and refused through this server, as it is in the journal: the last records, a line each.",
		read:  func() ([]byte, error) { return s.door.Tail(maxTail) },
	}}
}

// handler answers who reads it.
func (r resource) handler() mcp.ResourceHandler {
	return func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		data, err := r.read()
		if err != nil { // it may name the host
			return nil, errors.New("the " + r.name + " cannot be read; the user can see to it with golem audit verify")
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.uri, MIMEType: r.mime, Text: string(data)}}}, nil
	}
}

// fileURI names a file of the sandbox.
func fileURI(path string) string { return (&url.URL{Scheme: "golem", Path: path}).String() }
