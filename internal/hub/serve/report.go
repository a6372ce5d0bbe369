package serve

import (
	"math"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/internal/hub"
)

// A node may be in the hands of an attacker. The hub checks every number and text of its reports
// before it keeps them: lists show them to everybody.

// The limits for the numbers of a report.
const (
	maxDollars = 1e9
	maxCount   = 1 << 53 // JSON keeps larger ones only in part
)

// checkResult returns an error for a result that no run has.
func checkResult(r hub.Result) error {
	switch {
	case len(r.Answer) > 1<<20 || len(r.Why) > 1<<16:
		return invalid("the answer is too long")
	case math.IsNaN(r.Dollars) || r.Dollars < 0 || r.Dollars > maxDollars:
		return invalid("a run cannot cost %g dollars", r.Dollars)
	case r.Tokens < 0 || r.Tokens > maxCount || r.Calls < 0 || r.Calls > maxCount:
		return invalid("a run cannot have %d tokens and %d calls", r.Tokens, r.Calls)
	case !isLine(r.Session, 100):
		return invalid("the session of the result is too long, or no plain line")
	}
	return nil
}

// checkDoubt returns an error for a call in doubt that no run has. There may be none.
func checkDoubt(d *hub.Doubt) error {
	if d != nil && (!isLine(d.Call, maxCall) || !isLine(d.Tool, maxTool)) {
		return invalid("the call in doubt is too long, or no plain line")
	}
	return nil
}

// checkRequest returns an error for a call that waits and that no run has.
func checkRequest(r hub.Request) error {
	if !plainRequest.MatchString(r.ID) || !hub.IsHash(r.Hash) || !isLine(r.Tool, maxTool) || !isLine(r.Digest, 200) {
		return invalid("a request that is too long or no plain line, or an id with other characters than a-z and 0-9")
	}
	return nil
}

// checkCheckpoint returns an error for a checkpoint that no run has.
func checkCheckpoint(p hub.Checkpoint) error {
	switch {
	case !hub.IsHash(p.Files):
		return invalid("the checkpoint does not name its files by their hash")
	case !isLine(p.Journal.Hash, 100) || p.Journal.Count > maxCount:
		return invalid("the hash of the journal is too long, or its size is")
	}
	return nil
}

// maxTool limits the name of a tool.
const maxTool = 200

// isLine reports whether a text has at most so many bytes, and no control characters.
func isLine(text string, most int) bool {
	return len(text) <= most && !strings.ContainsFunc(text, unicode.IsControl)
}
