package mcp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A brought is the answer that a client brings when it makes a call again.
type brought struct {
	id     string            // of the request that it answers
	result *mcp.ElicitResult // nil where it brings none
}

// park lets a call wait until the client brings an answer, and returns the form for it. A
// client that makes the same call anew is answered about that one, and the earlier ends.
func (s *server) park(c *call, f form) *mcp.CallToolResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier := s.parked[f.id]; earlier != nil {
		earlier.cancel()
	}
	s.parked[f.id] = c
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{question: f.params},
		RequestState:  s.sign(f.id, time.Now().Add(s.options.Wait), c.request.Params),
	}
}

// unpark returns the call that waits for an answer to a request, nil for none, and lets
// nobody find it again.
func (s *server) unpark(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.parked[id]
	delete(s.parked, id)
	return c
}

// leave takes a call out that does not wait for an answer any more.
func (s *server) leave(id string, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked[id] == c {
		delete(s.parked, id)
	}
}

// bring returns what a client brings, nil where it makes a call for the first time. What
// it carries must be what it was given, for this very call.
func (s *server) bring(r *mcp.CallToolRequest) (*brought, error) {
	state := r.Params.RequestState
	if state == "" {
		return nil, nil
	}
	parts := strings.Split(state, ".")
	wrong := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "the request state is not what golem gave for this call, or is too old; make the call again without it"}
	if len(parts) != 3 {
		return nil, wrong
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	until := time.Unix(seconds, 0)
	if err != nil || !hmac.Equal([]byte(state), []byte(s.sign(parts[0], until, r.Params))) || time.Now().After(until) {
		return nil, wrong
	}
	b := &brought{id: parts[0]}
	b.result, _ = r.Params.InputResponses[question].(*mcp.ElicitResult)
	return b, nil
}

// sign returns what a client carries: the name of a request, until when it may bring an
// answer, and a seal on both and on the exact call.
func (s *server) sign(id string, until time.Time, p *mcp.CallToolParamsRaw) string {
	var args bytes.Buffer
	if json.Compact(&args, p.Arguments) != nil {
		args.Reset()
		args.Write(p.Arguments)
	}
	state := id + "." + strconv.FormatInt(until.Unix(), 10)
	call, _ := json.Marshal([]string{state, p.Name, args.String()}) // texts always have a JSON form
	key, _ := s.key()                                               // who comes here has it
	seal := hmac.New(sha256.New, key)
	seal.Write(call)
	return state + "." + base64.RawURLEncoding.EncodeToString(seal.Sum(nil))
}
