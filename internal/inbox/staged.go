package inbox

import (
	"context"
	"encoding/json"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// ReadStaged lets the scanners look at a staged commit of a program, and returns it with what
// they found. It calls git_diff as the user, so the journal has a record of it.
func ReadStaged(ctx context.Context, p *program.Program, id string, secrets []string) (*clearance.StagedCommit, *git.Look, error) {
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
	gate, err := p.OpenGate(program.GateOptions{Secrets: secrets, SingleCall: true, Tools: []string{"git_diff"}})
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
	look, ok := r.Data.(*git.Look)
	if !ok {
		return nil, nil, &sandbox.Error{Op: "review", Path: id, Code: sandbox.ErrNotFound, Hint: "it was pushed or discarded; golem review lists the commits that wait"}
	}
	return staged, look, nil
}
