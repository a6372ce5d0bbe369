package session

import (
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/sandbox"
)

// Adopt makes all sessions of a store fit the directories of the program, after the program and its
// state came from another machine.
func Adopt(s Store) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, one := range list {
		if err := transaction.Relocate(sandbox.Host(one.dir), s.OverlayMounts()); err != nil {
			return &sandbox.Error{Op: "session", Path: one.ID, Code: sandbox.ErrInternal, Hint: "it cannot be continued on this machine: " + err.Error()}
		}
	}
	return nil
}

// A Part says what a path in the state directory of a program is for.
type Part int

// The parts.
const (
	Record  Part = iota // golem's own files
	Content             // files that commands have made
	Machine             // of no use on another machine: locks, mounts, changes that are being applied and undone
)

// PartOf returns the part that a path in the state directory belongs to.
func PartOf(name string) Part {
	parts := strings.Split(name, "/")
	switch parts[0] {
	case "layers", "undo", "leases", writersFile:
		return Machine
	case sessionsName:
	default:
		return Record
	}
	if len(parts) < 3 {
		return Record
	}
	switch parts[2] {
	case "used", "call", "leases", nowName:
		return Machine
	case ownersName:
		if len(parts) > 5 && (parts[4] == homeName || parts[4] == keptName) {
			return Content
		}
		return Record
	}
	if _, err := strconv.Atoi(parts[2]); err != nil || len(parts) < 4 {
		return Record
	}
	switch in := len(parts) > 4; {
	case parts[3] == "lock", in && (parts[3] == "work" || parts[3] == "seen"):
		return Machine
	case in && (parts[3] == "upper" || parts[3] == "copy" || parts[3] == "dropped"):
		return Content
	}
	return Record
}
