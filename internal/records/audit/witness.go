package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// witnessName is the document that remembers, next to the journal, that there is one.
const witnessName = "clock.json"

// A witness records which journal a directory had first, and the latest known time.
type witness struct {
	Journal string    `json:"journal"` // a name derived from its key, which stays secret
	Latest  time.Time `json:"latest"`
}

func readWitness(data []byte) (w witness, err error) {
	if data == nil {
		return w, nil
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return w, fmt.Errorf("%s: %w; it is damaged: move it away", witnessName, sandbox.ErrInvalid)
	}
	return w, nil
}

// name returns a name for a key that does not reveal it.
func (k key) name() string {
	sum := sha256.Sum256(append([]byte("journal "), k[:]...))
	return hex.EncodeToString(sum[:8])
}

// Witness records that a directory has a journal. It returns the latest known time: now,
// the time of the last record, or an earlier result. It does not go back if the clock is
// set back.
func Witness(folder *state.Dir, now time.Time) (time.Time, error) {
	k, ok, err := readKey(folder)
	if err != nil || !ok {
		return now, err
	}
	latest := now.UTC()
	// Verify reports a damaged journal.
	_ = Last(folder, Filter{}, 1, func(r Record, _ []byte) error {
		if r.Time.After(latest) {
			latest = r.Time
		}
		return nil
	})
	data, err := folder.Read(witnessName)
	if err != nil {
		return now, err
	}
	w, err := readWitness(data)
	if err != nil {
		return now, err
	}
	if w.Latest.After(latest) {
		latest = w.Latest
	}
	const step = time.Minute // to write each time would cost too much
	if w.Journal != "" && latest.Sub(w.Latest) < step {
		return latest, nil
	}
	return latest, folder.Update(witnessName, func(old []byte) ([]byte, error) {
		w, err := readWitness(old)
		if err != nil {
			return nil, err
		}
		if w.Journal == "" {
			w.Journal = k.name()
		}
		if latest.After(w.Latest) {
			w.Latest = latest
		}
		return json.Marshal(w)
	})
}

// gone returns an error if a directory had a journal and has none now.
func gone(folder *state.Dir) error {
	if _, ok, err := readKey(folder); ok || err != nil {
		return nil // the journal exists
	}
	what, err := missing(folder)
	if err == nil && what != "" {
		err = fmt.Errorf("journal: %w; %s", sandbox.ErrNotFound, what)
	}
	return err
}

// missing describes what is wrong if the directory's journal is gone or another one, ""
// if nothing is.
func missing(folder *state.Dir) (string, error) {
	data, err := folder.Read(witnessName)
	if err != nil {
		return "", err
	}
	w, err := readWitness(data)
	if err != nil || w.Journal == "" {
		return "", err
	}
	k, ok, err := readKey(folder)
	seen := w.Latest.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "the journal is missing: its files were deleted or moved, and golem wrote to it as late as " + seen + "; put them back, or move " + witnessName + " away as well to begin a new one", nil
	case k.name() != w.Journal:
		return "this is another journal than the one that was here first: that one was deleted or moved; put it back, or move " + witnessName + " away to accept this one", nil
	}
	return "", nil
}
