package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// A resource is something that a client may read without a call: it changes nothing, and
// tells nothing that calls of this client would not.
type resource struct {
	uri, name, about, mime string
	read                   func(context.Context) ([]byte, error)
}

// maxTail is how many records of the journal are told.
const maxTail = 200

// stagedURI is what waits to be let in; with an id behind it, one commit of it.
const stagedURI = "golem://staged"

// resources are those that there are, for a client with these tools.
func (s *server) resources(tools map[string]bool) []resource {
	list := []resource{{
		uri: "golem://journal", name: "journal", mime: "application/x-ndjson",
		about: "What was done and refused through this server, as it is in the journal: the last records, a line each.",
		read:  func(context.Context) ([]byte, error) { return s.door.Tail(maxTail) },
	}}
	if tools["git_list_staged"] {
		list = append(list, resource{
			uri: stagedURI, name: "staged", mime: "text/plain",
			about: "The commits that are staged and wait for the user; " + stagedURI + "/ID shows one.",
			read: func(ctx context.Context) ([]byte, error) {
				return s.through(ctx, "git_list_staged", map[string]string{})
			},
		})
	}
	return list
}

// through returns what a tool that only looks says, by way of the door.
func (s *server) through(ctx context.Context, name string, args map[string]string) ([]byte, error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if !s.enter() {
		return nil, errors.New("the server ends")
	}
	defer s.ending.Done()
	r := s.door.Do(ctx, policy.Peer, tool.Call{Tool: name, Args: data})
	if r.Err != nil {
		return nil, r.Err
	}
	return []byte(r.String()), nil
}

// stagedCommit answers who reads a staged commit.
func (s *server) stagedCommit(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, ok := strings.CutPrefix(r.Params.URI, stagedURI+"/")
	if !ok {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	data, err := s.through(ctx, "git_diff", map[string]string{"commitId": id})
	if err != nil { // the library would give it no code
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: string(data)}}}, nil
}

// handler answers who reads it.
func (r resource) handler() mcp.ResourceHandler {
	return func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		data, err := r.read(ctx)
		if err != nil { // it may name the host
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the " + r.name + " cannot be read; the user can see to it with golem audit verify"}
		}
		list := []*mcp.ResourceContents{}
		if len(data) > 0 { // the library leaves out a text that is empty, and clients take no contents without one
			list = append(list, &mcp.ResourceContents{URI: r.uri, MIMEType: r.mime, Text: string(data)})
		}
		return &mcp.ReadResourceResult{Contents: list}, nil
	}
}

// fileURI names a file of the sandbox.
func fileURI(path string) string { return (&url.URL{Scheme: "golem", Path: path}).String() }
