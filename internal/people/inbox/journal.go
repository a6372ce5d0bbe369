package inbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// A JournalRecord is a record with the program that it is about, in the form of
// golem audit show --json.
type JournalRecord struct {
	Program string `json:"program"`
	audit.Record
	Key  string `json:"-"` // see Key
	Line []byte `json:"-"` // the record as it is in the journal
}

// ReadJournals returns the records that a filter chooses, of the program with a key or of
// all programs if it is "", sorted by time. last limits their number to the last ones; 0 is
// no limit. A journal that cannot be read does not hide the others: it is a problem.
func ReadJournals(o program.Options, key string, f audit.Filter, last int) (list []JournalRecord, problems []Problem, err error) {
	err = eachJournal(o, key, func(j inventory.Journal, folder *state.Dir, wrong error) {
		add := func(r audit.Record, line []byte) error {
			list = append(list, JournalRecord{j.Program, r, filepath.Base(string(j.State)), slices.Clone(line)})
			return nil
		}
		if wrong == nil && last > 0 {
			wrong = audit.Last(folder, f, last, add)
		} else if wrong == nil {
			wrong = audit.Read(folder, f, add)
		}
		if wrong != nil {
			problems = append(problems, Problem{visible.Text(j.Program), firstLine(wrong)})
		}
	})
	slices.SortStableFunc(list, func(a, b JournalRecord) int { return a.Time.Compare(b.Time) })
	if last > 0 && len(list) > last {
		list = list[len(list)-last:]
	}
	return list, problems, err
}

// eachJournal opens the journal of the program with a key, or each if it is "".
func eachJournal(o program.Options, key string, yield func(inventory.Journal, *state.Dir, error)) error {
	journals, err := inventory.Journals(o.StateBase())
	for _, j := range journals {
		if key != "" && filepath.Base(string(j.State)) != key {
			continue
		}
		folder, wrong := state.Open(string(j.State))
		yield(j, folder, wrong)
		if wrong == nil {
			folder.Close()
		}
	}
	return err
}

// OpenJournal opens the journal of the program or hub with a key.
func OpenJournal(o program.Options, key string) (folder *state.Dir, err error) {
	journals, err := inventory.Journals(o.StateBase())
	for _, j := range journals {
		if filepath.Base(string(j.State)) == key {
			return state.Open(string(j.State))
		}
	}
	if err == nil {
		err = &sandbox.Error{Op: "journal", Path: key, Code: sandbox.ErrNotFound, Hint: "golem keeps no journal with this name; golem audit show --all lists the records of all"}
	}
	return nil, err
}

// HubKey returns the key of the journal with the user's decisions at a hub.
func HubKey(c *hub.Client) string { return inventory.HubStateName(c.Hub) }

// IsHubKey reports whether a key is that of the decisions at a hub.
func IsHubKey(key string) bool { return strings.HasSuffix(key, inventory.HubSuffix) }

// UserDecision returns the records of the user's decision at a hub or about a device, with the id
// of a call or device, and the directory of their journal. The directory is nil if there are none.
func UserDecision(o program.Options, id string) (*state.Dir, []audit.Record, error) {
	journals, err := inventory.Journals(o.StateBase())
	for _, j := range journals {
		if key := filepath.Base(string(j.State)); !IsHubKey(key) && key != inventory.DevicesName {
			continue
		}
		folder, err := state.Open(string(j.State))
		if err != nil {
			return nil, nil, err
		}
		list, err := audit.Related(folder, id)
		if err == nil && len(list) > 0 {
			return folder, list, nil
		}
		if err = errors.Join(err, folder.Close()); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, err
}

// A JournalState says whether the journal of a program is whole.
type JournalState struct {
	Key, Program string
	Report       audit.Report
	Problem      string // why golem cannot tell, "" if it can
}

// VerifyJournals verifies the journal of the program with a key, or of all if it is "".
func VerifyJournals(ctx context.Context, o program.Options, key string) (list []JournalState, err error) {
	err = eachJournal(o, key, func(j inventory.Journal, folder *state.Dir, wrong error) {
		one := JournalState{Key: filepath.Base(string(j.State)), Program: visible.Text(j.Program)}
		if wrong == nil {
			one.Report, wrong = audit.Verify(ctx, folder, nil)
		}
		if wrong != nil {
			one.Problem = firstLine(wrong)
		}
		list = append(list, one)
	})
	return list, err
}
