package session

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// Adopt makes all sessions of a store fit the directories of the program, after the program and its
// state came from another machine.
func Adopt(s Sessions) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, one := range list {
		if err := changes.Relocate(sandbox.Host(one.dir), storeOf(s, one).OverlayMounts(), nil); err != nil {
			return &sandbox.Error{Op: "session", Path: naming.Label(one), Code: sandbox.ErrInternal, Hint: "it cannot be continued on this machine: " + err.Error()}
		}
	}
	return nil
}

// overlaysName is the file in which package changes describes the overlays of a session.
const overlaysName = "about.json"

// Receive adds a session that another machine has made, for review. tree is its directory
// there, and write makes a directory of such a tree. Only its overlays are taken: nothing that
// could name a directory of this machine, or continue a run. isSame reports whether a file of
// a mount has the content that it had when the session began. direct are its changes in mounts
// with mode: rw, by their targets, as overlays keep them. The session counts as untrusted, from a
// source.
func Receive(s Sessions, id, source string, tree parcel.Tree, direct map[string]parcel.Tree, write func(dir string, t parcel.Tree) error, isSame func(target, name string) bool) (err error) {
	final := filepath.Join(s.dir(), id)
	if _, err := os.Lstat(filepath.Join(final, sessionName)); err == nil {
		return &sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrExists, Hint: "it is here already; golem diff --session " + id + " shows it"}
	}
	if err := os.RemoveAll(final); err != nil { // of a golem that was killed here
		return err
	}
	var take parcel.Tree
	for _, e := range tree {
		top, _, _ := strings.Cut(e.Name, "/")
		if _, err := strconv.Atoi(top); err == nil || e.Name == overlaysName {
			take = append(take, e)
		}
	}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return err
	}
	temp := filepath.Join(s.dir(), ".received-"+id)
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	if err := write(temp, take); err != nil {
		return err
	}
	if err := os.WriteFile((&Session{dir: temp}).TaintFile(), []byte(source), 0o600); err != nil {
		return err
	}
	if err := durable.Rename(temp, final); err != nil {
		return err
	}
	if err := changes.Relocate(sandbox.Host(final), s.OverlayMounts(), isSame); err != nil {
		return errors.Join(&sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrInternal, Hint: "its changes do not fit here: " + err.Error()}, os.RemoveAll(final))
	}
	for _, m := range s.Project.Mounts {
		files := direct[m.Target]
		if m.Mode != sandbox.ReadWrite.String() || len(files) == 0 {
			continue
		}
		err := changes.Receive(sandbox.Host(final), overlayMount(m), func(upper string) error { return write(upper, files) }, func(name string) bool { return isSame(m.Target, name) })
		if err != nil {
			return errors.Join(&sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrInternal, Hint: "its changes in " + sandbox.Shown(m.Target) + " do not fit here: " + err.Error()}, os.RemoveAll(final))
		}
	}
	look, err := changes.Look(sandbox.Host(final), s.OverlayMounts())
	if err != nil {
		return errors.Join(err, os.RemoveAll(final))
	}
	isCopy := len(s.OverlayMounts()) > 0 && !look.Mounted() // then it can be used where no overlay can be mounted
	if err := look.Close(); err != nil {
		return err
	}
	// With its file it is a session, and it has all its changes.
	return (&Session{dir: final}).writeFile(sessionName, Session{ID: id, Started: s.Now(), Command: source, Copy: isCopy, Root: s.Root, Isolated: true})
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
	case "layers", "undo", "leases", uncheckedName, writersFile:
		return Machine
	case sessionsName:
	default:
		return Record
	}
	if len(parts) < 3 {
		return Record
	}
	switch parts[2] {
	case "used", "call", "leases", makerName, "run-now", detached.Name:
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
	case parts[3] == "lock", in && (parts[3] == "work" || parts[3] == "mount"):
		return Machine
	case in && (parts[3] == "upper" || parts[3] == "copy" || parts[3] == "dropped"):
		return Content
	}
	return Record
}
