// Package layer knows what was changed over a folder, and brings it there.
//
// A command works on an overlay: the kernel collects what it changes in a folder
// of its own and leaves the real one as it is. A Layer is that folder with the
// real one below it. Changes reads from it what was done; Land brings that into
// the real folder, all of it or nothing, and keeps what was there before, so that
// Undo can bring it back. What a crash interrupts Recover carries on.
//
// A layer may also be kept for a whole session, over a folder that the user goes on
// to change: Record, Standing, Pick, Settle and Discard are for those.
//
// It knows files and nothing of policies: what may land is decided before.
package layer

import (
	"fmt"
	"strings"
)

// A Layer is a place of work: the real folder, and a folder of golem's own that
// holds what was changed and, later, what was there before.
type Layer struct {
	Folder string // the real one
	Store  string
}

// What is in a store.
const (
	upperName   = "upper" // what was changed, as overlayfs keeps it
	workName    = "work"  // overlayfs's own
	oldName     = "old"   // what was deleted, numbered as in the list of moves
	droppedName = "dropped"
	clockName   = "clock" // a file that tells time as files have it
	movesName   = "moves" // the list of moves, once it is decided to make them
	landedName  = "landed"
	undoneName  = "undone"
	seenName    = "seen" // where the overlay of a kept layer is mounted
	textsName   = "base" // contents that files were changed from, numbered
	basesName   = "bases"
	picksName   = "picked"
	lockName    = "lock"
)

// Upper and Work are the folders that an overlay is mounted with.
func (l Layer) Upper() string { return l.Store + "/" + upperName }

// Work is described with Upper.
func (l Layer) Work() string { return l.Store + "/" + workName }

// Seen is the folder at which the overlay of a kept layer is mounted. Who mounts it
// must not have CAP_DAC_READ_SEARCH outside of a user namespace: the kernel would find
// what a file was copied from, wherever that is now, and take the one for the other.
func (l Layer) Seen() string { return l.Store + "/" + seenName }

// A Change is one thing that was done. Paths are those below the real folder.
type Change struct {
	Path string
	Op   Op
	Kind Kind
	Mode uint32 // permission bits, of what is there now
	Size int64  // of a file
	To   string // what a link says
	In   string // the new folder that it comes with, "" where it comes alone
	Was  Kind   // what was there before

	// Clash says of a kept layer that the real folder is not any more what this was
	// changed from.
	Clash bool `json:",omitempty"`
}

// A Pick is a change of a kept layer that is to land.
type Pick struct {
	Path  string
	Given string // where set, the name of a file with what lands instead of the layer's content: some of it, or a merge
	Over  bool   // it lands whatever became of what it was changed from: the user has seen that
}

// An Op is what was done.
type Op string

// What can be done.
const (
	Create Op = "create"
	Modify Op = "change"
	Delete Op = "delete"
	Mode   Op = "mode" // and nothing else
)

// A Kind is what something is.
type Kind string

// The kinds.
const (
	Nothing Kind = ""
	File    Kind = "file"
	Folder  Kind = "folder"
	Link    Kind = "link"
	Special Kind = "special" // a pipe, socket or device: it never lands
)

// A Conflict is an error that says that the real folder is not as it was when the
// work began. Nothing was moved.
type Conflict struct{ Paths []string }

// Error implements error.
func (c *Conflict) Error() string {
	return fmt.Sprintf("changed meanwhile: %s", strings.Join(c.Paths, ", "))
}

// maxPath is the longest path that is brought in, and maxName the longest part of
// one, as sandboxes have them.
const (
	maxPath = 4096
	maxName = 255
)
