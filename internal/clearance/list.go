package clearance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// The name of the document, and limits.
const (
	document   = "staged.json"
	maxStaged  = 1000      // waiting commits
	maxPushed  = 1000      // pushed commits that are remembered
	maxContent = 256 << 20 // bytes of one stored commit
)

// A phase is the state of a staged commit.
type phase string

const (
	waits   phase = "staged"
	pushing phase = "pushing" // begun, and perhaps finished
	pushed  phase = "pushed"
)

// An entry is a staged commit in the document.
type entry struct {
	ID     string      `json:"id"`
	Phase  phase       `json:"phase"`
	Commit git.Hash    `json:"commit"`
	Result *PushResult `json:"result,omitempty"`
	Shown  bool        `json:"shown,omitempty"` // the user has seen all of it
}

// A PushResult names the pushed commit and where to see it.
type PushResult struct {
	CommitSHA string `json:"commitSha"`
	URL       string `json:"url"`
}

// A stagedList keeps the staged commits of a program on the disk: each in a blob, and
// their states in one document.
type stagedList struct {
	folder *state.Dir
	blobs  state.Blobs
}

// keep writes a staged commit to the disk, and its ID to the document.
func (l stagedList) keep(c *StagedCommit) error {
	data, err := pack(c)
	if err != nil {
		return err
	}
	if c.ID, err = l.blobs.Put(bytes.NewReader(data)); err != nil {
		return err
	}
	return l.update(func(list []entry) ([]entry, error) {
		if slices.ContainsFunc(list, func(e entry) bool { return e.ID == c.ID }) {
			return list, nil
		}
		if waiting(list) >= maxStaged {
			return nil, &sandbox.Error{Op: "stage", Code: sandbox.ErrLimit, Hint: fmt.Sprintf("%d commits wait already; push or discard some", maxStaged)}
		}
		return append(list, entry{ID: c.ID, Phase: waits, Commit: c.Commit}), nil
	})
}

func waiting(list []entry) (n int) {
	for _, e := range list {
		if e.Phase != pushed {
			n++
		}
	}
	return n
}

// update changes the document.
func (l stagedList) update(change func([]entry) ([]entry, error)) error {
	return l.folder.Update(document, func(old []byte) ([]byte, error) {
		list, err := entries(old)
		if err != nil {
			return nil, err
		}
		if list, err = change(list); err != nil {
			return nil, err
		}
		for over := len(list) - waiting(list) - maxPushed; over > 0; over-- {
			i := slices.IndexFunc(list, func(e entry) bool { return e.Phase == pushed })
			list = slices.Delete(list, i, i+1)
		}
		return json.Marshal(list)
	})
}

// MarkShown records that the user has seen all of a staged commit, by its full ID.
func (l stagedList) MarkShown(id string) error {
	return l.update(func(list []entry) ([]entry, error) {
		for i := range list {
			if list[i].ID == id {
				list[i].Shown = true
			}
		}
		return list, nil
	})
}

// WasShown reports whether the user has seen all of a staged commit, by its full ID.
func (l stagedList) WasShown(id string) (bool, error) {
	list, err := l.list()
	return slices.ContainsFunc(list, func(e entry) bool { return e.ID == id && e.Shown }), err
}

func entries(data []byte) (list []entry, err error) {
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, damaged(document)
	}
	return list, nil
}

// damaged returns the error for a document that cannot be read.
func damaged(name string) error {
	return &sandbox.Error{Op: "staged", Code: sandbox.ErrInternal, Hint: name + " in the state directory is damaged; move it away to start again"}
}

// list returns the entries of the document.
func (l stagedList) list() ([]entry, error) {
	data, err := l.folder.Read(document)
	if err != nil {
		return nil, err
	}
	return entries(data)
}

// Waiting returns the IDs of the waiting commits in a state directory.
func Waiting(folder *state.Dir) ([]string, error) {
	data, err := folder.Read(document)
	if err != nil {
		return nil, err
	}
	list, err := entries(data)
	var ids []string
	for _, e := range list {
		if e.Phase != pushed {
			ids = append(ids, e.ID)
		}
	}
	return ids, err
}

// ReadStaged returns a staged commit in a state directory, by its full ID.
func ReadStaged(folder *state.Dir, id string) (*StagedCommit, error) {
	blobs, err := folder.Blobs("staged")
	if err != nil {
		return nil, err
	}
	return stagedList{folder, blobs}.read(id)
}

// List returns the waiting commits, in the order in which they were staged.
func (l stagedList) List() ([]*StagedCommit, error) {
	list, err := l.list()
	if err != nil {
		return nil, err
	}
	var all []*StagedCommit
	for _, e := range list {
		if e.Phase == pushed {
			continue
		}
		c, err := l.read(e.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Get returns the waiting commit with an ID or a prefix of one. An empty ID means the
// only waiting commit.
func (l stagedList) Get(id string) (*StagedCommit, error) {
	e, err := l.find(id, false)
	if err != nil {
		return nil, err
	}
	return l.read(e.ID)
}

// minPrefix is the shortest prefix of an ID that names a commit.
const minPrefix = 6

// find returns the entry for an ID or prefix. It finds pushed commits only if done is
// set.
func (l stagedList) find(id string, done bool) (entry, error) {
	list, err := l.list()
	if err != nil {
		return entry{}, err
	}
	var fits []entry
	var ids []string
	for _, e := range list {
		if e.Phase != pushed {
			ids = append(ids, e.ID[:min(12, len(e.ID))])
		}
		switch {
		case id == "" && e.Phase != pushed, id == e.ID && (done || e.Phase != pushed),
			len(id) >= minPrefix && strings.HasPrefix(e.ID, id) && (done || e.Phase != pushed):
			fits = append(fits, e)
		}
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	hint := "nothing is staged; stage something first"
	if len(ids) > 0 {
		hint = fmt.Sprintf("staged are %s; name one, or at least %d characters of it", strings.Join(ids[:min(len(ids), 20)], ", "), minPrefix)
	}
	return entry{}, &sandbox.Error{Op: "staged", Path: id, Code: sandbox.ErrNotFound, Hint: hint}
}

// read returns a staged commit. It is an error if the stored text was changed, because
// then it no longer matches the ID.
func (l stagedList) read(id string) (*StagedCommit, error) {
	data, err := l.blobs.Get(id, maxContent)
	if err != nil {
		return nil, err
	}
	return unpack(data, id)
}

// mark records the phase of a commit.
func (l stagedList) mark(c *StagedCommit, to phase, result *PushResult) error {
	return l.update(func(list []entry) ([]entry, error) {
		for i := range list {
			if list[i].ID == c.ID {
				list[i].Phase, list[i].Result = to, result
				return list, nil
			}
		}
		return nil, &sandbox.Error{Op: "push", Path: c.ID[:12], Code: sandbox.ErrNotFound, Hint: "it was discarded meanwhile"}
	})
}
