package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"syscall/js"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// Codes of errors of GitHub.
const (
	errUnreachable  = sandbox.Code("unreachable")
	errUnauthorized = sandbox.Code("unauthorized")
)

// A remote is a repository at GitHub. Only memory has the token.
type remote struct {
	api   string // such as https://api.github.com
	name  string // owner/name
	token string
}

// A reply is what golemFetch in web/worker.js returns. Status 0 means that there was none.
type reply struct {
	Status    int    `json:"status"`
	Body      string `json:"body"`
	Remaining string `json:"remaining"` // requests
	Reset     string `json:"reset"`     // seconds since 1970
	After     string `json:"after"`     // seconds
}

// call sends a request below the repository. In is the body, nil for none, and out gets the
// answer.
func (r *remote) call(method, at string, in, out any) error {
	body := []byte(nil)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	answered := make(chan string, 1)
	then := js.FuncOf(func(_ js.Value, args []js.Value) any {
		answered <- args[0].String()
		return nil
	})
	defer then.Release()
	js.Global().Call("golemFetch", method, r.api+"/repos/"+r.name+at, r.token, string(body)).Call("then", then)
	var got reply
	if err := json.Unmarshal([]byte(<-answered), &got); err != nil {
		return err
	}
	if got.Status < 200 || got.Status > 299 {
		return r.failure(method, got)
	}
	if err := json.Unmarshal([]byte(got.Body), out); err != nil {
		return r.error(errUnreachable, "the answer is not GitHub's: "+visible.Line(err.Error(), 200))
	}
	return nil
}

func (r *remote) error(code sandbox.Code, hint string) error {
	return &sandbox.Error{Op: "github", Path: r.name, Code: code, Hint: hint}
}

// failure returns the error for an answer that is not a success.
func (r *remote) failure(method string, got reply) error {
	var said struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal([]byte(got.Body), &said) // without a message, the status must do
	what := fmt.Sprintf("GitHub answers %d", got.Status)
	if said.Message != "" {
		what += " (" + visible.Line(said.Message, 200) + ")"
	}
	switch {
	case got.Status == 0:
		return r.error(errUnreachable, "no answer; check the network, and that the page may connect to "+r.api)
	case got.Status == 429 || got.Status == 403 && (got.Remaining == "0" || got.After != ""):
		return r.error(sandbox.ErrLimit, what+"; the rate limit is used up"+got.again())
	case got.Status == 401, got.Status == 403:
		return r.error(errUnauthorized, what+"; use a token that may read the contents of the repository, and write them for a push")
	case got.Status == 404:
		return r.error(sandbox.ErrNotFound, what+"; check the name, and that the token may see the repository")
	case got.Status == 409:
		return r.error(sandbox.ErrConflict, what+"; the repository is empty or somebody changes it; try again")
	case got.Status == 422 && method == "PATCH":
		return r.error(sandbox.ErrConflict, what+"; the branch has other commits now, or is protected; stage again")
	}
	return r.error(errUnreachable, what)
}

// again says when requests are possible again.
func (r reply) again() string {
	if seconds, err := strconv.ParseInt(r.After, 10, 32); err == nil && seconds > 0 {
		return fmt.Sprintf("; try again in %d s", seconds)
	}
	if at, err := strconv.ParseInt(r.Reset, 10, 64); err == nil && at > 0 {
		return "; try again after " + time.Unix(at, 0).UTC().Format("15:04 MST")
	}
	return "; try again later"
}

// checkAPI returns an error unless a token may be sent to an address.
func checkAPI(api string) error {
	if !validAPI.MatchString(api) {
		return invalid("github", "api must be an address such as https://github.example.com/api/v3; the token is sent there, so only this machine may have http")
	}
	return nil
}

var validAPI = regexp.MustCompile(`^(https://[A-Za-z0-9.-]+|http://(127\.0\.0\.1|localhost))(:[0-9]{1,5})?(/[A-Za-z0-9_-]+)*$`)
