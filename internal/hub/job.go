package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Spec is what a submitter asks for. It is signed and never changes.
type Spec struct {
	ID        string    `json:"id"`
	Hub       string    `json:"hub"`  // the key of the hub it is for
	User      string    `json:"user"` // the key of the submitter
	Name      string    `json:"name"` // of the program, for people
	Trust     string    `json:"trust"`
	Entry     string    `json:"entry,omitempty"`
	Input     string    `json:"input,omitempty"`
	Attached  []string  `json:"attached,omitempty"` // files of the program
	Model     string    `json:"model,omitempty"`
	Files     string    `json:"files"` // the hash of the list of the program's files
	Labels    []string  `json:"labels,omitempty"`
	Approvers []string  `json:"approvers"` // the keys whose decisions count
	Created   time.Time `json:"created"`
}

// A Signed is a text with the signature of its writer. The text is kept byte for byte.
type Signed struct {
	Text      []byte `json:"text"`
	Signature []byte `json:"signature"`
}

// sign signs a value of a kind, so that no signature can be used for another kind.
func sign(c Credentials, kind string, value any) (Signed, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return Signed{}, err
	}
	signature, err := c.Sign(append([]byte(kind+"\n"), text...))
	return Signed{text, signature}, err
}

func (s Signed) open(kind, public string, value any) error {
	if err := Verify(public, append([]byte(kind+"\n"), s.Text...), s.Signature); err != nil {
		return err
	}
	return json.Unmarshal(s.Text, value)
}

// SignSpec signs what a submitter asks for.
func SignSpec(c Credentials, s Spec) (Signed, error) { return sign(c, "golem job", s) }

// OpenSpec returns a spec whose signature is of the user that it names.
func OpenSpec(s Signed) (spec Spec, err error) {
	var said Spec
	if err := json.Unmarshal(s.Text, &said); err != nil {
		return spec, fmt.Errorf("the job cannot be read: %w", err)
	}
	if err := s.open("golem job", said.User, &spec); err != nil {
		return spec, err
	}
	return spec, spec.check()
}

// IsHash reports whether a text is a hexadecimal SHA-256.
func IsHash(text string) bool {
	return isPlain(text, 64, 64, "") && !strings.ContainsFunc(text, func(r rune) bool { return r > 'f' })
}

// HashOf returns the hexadecimal SHA-256 of data.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (s Spec) check() error {
	labels, err := CheckLabels(s.Labels)
	switch {
	case !isPlain(s.ID, 8, 32, ""):
		return fmt.Errorf("%.40q is no id of a job", s.ID)
	case !IsHash(s.Files) || !IsHash(s.Trust):
		return errors.New("the job does not name its files by their hash")
	case err != nil:
		return err
	case !slices.Equal(labels, s.Labels):
		return errors.New("the labels of a job are sorted")
	}
	return nil
}

// A State says where a job is.
type State string

// The states of a job.
const (
	Queued    State = "queued"
	Running   State = "running"
	Waiting   State = "waiting"  // for a decision; no node works on it
	InDoubt   State = "in doubt" // a call may have had its effect; a person decides
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// IsOver reports whether nothing more happens to a job, unless a person retries it.
func (s State) IsOver() bool { return s == Done || s == Failed || s == Cancelled }

// A Job is what a hub knows about a job.
type Job struct {
	Spec    Signed    `json:"spec"`
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Trust   string    `json:"trust"`            // the hash of the program's content
	Labels  []string  `json:"labels,omitempty"` // only in lists, which have no spec
	Input   string    `json:"input,omitempty"`  // its first line
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	Changed time.Time `json:"changed"`

	Attempt int    `json:"attempt"`           // the number of the attempt that may work on it
	Node    string `json:"node,omitempty"`    // the key of the node of this attempt
	Turn    int    `json:"turn"`              // how often it was queued
	Receipt string `json:"receipt,omitempty"` // of the task that the node holds

	Files      string    `json:"files"`                // the hash of the list of files to begin with
	Checkpoint string    `json:"checkpoint,omitempty"` // the hash of the list of files to continue with
	Journal    Head      `json:"journal,omitzero"`
	Taint      string    `json:"taint,omitempty"` // the untrusted input that it has read; no node can take it back
	Requests   []Request `json:"requests,omitempty"`
	Doubts     []Doubt   `json:"doubts,omitempty"`
	Cancel     bool      `json:"cancel,omitempty"`  // the node shall stop
	Removed    bool      `json:"removed,omitempty"` // the hub removes it, with its files
	Events     uint64    `json:"events,omitempty"`  // how many there are, for a node that takes it
	Result     Result    `json:"result,omitzero"`
}

// A Head is how the journal of a job ends. It never gets shorter.
type Head struct {
	Count uint64 `json:"count"`
	Hash  string `json:"hash"`
}

// A Result is how an attempt ended.
type Result struct {
	Session string  `json:"session,omitempty"`
	Answer  string  `json:"answer,omitempty"`
	Why     string  `json:"why,omitempty"` // why it is not done
	Dollars float64 `json:"dollars,omitempty"`
	// Unpriced says that some usage has no known price, so Dollars is only a part.
	Unpriced bool  `json:"unpriced,omitempty"`
	Tokens   int64 `json:"tokens,omitempty"`
	Calls    int64 `json:"calls,omitempty"`
}

// A Request is a call that waits for a decision.
type Request struct {
	ID      string    `json:"id"`
	Hash    string    `json:"hash"`   // of the whole request, as a content of the job
	Digest  string    `json:"digest"` // of the call
	Tool    string    `json:"tool"`
	Since   time.Time `json:"since"`
	Decided *Signed   `json:"decided,omitempty"`
}

// A Doubt is a call that an earlier attempt began, and whose result nobody knows.
type Doubt struct {
	Call    string `json:"call"`
	Tool    string `json:"tool,omitempty"`
	Attempt int    `json:"attempt"`         // that began it
	Again   bool   `json:"again,omitempty"` // a person said that it may be made again
}

// A Decision answers a request. It counts for exactly the request whose hash it names.
type Decision struct {
	Hub     string    `json:"hub"`
	Job     string    `json:"job"`
	Request string    `json:"request"`
	Hash    string    `json:"hash"` // of the whole request, as it was shown
	By      string    `json:"by"`   // the key of the approver
	Name    string    `json:"name"` // of the approver
	Reply   Reply     `json:"reply"`
	Time    time.Time `json:"time"`
}

// A Reply is the answer of a person, with what was on the screen.
type Reply struct {
	Yes          bool     `json:"yes"`
	Note         string   `json:"note,omitempty"`
	Rendered     []string `json:"rendered,omitempty"`     // the items of the request that were shown completely
	DigestPrefix string   `json:"digestPrefix,omitempty"` // what the person typed of the digest
	Front        string   `json:"front,omitempty"`        // where the person answered
}

// SignDecision signs a decision.
func SignDecision(c Credentials, d Decision) (Signed, error) { return sign(c, "golem decision", d) }

// OpenDecision returns a decision about a request of a job, if its signature is of an approver
// that the job names.
func OpenDecision(s Signed, spec Spec, request Request) (d Decision, err error) {
	var said Decision
	if err := json.Unmarshal(s.Text, &said); err != nil {
		return d, fmt.Errorf("the decision cannot be read: %w", err)
	}
	if !slices.Contains(spec.Approvers, said.By) {
		return d, fmt.Errorf("%s is no approver of job %s", Short(said.By), spec.ID)
	}
	if err := s.open("golem decision", said.By, &d); err != nil {
		return Decision{}, err
	}
	if d.Hub != spec.Hub || d.Job != spec.ID || d.Request != request.ID || d.Hash != request.Hash {
		return Decision{}, errors.New("the decision is about another request; look at it again")
	}
	return d, nil
}

// A User is somebody who may use a hub.
type User struct {
	Key     string    `json:"key"`
	Role    Role      `json:"role"`
	Name    string    `json:"name"`
	Invited time.Time `json:"invited"`
	Revoked bool      `json:"revoked,omitempty"`
}
