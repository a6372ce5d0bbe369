package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// A resource is something that a client may read without a call. Reading it changes
// nothing and reveals only what calls of this client would reveal.
type resource struct {
	uri, name, about, mime string
	read                   func(context.Context) ([]byte, error)
}

// maxTail limits how many records of the journal a client can read.
const maxTail = 200

// stagedURI names the staged commits. With an id after it, it names one of them.
const stagedURI = "golem://staged"

// resources returns the resources for a client with these tools.
func (s *server) resources(tools map[string]bool) []resource {
	list := []resource{{
		uri: "golem://journal", name: "journal", mime: "application/x-ndjson",
		about: "What was done and refused through this server, as it is in the journal: the last records, a line each.",
		read:  func(context.Context) ([]byte, error) { return s.gate.Tail(maxTail) },
	}, {
		uri: approvalsURI, name: "approvals", mime: "text/plain",
		about: "The calls of this server that returned as pending, and what the user decided, a line each. A subscriber gets a notification of each decision.",
		read:  s.readUndecided,
	}}
	if tools["git_list_staged"] {
		list = append(list, resource{
			uri: stagedURI, name: "staged", mime: "text/plain",
			about: "The commits that are staged and wait for the user; " + stagedURI + "/ID shows one.",
			read: func(ctx context.Context) ([]byte, error) {
				return s.callReadTool(ctx, "git_list_staged", map[string]string{})
			},
		})
	}
	return list
}

// callReadTool calls a tool that only reads, through the gate, and returns its output.
func (s *server) callReadTool(ctx context.Context, name string, args map[string]string) ([]byte, error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if !s.enter() {
		return nil, errors.New("the server ends")
	}
	defer s.ending.Done()
	r := s.gate.Do(ctx, policy.Peer, tool.Call{Tool: name, Args: data})
	if r.Err != nil {
		return nil, r.Err
	}
	return []byte(r.String()), nil
}

// readStagedCommit handles a read of a staged commit.
func (s *server) readStagedCommit(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, ok := strings.CutPrefix(r.Params.URI, stagedURI+"/")
	if !ok {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	data, err := s.callReadTool(ctx, "git_diff", map[string]string{"commitId": id})
	if err != nil { // the library would send it without a code
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: string(data)}}}, nil
}

// handler returns the handler for reads of the resource.
func (r resource) handler() mcp.ResourceHandler {
	return func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		data, err := r.read(ctx)
		if err != nil { // the error may name host paths
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the " + r.name + " cannot be read; the user can check it with golem audit verify"}
		}
		list := []*mcp.ResourceContents{}
		if len(data) > 0 { // the library omits an empty text, and clients refuse contents without a text
			list = append(list, &mcp.ResourceContents{URI: r.uri, MIMEType: r.mime, Text: string(data)})
		}
		return &mcp.ReadResourceResult{Contents: list}, nil
	}
}

// fileURI returns the URI of a file in the sandbox.
func fileURI(path string) string { return (&url.URL{Scheme: "golem", Path: path}).String() }
