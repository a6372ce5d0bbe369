package inbox

import (
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// ReadCall returns a call that waits, and what it asks for.
func ReadCall(o program.Options, key, id string) (Call, tool.Request, error) {
	p, err := OpenProgram(o, key)
	if err != nil {
		return Call{}, tool.Request{}, err
	}
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return Call{}, tool.Request{}, err
	}
	defer records.Close()
	w, err := records.Approvals.FindPending(id)
	if err == nil {
		err = records.CheckPending(w)
	}
	if err != nil {
		return Call{}, tool.Request{}, err
	}
	r, err := records.Approvals.Request(w)
	return Call{w, p}, r, err
}

// AnswerCall answers a call that waits. The reply counts only for the content that was
// shown: it is refused if the call has another digest now.
func AnswerCall(c Call, shown tool.Request, reply approval.Reply, secrets []string) error {
	records, err := c.Program.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	w, err := records.Approvals.FindPending(c.ID)
	if err != nil {
		return err
	}
	now, err := records.Approvals.Request(w)
	if err != nil {
		return err
	}
	if w.Digest != shown.Digest || now.Digest != shown.Digest {
		return &sandbox.Error{Op: "approve", Path: c.ID, Code: sandbox.ErrConflict, Hint: "the call changed since it was shown; look at it again"}
	}
	return records.Answer(c.ID, reply, secrets)
}

// StagedItems returns the staged commits of a program, the riskiest first.
func StagedItems(p *program.Program) ([]Item, error) {
	if !p.Storage.Exists() {
		return nil, nil
	}
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return nil, err
	}
	staged, err := records.Staged()
	records.Close()
	var items []Item
	for _, id := range staged {
		items = append(items, commitItem(Commit{id, p}, string(p.Root())))
	}
	sortItems(items)
	return items, err
}
