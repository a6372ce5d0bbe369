package overlay

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A Transfer moves the new files of a session to the overlay from which they are applied.
// If nobody works in the session, golem need not copy them: Pick leaves them in the
// session and notes their stamps. A stamp changes if anybody changes a file: its inode,
// mode, size or times are not the same then. Take compares the stamps and moves the files
// out of the session, where no command can reach them any more. Return moves them back if
// they are not applied after all.
type Transfer struct{ Session, To Overlay }

// inPlaceName is a file in the store of a transaction. It lists the trees that Pick left
// in the session.
const inPlaceName = "in-place"

// An inPlaceList lists trees of a session.
type inPlaceList struct {
	Trees   []stampedTree
	Unclean []string // paths in the trees with attributes that must not be applied
}

// A stampedTree is a new file, symlink or directory with everything in it.
type stampedTree struct{ Path, Stamp string }

func readInPlace(store string) (list inPlaceList, err error) {
	data, err := os.ReadFile(store + "/" + inPlaceName)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	return list, err
}

// write writes the list to disk. Take moves nothing before.
func (l inPlaceList) write(store string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.WriteAlone(store+"/"+inPlaceName, data, 0o600)
}

// Pick is Overlay.Pick for a session that nobody works in. It copies only files that
// cannot be moved later. The others stay in the session until Take, and the caller reads
// them there. Paths lists them.
func (x Transfer) Pick(picks []Pick) ([]PathChange, error) {
	return pickChanges(x.Session, x.To, picks, true)
}

// Paths returns the changes that Pick left in the session, as the paths of files and of
// directories that stand for everything in them.
func (x Transfer) Paths() ([]string, error) {
	list, err := readInPlace(x.To.Store)
	var paths []string
	for _, t := range list.Trees {
		paths = append(paths, t.Path)
	}
	return paths, err
}

// Top returns the path of the new directory that a change is applied with, or its own.
func (c PathChange) Top() string { return cmp.Or(c.NewDir, c.Path) }

// trees splits changes into trees: a change that is not in a new directory, and all
// changes in it, which follow it.
func trees[T any](list []T, change func(T) PathChange) (all [][]T) {
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && change(list[j]).NewDir == change(list[i]).Path {
			j++
		}
		all, i = append(all, list[i:j]), j
	}
	return all
}

// findInPlace returns the trees that can stay in the session.
func (s *openedStore) findInPlace(chosen []pickedChange) (list inPlaceList) {
	for _, group := range trees(chosen, func(c pickedChange) PathChange { return c.PathChange }) {
		if stamp, unclean, ok := s.examineTree(group); ok {
			list.Trees = append(list.Trees, stampedTree{group[0].Path, stamp})
			list.Unclean = append(list.Unclean, unclean...)
		}
	}
	return list
}

// examineTree returns the stamp of a tree, and the paths in it that have attributes. It
// returns false if the tree must be copied.
func (s *openedStore) examineTree(group []pickedChange) (stamp string, unclean []string, ok bool) {
	if group[0].Op != Create {
		return "", nil, false
	}
	h := newStamp()
	inside := map[string]int{} // the number of entries in each directory
	for i, c := range group {
		st, clean, ok := s.examine(c)
		if !ok {
			return "", nil, false
		}
		if h.add(c.Path, st); !clean {
			unclean = append(unclean, c.Path)
		}
		if i > 0 {
			inside[path.Dir(c.Path)]++
		}
	}
	for _, c := range group {
		if c.Kind != Dir {
			continue
		}
		// A whiteout, a bad name or a file that was not picked must not be moved.
		if names, err := s.upper.list(c.Path); err != nil || len(names) != inside[c.Path] {
			return "", nil, false
		}
	}
	return h.sum(), unclean, true
}

// examine reports whether a file, symlink or directory of the session can be moved later:
// golem can read it, it has no other hard link, and no process has it open for writing. It
// also reports whether the file has no attributes.
func (s *openedStore) examine(c pickedChange) (st unix.Stat_t, clean, ok bool) {
	if c.contentFile != "" || c.Kind == Special {
		return st, false, false
	}
	if c.Kind == Symlink {
		st, err := s.upper.stat(c.Path)
		to, e := s.upper.readLink(c.Path)
		return st, true, err == nil && e == nil && kindOf(st) == Symlink && st.Nlink == 1 && to == c.LinkTarget
	}
	fd, err := s.upper.openNear(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return st, false, false
	}
	defer unix.Close(fd)
	if unix.Fstat(fd, &st) != nil || kindOf(st) != c.Kind || st.Mode&0o7777 != c.Mode {
		return st, false, false
	}
	if clean, ok = hasCleanAttributes(fd); !ok || c.Kind == Dir {
		return st, clean, ok && st.Mode&0o700 == 0o700
	}
	if st.Nlink != 1 || st.Size != c.Size || st.Mode&0o400 == 0 {
		return st, false, false
	}
	// The kernel grants a read lease only if nobody has the file open for writing.
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return st, clean, err == nil
}

// hasCleanAttributes reports whether an open file has no extended attributes, and whether
// cleanAttributes can remove those that it has.
func hasCleanAttributes(fd int) (clean, ok bool) {
	var names [4096]byte
	n, err := unix.Flistxattr(fd, names[:])
	if err != nil || n == 0 {
		return true, err == nil || err == unix.EOPNOTSUPP
	}
	clean = true
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		switch {
		case isOwnAttribute(name):
			clean = false
		case name != "security.selinux": // each file has this one
			return false, false
		}
	}
	return clean, true
}

// A stamp is a digest of what the kernel says about the files of a tree.
type stamp struct {
	hash.Hash
	buf []byte
}

func newStamp() *stamp { return &stamp{Hash: sha256.New()} }

func (s *stamp) add(name string, st unix.Stat_t) {
	s.buf = append(s.buf[:0], name...)
	s.buf = append(s.buf, 0)
	for _, n := range []uint64{st.Ino, uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), uint64(st.Nlink), uint64(st.Size), uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano())} {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, n)
	}
	s.Write(s.buf)
}

func (s *stamp) sum() string { return hex.EncodeToString(s.Sum(nil)) }

// Take moves the files that Pick left in the session to the overlay from which they are
// applied, except those that are skipped. Changes is the list that Pick returned. If a
// file changed since, Take returns a ConflictError and moves nothing. If another error
// occurs, the caller must call Return. Nobody may work in the session.
func (x Transfer) Take(changes []PathChange, skipped []string) error {
	list, err := readInPlace(x.To.Store)
	if err != nil || len(list.Trees) == 0 {
		return err
	}
	s, err := openStore(x.Session, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	upper, err := openTree(x.To.UpperDir())
	if err != nil {
		return err
	}
	defer upper.close()
	groups := map[string][]PathChange{}
	for _, g := range trees(changes, func(c PathChange) PathChange { return c }) {
		groups[g[0].Path] = g
	}
	var conflict ConflictError
	meter := startMeter(x.To.Store, phaseTake, 2*len(list.Trees))
	defer meter.close()
	for _, t := range list.Trees {
		meter.add()
		if s.stampNow(groups[t.Path]) != t.Stamp {
			conflict.Paths = append(conflict.Paths, t.Path)
		}
	}
	if len(conflict.Paths) > 0 {
		return &conflict
	}
	if list.Trees, err = s.copySkipping(upper, list.Trees, groups, matchPaths(skipped)); err != nil {
		return err
	}
	if err := list.write(x.To.Store); err != nil {
		return err
	}
	for _, t := range list.Trees {
		meter.add()
		err := upper.makeParents(t.Path)
		if err == nil {
			err = s.upper.moveTo(upper, t.Path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path, err)
		}
	}
	return nil
}

// stampNow returns the stamp of a tree, "" if something is missing.
func (s *openedStore) stampNow(group []PathChange) string {
	h := newStamp()
	for _, c := range group {
		st, err := s.upper.stat(c.Path)
		if err != nil {
			return ""
		}
		h.add(c.Path, st)
	}
	return h.sum()
}

// copySkipping returns the trees that nothing is skipped of. It copies the others, because
// skipped files stay in the session.
func (s *openedStore) copySkipping(to *tree, list []stampedTree, groups map[string][]PathChange, out pathSet) (rest []stampedTree, err error) {
	var chosen []pickedChange
	for _, t := range list {
		group := groups[t.Path]
		switch {
		case !slices.ContainsFunc(group, out.skips):
			rest = append(rest, t)
		case !out.skips(group[0]):
			for _, c := range group {
				chosen = append(chosen, pickedChange{PathChange: c})
			}
		}
	}
	if len(chosen) == 0 {
		return rest, nil
	}
	_, err = s.copyChosen(to, chosen)
	return rest, err
}

// Return moves files back into the session that Take moved out of it: those at or below the
// paths, or all if there are no paths. A later Take moves none of them. Nobody may work in the
// session. Calling it again does no harm.
func (x Transfer) Return(paths []string) error {
	list, err := readInPlace(x.To.Store)
	if err != nil || len(list.Trees) == 0 {
		return err
	}
	s, err := openSession(x.Session, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	upper, err := openTree(x.To.UpperDir())
	if err != nil {
		return err
	}
	defer upper.close()
	var rest []stampedTree
	isChosen := matchPaths(paths)
	for _, t := range list.Trees {
		if len(paths) > 0 && !isChosen(t.Path) {
			rest = append(rest, t)
			continue
		}
		if _, err := upper.stat(t.Path); errors.Is(err, unix.ENOENT) {
			continue
		}
		err := s.makeParentsLike(t.Path)
		if err == nil {
			err = upper.moveTo(s.upper, t.Path)
		}
		if err != nil {
			return fmt.Errorf("return %s: %w", t.Path, err)
		}
	}
	// The helper of a killed golem may call Take even now.
	if list.Trees = rest; len(rest) > 0 {
		return list.write(x.To.Store)
	}
	return os.Remove(x.To.Store + "/" + inPlaceName)
}

// HoldsTaken reports whether Take moved files that were neither applied nor returned.
func (x Transfer) HoldsTaken() bool {
	list, err := readInPlace(x.To.Store)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(list.Trees, func(t stampedTree) bool { return exists(x.To.UpperDir() + "/" + t.Path) })
}

// inPlaceCleaner returns a function that reports whether a change of the overlay was
// taken from the session and has no attributes to remove.
func inPlaceCleaner(o Overlay) (isClean func(c PathChange) bool, err error) {
	list, err := readInPlace(o.Store)
	if err != nil || len(list.Trees) == 0 || stagingOf(o) != o { // a staged file is a copy
		return func(PathChange) bool { return false }, err
	}
	taken, unclean := map[string]bool{}, map[string]bool{}
	for _, t := range list.Trees {
		taken[t.Path] = true
	}
	for _, name := range list.Unclean {
		unclean[name] = true
	}
	return func(c PathChange) bool { return taken[c.Top()] && !unclean[c.Path] }, nil
}
