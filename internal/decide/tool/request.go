package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
)

// An Approver answers requests: calls that the grant allows only with approval. Calls
// that the grant blocks do not get here.
type Approver interface {
	// Approve returns when there is an answer. Several calls may ask at once. When ctx
	// ends, the answer is to decline.
	Approve(ctx context.Context, r Request) Answer
}

// A Request is a call that needs approval, with everything that is known about it. Its
// texts come from a worker, so a front must escape them.
type Request struct {
	// Digest is the hash of the exact call with its changes. An approval is bound to it.
	Digest string `json:"digest"`
	// CallDigest is the hash of the call without its changes: the tool, arguments and
	// effects, and the workers.
	CallDigest string          `json:"same"`
	Origin     policy.Origin   `json:"origin"`
	Workers    []string        `json:"workers"` // the entry worker first
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	// Effects are all effects. ToApprove are those that need approval. It includes the
	// use of the tool if a rule asks about that.
	Effects   []policy.Effect `json:"effects"`
	ToApprove []policy.Effect `json:"asks"`
	// Rule is where the rule that asks is written, "" for a default. Why says what it
	// asks for, if that is not obvious.
	Rule    string   `json:"rule,omitempty"`
	Why     string   `json:"why,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Summary says what the changes do, if that is not obvious. Warnings are what to look
	// at first.
	Summary  string   `json:"wish,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Details are further lines that the user decides about, such as what a program permits.
	Details []string `json:"details,omitempty"`
	// MoreWarnings is how many warnings are omitted.
	MoreWarnings int `json:"more_warnings,omitempty"`
	// Problem says why the changes are not known. If Unknown is true, the call can still
	// run: golem works out the changes only after the approval.
	Problem string `json:"problem,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
	// Taint is the untrusted path that the worker has read, "" for none. Only an answer
	// that a person gave to this request, with the taint in view, counts for it.
	Taint string `json:"taint,omitempty"`
	// Guess is that of the plan.
	Guess string `json:"guessed,omitempty"`
	// Network is true if commands of the worker can reach every host. Hosts are those that
	// they can reach otherwise.
	Network bool     `json:"network,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
	// OnlyUser is true if the call changes what the user trusts. No rule and no file
	// approves it, only the user or the user's own flag.
	OnlyUser bool `json:"clears,omitempty"`
	// Earlier says why an earlier answer to the same call does not count, "" if there is none.
	Earlier string `json:"earlier,omitempty"`
	// Session describes the session that the user's call is about, if there are several. A
	// front sets it for the question only.
	Session string `json:"-"`
	// SessionLabel is the session whose files the call reads, by its name or its id, "" if it is
	// not known. The approver,
	// or the store of the request, sets it.
	SessionLabel string `json:"-"`
	// Reporter names who reports what the digest does not cover, such as the network and the
	// rule: a machine that may lie. It is "" for this golem. A front sets it.
	Reporter string `json:"-"`
	// UnseenOff is the line of a policy that does not allow approving what golem did not
	// show, "" for none. The approver, or the store of the request, sets it.
	UnseenOff string `json:"-"`
}

// A Verdict is the decision of an approver. The zero value is Declined.
type Verdict uint8

// The verdicts.
const (
	Declined Verdict = iota
	Approved
	Undecided // there is no answer yet
)

// An Answer is what an Approver returns. The zero Answer declines.
type Answer struct {
	Verdict    Verdict
	By         string // the source of the answer: user, approve_all, a remembered rule
	Note       string // the reason for the model if it was declined; a remark if it was approved
	ID         string // the ID of the pending request
	Unattended bool   // no person could be asked
	Stop       bool   // the whole run should end
	// Seen is what an approval rests on. The gate refuses an approval without it, or with
	// that of another request.
	Seen Seen
	// Front is where the person answered. Shown are the items that were shown, as
	// Request.DescribeItems returns them.
	Front string
	Shown []string
	// Text is the hash of the text that was shown, "" if golem did not keep it.
	Text string
	// Keep, if set, remembers an approval for later calls. The gate calls it after the
	// approval is in the journal.
	Keep func() error `json:"-"`
}

// ConnectTool stands for the tool in requests about connections of commands.
const ConnectTool = "connect"

// NewConnectRequest returns the request to connect to a host that is not on the list of
// the workers, or that a tainted worker may write to. Ports are those that the answer
// covers. The program is the one that connects, "" if it is not known. Taint is the
// untrusted path that it may have read, "" for none.
func NewConnectRequest(workers []string, host string, ports []uint16, program, taint string) (Request, error) {
	args, err := json.Marshal(map[string]any{"host": host, "ports": ports})
	if err != nil {
		return Request{}, err
	}
	target := host
	if len(ports) == 1 {
		target = audit.Connection{Host: host, Port: ports[0]}.Address()
	}
	effects := []policy.Effect{{Verb: policy.Connect, Target: target}}
	rule := "network.ask"
	if taint != "" {
		rule = ""
	}
	r := Request{Origin: policy.Model, Workers: workers, Tool: ConnectTool, Args: args, Effects: effects, ToApprove: effects, Rule: rule, Taint: taint}
	if program != "" {
		r.Why = "a connection of " + program
	}
	return r, r.setDigests()
}

// commandPrefix begins the Tool of a request about a command. No tool has such a name.
const commandPrefix = "golem "

// NewCommandRequest returns the request to confirm a command of the user that is no call of
// a tool, such as golem trust. The summary completes "You are about to …". The warnings are
// the risky lines, and the details all others. The arguments bind the approval to more than
// is shown, such as the hash of a content.
func NewCommandRequest(command, summary string, warnings, details []string, changes []Change, args map[string]string) (Request, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return Request{}, err
	}
	r := Request{Origin: policy.User, Workers: []string{policy.NoWorker}, Tool: commandPrefix + command, Args: text, Summary: summary, Warnings: warnings, Details: details, Changes: changes, OnlyUser: true}
	return r, r.setDigests()
}

// IsCommand reports whether the request is about a command of the user that is no call of a
// tool.
func (r Request) IsCommand() bool { return strings.HasPrefix(r.Tool, commandPrefix) }

// setDigests sets the hashes that an approval is bound to.
func (r *Request) setDigests() error {
	type same struct {
		Workers []string
		Origin  policy.Origin
		Tool    string
		Args    json.RawMessage
		Effects []policy.Effect
	}
	call := same{r.Workers, r.Origin, r.Tool, r.Args, r.Effects}
	var err error
	if r.CallDigest, err = digest(call); err != nil {
		return err
	}
	r.Digest, err = digest(struct {
		Call     same
		Changes  []Change
		Wish     string   `json:",omitempty"`
		Warnings []string `json:",omitempty"`
		Taint    string   `json:",omitempty"`
		Problem  string
		More     int      `json:",omitempty"`
		Details  []string `json:",omitempty"`
	}{call, r.Changes, r.Summary, r.Warnings, r.Taint, r.Problem, r.MoreWarnings, r.Details})
	return err
}

// CheckDigests returns an error unless the digests of a stored request are those of its call
// and changes. Then an approval of what it shows counts for nothing else. If the store has
// omitted the content of changes, it checks only the digest of the call.
func (r Request) CheckDigests() error {
	said := r
	if err := r.setDigests(); err != nil {
		return err
	}
	if said.Digest != r.Digest && len(r.Changes) == 0 {
		r.Changes = []Change{} // in a stored request it looks like nil
		if err := r.setDigests(); err != nil {
			return err
		}
	}
	omitted := slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Omitted == OmittedStored })
	if said.CallDigest != r.CallDigest || said.Digest != r.Digest && !omitted {
		return errors.New("the request shows another call than the one it asks about; decline it, and start the run again")
	}
	return nil
}

// OmittedStored says in Change.Omitted that a store had no room for the content.
const OmittedStored = "too large to be kept with the request"

func digest(v any) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(withoutNewline{h}).Encode(v); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// withoutNewline passes on a value of a json.Encoder, which writes it at once, as
// json.Marshal would return it. Marshal copies the value, which may be large.
type withoutNewline struct{ io.Writer }

// Write implements io.Writer.
func (w withoutNewline) Write(p []byte) (int, error) {
	_, err := w.Writer.Write(bytes.TrimSuffix(p, []byte("\n")))
	return len(p), err
}
