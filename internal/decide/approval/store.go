package approval

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// The stored document, and limits on what is stored.
const (
	document   = "approvals.json"
	maxPending = 256            // pending requests
	maxEach    = 64             // pending requests for one chain of workers in one session
	maxHosts   = 16             // pending requests for hosts, likewise; all have half of the places
	maxRequest = 32 << 20       // bytes of one request
	maxKept    = 256 << 20      // bytes of all requests
	maxEffects = 20             // effects of a request that are listed
	maxEffect  = 300            // characters of each
	maxAge     = 24 * time.Hour // age of a pending request
	maxRules   = 1000
)

var errOtherCall = errors.New("the rule is not about this call")

// Requests holds the pending requests and the remembered rules of a program, for all its
// processes.
type Requests struct {
	folder *state.Dir
	once   state.Once
	blobs  state.Blobs

	// UnseenOff is the line of a policy that does not allow approving what golem did not
	// show, "" for none. Requests of the store carry it.
	UnseenOff string
	// Label, if set, returns the name of a session. Requests of the store carry it.
	Label func(session string) string
	// OnPending, if set, is called after a request was stored that waits for a person.
	OnPending func()
}

// Open returns the store in a program's state directory.
func Open(folder *state.Dir) (*Requests, error) {
	once, err := folder.Once("answers")
	if err != nil {
		return nil, err
	}
	blobs, err := folder.Blobs("requests")
	if err != nil {
		return nil, err
	}
	return &Requests{folder: folder, once: once, blobs: blobs}, nil
}

// A PendingRequest is a request whose answer was not used yet.
type PendingRequest struct {
	ID         string    `json:"id"`
	Digest     string    `json:"digest"`
	CallDigest string    `json:"same"` // the digest of the call without its changes
	Workers    []string  `json:"workers"`
	Tool       string    `json:"tool"`
	Effects    []string  `json:"effects"` // shortened
	Summary    string    `json:"wish,omitempty"`
	Made       time.Time `json:"made"`
	requestScope
	Blob string `json:"blob"`           // the whole request
	Size int    `json:"size,omitempty"` // the size of the blob in bytes
	// Notified says that golem has told the user elsewhere that the request waits.
	Notified bool `json:"notified,omitempty"`
	// Answer is nil if there is none. It is not in the document.
	Answer *StoredAnswer `json:"answer,omitempty"`
}

// A requestScope says where a request was made. Its answer counts nowhere else: the same
// call in another session finds other files.
type requestScope struct {
	Policy  string `json:"policy"`
	Session string `json:"session,omitempty"`
}

// A StoredAnswer is a person's answer to a pending request.
type StoredAnswer struct {
	Yes  bool      `json:"yes"`
	By   string    `json:"by"`
	Note string    `json:"note,omitempty"`
	Made time.Time `json:"made"`
	tool.StoredSeen
	// Front, Shown and Text are those of tool.Answer.
	Front string   `json:"front,omitempty"`
	Shown []string `json:"shown,omitempty"`
	Text  string   `json:"text,omitempty"`
}

type contents struct {
	Pending []PendingRequest `json:"pending"`
	Rules   []Rule           `json:"rules"`
}

// A storedRequest is the whole of a pending request.
type storedRequest struct {
	tool.Request
	requestScope
}

func (s *Requests) read() (contents, error) {
	data, err := s.folder.Read(document)
	if err != nil {
		return contents{}, err
	}
	return parse(data)
}

func parse(data []byte) (k contents, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return k, nil
	}
	if err := errors.Join(filecontent.CheckJSON(data), json.Unmarshal(data, &k)); err != nil {
		return contents{}, fmt.Errorf("%s is damaged: %w; move it away to start again", document, err)
	}
	return k, nil
}

// update replaces the document. Only one process at a time runs do.
func (s *Requests) update(do func(k *contents) error) error {
	return s.folder.Update(document, func(old []byte) ([]byte, error) {
		k, err := parse(old)
		if err != nil {
			return nil, err
		}
		if err := do(&k); err != nil {
			return nil, err
		}
		return json.MarshalIndent(k, "", "  ")
	})
}

// addPending stores a request until it is answered and the answer is used. It stores the
// same request once.
func (s *Requests) addPending(r tool.Request, at requestScope, now time.Time) (id string, err error) {
	put := "" // the blob, if it was made
	body, err := encode(storedRequest{r, at})
	if err != nil {
		return "", err
	}
	err = s.update(func(k *contents) error {
		s.removeExpired(k, now)
		if i := k.find(r.Digest, at); i >= 0 {
			id = k.Pending[i].ID
			return nil
		}
		// The same call with other changes replaces the earlier request, which could only
		// match again if the files changed back.
		s.removeSame(k, r, at)
		own, hosts, size := 0, 0, len(body)
		isHost := r.Tool == tool.ConnectTool // a program may ask for any number of names
		for _, w := range k.Pending {
			size += w.Size
			if w.Tool == tool.ConnectTool {
				hosts++
			}
			if slices.Equal(w.Workers, r.Workers) && w.Session == at.Session && (w.Tool == tool.ConnectTool) == isHost {
				own++
			}
		}
		if len(k.Pending) >= maxPending || own >= maxEach || isHost && (own >= maxHosts || hosts >= maxPending/2) {
			return fmt.Errorf("%d requests wait already; golem approvals lists them, and golem approve --all decides about them", len(k.Pending))
		}
		if size > maxKept {
			return fmt.Errorf("the requests that wait would take %d bytes, and at most %d are allowed; golem approvals lists them", size, maxKept)
		}
		blob, err := s.blobs.Put(bytes.NewReader(body))
		if err != nil {
			return err
		}
		w := PendingRequest{ID: newID(), Digest: r.Digest, CallDigest: r.CallDigest, Workers: r.Workers, Tool: r.Tool, Made: now, requestScope: at, Blob: blob, Size: len(body)}
		w.Effects, w.Summary = summarizeEffects(r.Effects), visible.Cut(r.Summary, maxEffect)
		k.Pending = append(k.Pending, w)
		id, put = w.ID, blob
		return nil
	})
	if err != nil && put != "" {
		s.blobs.Remove(put)
	}
	if err == nil && put != "" && s.OnPending != nil {
		s.OnPending()
	}
	return id, err
}

// SetNotified records that golem has notified the user of requests.
func (s *Requests) SetNotified(ids []string) error {
	return s.update(func(k *contents) error {
		for i := range k.Pending {
			k.Pending[i].Notified = k.Pending[i].Notified || slices.Contains(ids, k.Pending[i].ID)
		}
		return nil
	})
}

// encode returns a request as it is stored. If it is too large, the content of its
// changes is omitted, so an approval must name the digest.
func encode(r storedRequest) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil || len(body) <= maxRequest {
		return body, err
	}
	r.Changes = slices.Clone(r.Changes)
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Diff != "" || len(c.Tree) > 0 {
			c.Diff, c.Tree, c.Original = "", nil, nil
			c.Omitted = tool.OmittedStored
		}
	}
	if body, err = json.Marshal(r); err == nil && len(body) > maxRequest {
		err = fmt.Errorf("it is larger than %d bytes; make it in a terminal", maxRequest)
	}
	return body, err
}

// summarizeEffects returns short texts for the document, which is read for every request.
// All effects are in the request itself.
func summarizeEffects(effects []policy.Effect) (list []string) {
	for i, e := range effects {
		if i == maxEffects {
			return append(list, fmt.Sprintf("and %d more", len(effects)-i))
		}
		list = append(list, visible.Cut(e.String(), maxEffect))
	}
	return list
}

// removeExpired removes requests that are older than maxAge.
func (s *Requests) removeExpired(k *contents, now time.Time) {
	k.Pending = slices.DeleteFunc(k.Pending, func(w PendingRequest) bool {
		old := w.Expired(now)
		if old {
			s.removeFiles(w)
		}
		return old
	})
}

// Expired reports whether a request is too old for an answer to count.
func (w PendingRequest) Expired(now time.Time) bool { return now.Sub(w.Made) > maxAge }

// ExpiredError returns the error for an answer to a request that has expired.
func (w PendingRequest) ExpiredError() error {
	return &sandbox.Error{Op: "approve", Path: w.ID, Code: sandbox.ErrNotFound,
		Hint: "it has expired: a request waits for one day; make the call again, or continue its run with golem run --resume, and golem asks again"}
}

// removeFiles removes the answer and the blob of a request. If golem is killed before,
// they are left over and never read again: IDs are not reused.
func (s *Requests) removeFiles(w PendingRequest) {
	s.once.Forget(w.ID)
	s.blobs.Remove(w.Blob)
}

// removeSame removes the requests of the same call, with any changes.
func (s *Requests) removeSame(k *contents, r tool.Request, at requestScope) {
	k.Pending = slices.DeleteFunc(k.Pending, func(w PendingRequest) bool {
		same := w.CallDigest == r.CallDigest && w.requestScope == at
		if same {
			s.removeFiles(w)
		}
		return same
	})
}

// removeAnswered removes the request of a call that was approved in another way. If that
// fails, the request stays pending until it expires.
func (s *Requests) removeAnswered(r tool.Request, at requestScope) {
	k, err := s.read()
	if err != nil || !slices.ContainsFunc(k.Pending, func(w PendingRequest) bool { return w.CallDigest == r.CallDigest && w.requestScope == at }) {
		return // the usual case, without a lock
	}
	s.update(func(k *contents) error {
		s.removeSame(k, r, at)
		return nil
	})
}

func (k *contents) find(digest string, at requestScope) int {
	return slices.IndexFunc(k.Pending, func(w PendingRequest) bool { return w.Digest == digest && w.requestScope == at })
}

// takeAnswer returns the answer to a request, if there is one, and removes the request.
// Nobody can use the answer again.
func (s *Requests) takeAnswer(r tool.Request, at requestScope, now time.Time) (a tool.Answer, ok bool, err error) {
	k, err := s.read()
	if err != nil || k.find(r.Digest, at) < 0 {
		return a, false, err // the usual case, without a lock
	}
	var used PendingRequest
	err = s.update(func(k *contents) error {
		s.removeExpired(k, now)
		i := k.find(r.Digest, at)
		if i < 0 {
			return nil
		}
		w := k.Pending[i]
		given, err := s.readAnswer(w.ID)
		if err != nil || given == nil {
			return err
		}
		a, ok = tool.Answer{By: given.By, Note: given.Note, ID: w.ID, Seen: given.For(w.Digest), Front: given.Front, Shown: given.Shown, Text: given.Text}, true
		if given.Yes {
			a.Verdict = tool.Approved
		}
		k.Pending = slices.Delete(k.Pending, i, i+1)
		used = w
		return nil
	})
	if err != nil {
		return tool.Answer{}, false, err
	}
	if ok {
		s.removeFiles(used)
	}
	return a, ok, nil
}

// readAnswer returns the answer to a request, nil if there is none.
func (s *Requests) readAnswer(id string) (*StoredAnswer, error) {
	value, ok, err := s.once.Look(id)
	if err != nil || !ok {
		return nil, err
	}
	g := &StoredAnswer{}
	if err := errors.Join(filecontent.CheckJSON(value), json.Unmarshal(value, g)); err != nil {
		return nil, fmt.Errorf("the answer to %s is damaged: %w", id, err)
	}
	return g, nil
}

// CheckAnswer returns a reply as Answer would store it. An approval that CheckSeen
// refuses is an error.
func (s *Requests) CheckAnswer(w PendingRequest, reply Reply) (tool.Answer, error) {
	if reply.Verdict != tool.Approved {
		return reply.Answer, nil
	}
	r, err := s.Request(w)
	if err != nil {
		return tool.Answer{}, err
	}
	return reply.toAnswer(r)
}

// CheckReply is CheckAnswer for a request that waits elsewhere.
func CheckReply(r tool.Request, reply Reply) (tool.Answer, error) {
	if reply.Verdict != tool.Approved {
		return reply.Answer, nil
	}
	return reply.toAnswer(r)
}

// CompleteRule completes the rule that a person chose with the answer to a pending request.
// Answer then remembers it. A rule for one run is none for a request that waits.
func (s *Requests) CompleteRule(w PendingRequest, rule Rule, now time.Time) (Rule, error) {
	r, err := s.Request(w)
	if err != nil {
		return rule, err
	}
	if rule.Scope == Run {
		return rule, errOtherCall
	}
	return rule.complete(r, w.requestScope, now)
}

// Answer stores a person's answer to a request. The first answer counts: a later one is
// an error, and so is one to a request that is not pending. If CheckSeen refuses an
// approval, Answer returns an error and the request stays pending.
func (s *Requests) Answer(id string, reply Reply, made time.Time) error {
	pending, err := s.FindPending(id)
	if err != nil {
		return err
	}
	a, err := s.CheckAnswer(pending, reply)
	if err != nil {
		return err
	}
	value, err := json.Marshal(StoredAnswer{Yes: a.Verdict == tool.Approved, By: a.By, Note: a.Note, Made: made, StoredSeen: a.Seen.Stored(), Front: a.Front, Shown: a.Shown, Text: a.Text})
	if err != nil {
		return err
	}
	old, first, err := s.once.Decide(id, value)
	if err == nil && first && reply.Keeps(a) && reply.Remember.ID != "" {
		return s.addRule(*reply.Remember)
	}
	if err != nil || first {
		return err
	}
	w := PendingRequest{ID: id, Answer: &StoredAnswer{}}
	json.Unmarshal(old, w.Answer) // an answer that cannot be read does not approve
	return w.AnsweredError()
}

// AnsweredError returns the error for a second answer to a request.
func (w PendingRequest) AnsweredError() error {
	word := "no"
	if w.Answer.Yes {
		word = "yes"
	}
	return &sandbox.Error{Op: "approve", Path: w.ID, Code: sandbox.ErrExists,
		Hint: "it was answered already: " + word + ", by " + w.Answer.By + "; the first answer counts"}
}

// FindPending returns the pending request with an ID.
func (s *Requests) FindPending(id string) (PendingRequest, error) {
	all, err := s.Pending()
	if err != nil {
		return PendingRequest{}, err
	}
	for _, w := range all {
		if w.ID == id {
			return w, nil
		}
	}
	hint := "nothing waits for an answer here; golem status --all shows what waits elsewhere"
	var names []string
	for _, w := range all {
		if w.Answer == nil {
			names = append(names, w.ID)
		}
	}
	if len(names) > 0 {
		hint = "these wait: " + strings.Join(names, ", ") + "; golem approve " + names[0] + " shows one, golem approvals lists them"
	}
	return PendingRequest{}, &sandbox.Error{Op: "approve", Path: id, Code: sandbox.ErrNotFound, Hint: hint}
}

// State says what was decided about a request.
type State string

// The states.
const (
	Waits    State = "waits"
	Approved State = "approved"
	Declined State = "declined"
	Gone     State = "gone" // the answer was used, or the request was revoked or has expired
)

// StateOf returns the state of a request. If the store cannot be read, it returns Waits.
func (s *Requests) StateOf(id string, now time.Time) State {
	all, err := s.Pending()
	if err != nil {
		return Waits
	}
	for _, w := range all {
		switch {
		case w.ID != id:
		case w.Expired(now):
			return Gone
		case w.Answer == nil:
			return Waits
		case w.Answer.Yes:
			return Approved
		default:
			return Declined
		}
	}
	return Gone
}

// isPending reports whether a request is pending. If the store cannot be read, it reports
// true.
func (s *Requests) isPending(id string) bool {
	k, err := s.read()
	return err != nil || slices.ContainsFunc(k.Pending, func(w PendingRequest) bool { return w.ID == id })
}

// Pending returns the pending requests, the oldest first. Some may have an answer that
// was not used yet.
func (s *Requests) Pending() ([]PendingRequest, error) {
	k, err := s.read()
	if err != nil {
		return nil, err
	}
	for i := range k.Pending {
		if k.Pending[i].Answer, err = s.readAnswer(k.Pending[i].ID); err != nil {
			return nil, err
		}
	}
	return k.Pending, nil
}

// Request returns the whole of a pending request.
func (s *Requests) Request(w PendingRequest) (tool.Request, error) {
	var r storedRequest
	body, err := s.blobs.Get(w.Blob, maxRequest)
	if err == nil {
		err = errors.Join(filecontent.CheckJSON(body), json.Unmarshal(body, &r))
	}
	r.UnseenOff, r.SessionLabel = s.UnseenOff, w.Session
	if s.Label != nil && w.Session != "" {
		r.SessionLabel = s.Label(w.Session)
	}
	return r.Request, err
}

// Rules returns all stored rules, also those that have expired.
func (s *Requests) Rules() ([]Rule, error) {
	k, err := s.read()
	return k.Rules, err
}

func (s *Requests) addRule(r Rule) error {
	return s.update(func(k *contents) error {
		k.Rules = slices.DeleteFunc(k.Rules, func(old Rule) bool { return !old.Expires.IsZero() && old.Expires.Before(r.Made) })
		if len(k.Rules) >= maxRules {
			return fmt.Errorf("there are %d rules already; delete some with golem approvals revoke", maxRules)
		}
		k.Rules = append(k.Rules, r)
		return nil
	})
}

// Describe returns a text about a rule or a pending request.
func (s *Requests) Describe(id string) (string, error) {
	k, err := s.read()
	if err != nil {
		return "", err
	}
	for _, r := range k.Rules {
		if r.ID == id {
			return "rule " + id + ": " + r.String(), nil
		}
	}
	for _, w := range k.Pending {
		if w.ID == id {
			return "request " + id, nil
		}
	}
	return "", &sandbox.Error{Op: "revoke", Path: id, Code: sandbox.ErrNotFound, Hint: "golem approvals lists rules and requests"}
}

// Revoke removes a rule or a pending request.
func (s *Requests) Revoke(id string) error {
	return s.update(func(k *contents) error {
		if i := slices.IndexFunc(k.Rules, func(r Rule) bool { return r.ID == id }); i >= 0 {
			k.Rules = slices.Delete(k.Rules, i, i+1)
			return nil
		}
		if i := slices.IndexFunc(k.Pending, func(w PendingRequest) bool { return w.ID == id }); i >= 0 {
			s.removeFiles(k.Pending[i])
			k.Pending = slices.Delete(k.Pending, i, i+1)
			return nil
		}
		return &sandbox.Error{Op: "revoke", Path: id, Code: sandbox.ErrNotFound, Hint: "golem approvals lists rules and requests"}
	})
}

// Forget removes all rules and all answers. Requests that had an answer wait again.
func (s *Requests) Forget() error {
	return s.update(func(k *contents) error {
		k.Rules = nil
		for _, w := range k.Pending {
			if err := s.once.Forget(w.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// newID returns a short random ID that a person can type.
func newID() string { return strings.ToLower(rand.Text()[:8]) }
