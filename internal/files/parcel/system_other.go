//go:build !linux

package parcel

import (
	"errors"
	"io/fs"
	"os"
)

// noWait is the flag that keeps an open of a pipe from waiting. Here a Reader opens only
// files that it has looked at.
const noWait = 0

// errNoOverlays is the error of a tree with marks of overlayfs.
var errNoOverlays = errors.New("this system has no overlays; use the tree on Linux")

// stampOf returns no stamp that shows every change.
func stampOf(fs.FileInfo) (stamp, bool) { return stamp{}, false }

// isMark reports whether a file is the mark of a deleted file.
func isMark(fs.FileInfo) bool { return false }

// hasOtherNames reports whether a file may have more than one hard link.
func hasOtherNames(fs.FileInfo) bool { return true }

// makeMark makes the mark of a deleted file in a directory.
func makeMark(*os.File, string) error { return errNoOverlays }

// readAttributes returns the attributes of a file that a Tree keeps.
func readAttributes(*os.File) (map[string][]byte, error) { return nil, nil }

// writeAttributes gives a file these attributes.
func writeAttributes(_ *os.File, attributes map[string][]byte) error {
	if len(attributes) > 0 {
		return errNoOverlays
	}
	return nil
}
