package audit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/records/state"
)

// minDigest is how many digits of a digest choose a record.
const minDigest = 8

// Related returns the records about one decision, in order. The id is the number of a
// record, or the id of a call or of a request, or the start of a digest. The records of
// the same call and of the same request belong to the decision.
func Related(folder *state.Dir, id string) ([]Record, error) {
	calls, requests := make(map[string]bool), make(map[string]bool)
	var named []Record
	err := Read(folder, Filter{}, func(r Record, _ []byte) error {
		if id != "" && (strconv.FormatUint(r.Number, 10) == id || r.Call == id || r.Request == id || len(id) >= minDigest && strings.HasPrefix(r.Digest, strings.ToLower(id))) {
			calls[r.Call], requests[r.Request] = true, true
			named = append(named, r)
		}
		return nil
	})
	delete(calls, "")
	delete(requests, "")
	if err != nil || len(calls) == 0 && len(requests) == 0 {
		return named, err
	}
	var list []Record
	err = Read(folder, Filter{}, func(r Record, _ []byte) error {
		if calls[r.Call] || requests[r.Request] || slices.ContainsFunc(named, func(n Record) bool { return n.Number == r.Number }) {
			list = append(list, r)
			// The outcome of a call that used the answer has only the call.
			if r.Call != "" {
				calls[r.Call] = true
			}
		}
		return nil
	})
	return list, err
}

// RelatedToPath returns the records of the last calls with effects on a path or below it,
// at most the given number of calls, with the answers to their requests.
func RelatedToPath(folder *state.Dir, name string, most int) ([]Record, error) {
	var numbers []uint64
	f := Filter{Path: name}
	err := Read(folder, f, func(r Record, _ []byte) error {
		if slices.ContainsFunc(r.Effects, f.onPath) {
			numbers = append(numbers, r.Number)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	known := make(map[uint64]bool)
	var list []Record
	for _, n := range numbers[max(0, len(numbers)-most):] {
		related, err := Related(folder, strconv.FormatUint(n, 10))
		if err != nil {
			return nil, err
		}
		for _, r := range related {
			if !known[r.Number] {
				known[r.Number], list = true, append(list, r)
			}
		}
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	return list, nil
}
