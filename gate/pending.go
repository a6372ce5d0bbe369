package gate

import (
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// minKey is the minimum length of Gate.Key.
const minKey = 16

// MarshalBinary returns the Seen with its seal, to be stored. It needs [Gate.Key].
func (s Seen) MarshalBinary() ([]byte, error) { return enclose(s.key, "seen", s.sealed) }

// A Pending is a call that waits for a decision.
type Pending struct {
	request Request
	origin  Origin
	call    Call
	place   string // the gate at which it was made
}

// sealedPending is a Pending as it is stored.
type sealedPending struct {
	ID      string       `json:"id"`
	Origin  Origin       `json:"origin"`
	Call    Call         `json:"call"`
	Place   string       `json:"place"`
	Request tool.Request `json:"request"`
}

// Request returns the request, to be rendered and decided about.
func (p Pending) Request() Request { return p.request }

// MarshalBinary returns the Pending with its seal, to be stored. It needs [Gate.Key]. It has the
// arguments and the changes of the call in plain text.
func (p Pending) MarshalBinary() ([]byte, error) {
	return enclose(p.request.storeKey(), "pending", sealedPending{p.request.id, p.origin, p.call, p.place, p.request.inner})
}

// envelope is a value with its seal.
type envelope struct {
	Value json.RawMessage `json:"value"`
	Seal  string          `json:"seal"`
}

// enclose returns a value as JSON with its seal.
func enclose(key []byte, kind string, value any) ([]byte, error) {
	if len(key) < minKey {
		return nil, &sandbox.Error{Op: "store", Code: ErrSeal, Hint: "set Gate.Key to at least 16 random bytes, and keep them"}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{text, hex.EncodeToString(seal(key, kind, string(text)))})
}

// disclose reads what enclose has returned, if the seal is right.
func disclose(key []byte, kind string, data []byte, into any) error {
	wrong := &sandbox.Error{Op: "open", Code: ErrSeal, Hint: "it was changed, or sealed with another key"}
	if len(key) < minKey {
		wrong.Hint = "set Gate.Key to the key with which it was stored"
		return wrong
	}
	var e envelope
	if json.Unmarshal(data, &e) != nil || !hmac.Equal([]byte(e.Seal), []byte(hex.EncodeToString(seal(key, kind, string(e.Value))))) {
		return wrong
	}
	return json.Unmarshal(e.Value, into)
}
