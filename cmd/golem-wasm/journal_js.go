package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
)

// journalDir is the directory with the journal of a workspace. The Worker keeps its files in the
// private file system of the origin: see web/fs.js.
func journalDir(workspace string) string { return "/journal/" + workspace }

// openJournal opens the journal of a workspace.
func openJournal(workspace string) (*gate.FileJournal, error) {
	return gate.OpenJournal(journalDir(workspace), time.Now)
}

// exportJournal returns the lines of the journal, as golem audit export prints them.
func exportJournal(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	if _, err := decode[struct{}](raw); err != nil {
		return nil, nil, err
	}
	dir, err := state.Open(journalDir(b.name))
	if err != nil {
		return nil, nil, err
	}
	var lines bytes.Buffer
	err = audit.Read(dir, audit.Filter{}, func(_ audit.Record, line []byte) error {
		lines.Write(line)
		return lines.WriteByte('\n')
	})
	return nil, append([]byte{}, lines.Bytes()...), errors.Join(err, dir.Close())
}
