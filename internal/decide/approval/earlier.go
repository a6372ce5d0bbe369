package approval

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// maxEarlier is how many changed paths explainEarlier lists.
const maxEarlier = 3

// explainEarlier says why an answer to the same call does not count for a request: what has
// changed since. It is "" if there is no such answer.
func (s *Requests) explainEarlier(r tool.Request, at requestScope, now time.Time) string {
	k, err := s.read()
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(k.Pending, func(w PendingRequest) bool {
		return w.CallDigest == r.CallDigest && w.Session == at.Session && (w.Digest != r.Digest || w.Policy != at.Policy || w.Expired(now))
	})
	if i < 0 || k.find(r.Digest, at) >= 0 && !k.Pending[i].Expired(now) {
		return ""
	}
	w := k.Pending[i]
	given, err := s.readAnswer(w.ID)
	if err != nil || given == nil {
		return ""
	}
	verb := "declined"
	if given.Yes {
		verb = "approved"
	}
	return "you " + verb + " this call before, but " + s.difference(w, r, at, now)
}

// difference says what is different between an earlier request and the same call now.
func (s *Requests) difference(w PendingRequest, r tool.Request, at requestScope, now time.Time) string {
	old, err := s.Request(w)
	switch {
	case w.Expired(now):
		return "an answer counts for one day"
	case w.Policy != at.Policy:
		return "the files of the program have changed since"
	case err != nil:
		return "the call has changed since"
	case old.Taint != r.Taint && r.Taint != "":
		return "the worker has read " + sandbox.Shown(r.Taint) + " since, which is untrusted"
	}
	var names []string
	add := func(list, other []tool.Change) {
		for _, c := range list {
			same := slices.ContainsFunc(other, func(o tool.Change) bool { return isSame(o, c) })
			if name := sandbox.Shown(c.Path); !same && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	add(r.Changes, old.Changes)
	add(old.Changes, r.Changes)
	if len(names) == 0 {
		return "the call has changed since"
	}
	if more := len(names) - maxEarlier; more > 0 {
		names = append(names[:maxEarlier], visible.Count(more, "more file"))
	}
	return "its change is different now: " + strings.Join(names, ", ")
}

// isSame reports whether two changes are the same as far as they are stored.
func isSame(a, b tool.Change) bool {
	one, err := json.Marshal(a)
	other, wrong := json.Marshal(b)
	return err == nil && wrong == nil && bytes.Equal(one, other)
}
