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

// A brought is the answer that a client sends when it repeats a call.
type returnedAnswer struct {
	id     string            // the id of the request that it answers
	result *mcp.ElicitResult // nil if the client sends no answer
}

// park lets a call wait until the client returns with an answer, and returns the form for
// it. If another call waits for the same request, park cancels that earlier call.
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

// unpark removes the call that waits for an answer to a request and returns it. It
// returns nil if there is none.
func (s *server) unpark(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.parked[id]
	delete(s.parked, id)
	return c
}

// removeParked removes a call that no longer waits for an answer.
func (s *server) removeParked(id string, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked[id] == c {
		delete(s.parked, id)
	}
}

// parseAnswer returns the answer that a client sends, or nil if this is the first request of a
// call. The request state must be the one that golem issued for exactly this call.
func (s *server) parseAnswer(r *mcp.CallToolRequest) (*returnedAnswer, error) {
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
	b := &returnedAnswer{id: parts[0]}
	b.result, _ = r.Params.InputResponses[question].(*mcp.ElicitResult)
	return b, nil
}

// sign returns the request state that a client carries. It holds the id of a request, the
// time limit for an answer, and an HMAC of both and of the exact call.
func (s *server) sign(id string, until time.Time, p *mcp.CallToolParamsRaw) string {
	var args bytes.Buffer
	if json.Compact(&args, p.Arguments) != nil {
		args.Reset()
		args.Write(p.Arguments)
	}
	state := id + "." + strconv.FormatInt(until.Unix(), 10)
	call, _ := json.Marshal([]string{state, p.Name, args.String()}) // strings always have a JSON form
	key, _ := s.key()                                               // callAgain has checked that there is a key
	seal := hmac.New(sha256.New, key)
	seal.Write(call)
	return state + "." + base64.RawURLEncoding.EncodeToString(seal.Sum(nil))
}
