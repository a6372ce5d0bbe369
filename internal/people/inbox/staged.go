package inbox

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// ReadStaged lets the scanners look at a staged commit of a program, and returns it with what
// they found. It calls git_diff as the user, so the journal has a record of it.
func ReadStaged(ctx context.Context, p *program.Program, id string, secrets []string) (*clearance.StagedCommit, *git.CommitView, error) {
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return nil, nil, err
	}
	staged, err := records.StagedCommit(id)
	records.Close()
	if err == nil {
		err = p.CheckTrust()
	}
	if err != nil {
		return nil, nil, err
	}
	gate, err := p.OpenWorker(program.WorkerOptions{Secrets: secrets, SingleCall: true, Tools: []string{"git_diff"}})
	if err != nil {
		return nil, nil, err
	}
	defer gate.Close()
	args, err := json.Marshal(map[string]string{"commitId": id})
	if err != nil {
		return nil, nil, err
	}
	r := gate.Do(ctx, policy.User, tool.Call{Tool: "git_diff", Args: args})
	if r.Err != nil {
		return nil, nil, r.Err
	}
	look, ok := r.Data.(*git.CommitView)
	if !ok {
		return nil, nil, &sandbox.Error{Op: "review", Path: id, Code: sandbox.ErrNotFound, Hint: "it was pushed or discarded; golem review lists the commits that wait"}
	}
	return staged, look, nil
}

// heldBack lets the scanners look at a staged commit, and returns the names of those that
// hold it back, and how many files. The journal has no record of it, because nobody sees more.
func heldBack(ctx context.Context, p *program.Program, id string) (by []string, files int, err error) {
	if err := p.CheckTrust(); err != nil {
		return nil, 0, err
	}
	r, err := p.Storage.OpenRecords()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	staged, err := r.StagedCommit(id)
	if err != nil {
		return nil, 0, err
	}
	d := p.NewRepositories(r, nil)
	defer d.Close()
	desk, err := d.Open(ctx)
	if err != nil {
		return nil, 0, err
	}
	scanners, err := d.Scanners()
	if err != nil {
		return nil, 0, err
	}
	look, err := desk.Examine(ctx, staged, 0, scanners)
	if err != nil {
		return nil, 0, err
	}
	findings := look.Message
	for _, v := range look.Held() {
		files++
		findings = slices.Concat(findings, v.Findings)
	}
	for _, f := range findings {
		if f.Hold && !slices.Contains(by, f.Scanner) {
			by = append(by, f.Scanner)
		}
	}
	slices.Sort(by)
	return by, files, ctx.Err()
}

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
func StagedItems(p *program.Program) (items []Item, err error) {
	var staged []string
	err = withRecords(p, func(r *storage.Records) (err error) {
		staged, err = r.Staged()
		return err
	})
	for _, id := range staged {
		items = append(items, commitItem(Commit{id, p}, string(p.Root())))
	}
	sortItems(items)
	return items, err
}
