package main

import (
	"time"

	"github.com/golem-forge/golem/gate"
)

// openJournal opens the journal of a workspace. The Worker keeps the files below /journal in
// the private file system of the origin: see web/journal.js.
func openJournal(workspace string) (*gate.FileJournal, error) {
	return gate.OpenJournal("/journal/"+workspace, time.Now)
}
