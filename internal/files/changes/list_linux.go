package changes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// The lists in the directory of an overlay: the changes, the changes to skip, the names
// that others changed meanwhile, and the picks.
const (
	changesName = "changes"
	skippedName = "skipped"
	clashName   = "clash"
	picksName   = "picks"
)

// writeChanges writes the changes of a record as a listing, because JSON would take longer
// than finding the changes.
func writeChanges(l overlay.Overlay, list []overlay.PathChange) error {
	return writeListing(l, changesName, listingMark, list)
}

// readChanges reads the changes of a record. If the file does not exist, there are none.
func readChanges(l overlay.Overlay) ([]overlay.PathChange, error) {
	list, err := readListing(l, changesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// writeList writes a list to a file in the directory of an overlay, because a message has
// no room for it.
func writeList[T any](l overlay.Overlay, name string, list []T) error {
	f, err := os.OpenFile(filepath.Join(l.Store, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return overlay.WriteLines(f, list)
}

// readList reads a list. If the file does not exist, the list is empty.
func readList[T any](l overlay.Overlay, name string) ([]T, error) {
	list, err := overlay.ReadLines[T](filepath.Join(l.Store, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}
