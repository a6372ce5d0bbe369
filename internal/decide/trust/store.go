package trust

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// Decisions keeps the content of one program that the user has trusted.
type Decisions struct {
	State    string // the program's state directory
	Root     string // the program's directory
	Accepted string // the hash that the user trusts for this call, "" for none
	// UnseenOff is the line of a policy that does not allow trusting a hash without a look at
	// the content, "" for none. Then Accepted counts only if the user trusts that content
	// anyway.
	UnseenOff string
	File      string // the file with the records, "" for that of a program
	Now       func() time.Time
}

// recordsFile holds the records of a program, newest last.
const recordsFile = "trust.json"

// IsRecord reports whether a file of a state directory holds records of trust.
func IsRecord(name string) bool {
	return strings.HasPrefix(name, "trust") && strings.HasSuffix(name, ".json")
}

// file returns the name of the file with the records.
func (s Decisions) file() string { return cmp.Or(s.File, recordsFile) }

// maxRecords is how many records are kept.
const maxRecords = 20

type decision struct {
	Hash  string            `json:"hash"`
	Time  time.Time         `json:"time"`
	Root  string            `json:"root"`
	Files map[string]string `json:"files,omitempty"`
}

// IsTrusted reports whether the user trusts this content.
func (s Decisions) IsTrusted(c Content) (bool, error) {
	switch {
	case s.Accepted == "":
	case s.Accepted == c.Hash && s.UnseenOff == "":
		return true, nil
	case s.Accepted == c.Hash:
	default:
		return false, &sandbox.Error{Op: "trust", Code: "untrusted",
			Hint: "--trust names other content than this program's; look at it with golem trust"}
	}
	records, err := s.records()
	trusted := slices.ContainsFunc(records, func(r decision) bool { return r.Hash == c.Hash })
	if err == nil && !trusted && s.Accepted != "" {
		err = &sandbox.Error{Op: "trust", Code: "blocked",
			Hint: visible.Text(s.UnseenOff) + " does not allow --trust: you have not looked at this content with golem trust; run golem trust at a terminal, and then this command without --trust"}
	}
	return trusted, err
}

// records returns the records. It makes no state directory if there is none.
func (s Decisions) records() ([]decision, error) {
	if _, err := os.Lstat(s.State); err != nil {
		return nil, nil
	}
	folder, err := state.Open(s.State)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	data, err := folder.Read(s.file())
	if err != nil {
		return nil, err
	}
	return parseRecords(data)
}

func parseRecords(data []byte) ([]decision, error) {
	var records []decision
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &records); err != nil {
		return nil, fmt.Errorf("the record of what you trust is damaged: %w; move %s away and trust again", err, recordsFile)
	}
	return records, nil
}

// Add records that the user trusts this content.
func (s Decisions) Add(c Content) error {
	if c.Hash == "" {
		return nil
	}
	folder, err := state.Open(s.State)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Update(s.file(), func(old []byte) ([]byte, error) {
		records, err := parseRecords(old)
		if err != nil {
			return nil, err
		}
		records = slices.DeleteFunc(records, func(r decision) bool { return r.Hash == c.Hash })
		for i := range records {
			records[i].Files = nil // Diff compares with the newest record only
		}
		records = append(records, decision{c.Hash, s.Now(), s.Root, c.Files})
		return json.MarshalIndent(records[max(0, len(records)-maxRecords):], "", "\t")
	})
}

// A Difference is a file that differs from the newest trusted content.
type Difference struct {
	Name     string
	Had, Has bool   // the trusted content had the file, and this content has it
	Diff     string // in the unified format
}

// Differences returns the files that differ from the newest trusted content. There are none
// if nothing was trusted yet.
func (s Decisions) Differences(c Content) ([]Difference, error) {
	records, err := s.records()
	if err != nil || len(records) == 0 {
		return nil, err
	}
	last := records[len(records)-1]
	names := slices.Concat(c.names(), Content{Files: last.Files}.names())
	slices.Sort(names)
	var list []Difference
	for _, name := range slices.Compact(names) {
		before, had := last.Files[name]
		now, has := c.Files[name]
		if had != has || before != now {
			list = append(list, Difference{name, had, has, patch.Unified(visible.Quote(name), visible.Quote(name), before, now)})
		}
	}
	return list, nil
}
