package overlay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// Pick copies changes to another, fresh overlay over the same directory, from which they
// can be applied, and returns the list of them. The session may continue to write
// meanwhile. A new directory is copied with everything in it, and a file in a new
// directory with the directories above it. If a change is a conflict, and its Pick does
// not force it, Pick returns a ConflictError and copies nothing.
//
// A file whose content comes from a ContentFile keeps the permission bits of the real
// file, unless the Pick has NewMode. A new file gets those of the session.
func (o Overlay) Pick(to Overlay, picks []Pick) ([]PathChange, error) {
	return pickChanges(o, to, picks, false)
}

// pickChanges copies changes from o. If inPlace is true, it leaves files in o that can be
// moved later.
func pickChanges(o, to Overlay, picks []Pick, inPlace bool) ([]PathChange, error) {
	s, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer s.close()
	list, err := s.changes()
	var nameErr *NameError
	if err != nil && !errors.As(err, &nameErr) {
		return nil, err
	}
	chosen, err := findPicked(list, picks, s.badNames)
	if err != nil {
		return nil, err
	}
	upper, err := openTree(to.UpperDir())
	if err != nil {
		return nil, err
	}
	defer upper.close()
	if o.IsCopy {
		if err := os.WriteFile(to.Store+"/"+copyOfName, []byte(o.Store), 0o600); err != nil {
			return nil, err
		}
	}
	var stay inPlaceList
	if inPlace && !o.IsCopy {
		if stay = s.findInPlace(chosen); len(stay.Trees) > 0 {
			if err := stay.write(to.Store); err != nil {
				return nil, err
			}
		}
	}
	tops := map[string]bool{}
	for _, t := range stay.Trees {
		tops[t.Path] = true
	}
	picked := make([]PathChange, len(chosen))
	var copied []pickedChange
	var at []int // the indexes of copied
	for i, c := range chosen {
		c.Forced, c.Conflict = c.Conflict, false
		if picked[i] = c.PathChange; !tops[c.Top()] {
			copied, at = append(copied, c), append(at, i)
		}
	}
	list, err = s.copyChosen(upper, copied)
	for i, c := range list {
		picked[at[i]] = c
	}
	return picked, err
}

// copyChosen copies changes to the upperdir of another overlay and records that they were
// picked. It returns the changes as they were copied.
func (s *openedStore) copyChosen(to *tree, chosen []pickedChange) (picked []PathChange, err error) {
	// The copy may lack what the session changes from now on. Files that are not copied
	// have older times.
	clock := s.Store + "/" + picksName + ".clock"
	if err := markTime(clock); err != nil {
		return nil, err
	}
	at, err := readTime(clock)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	for i := range chosen {
		c := &chosen[i]
		if err := s.copyPicked(to, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
		if picked = append(picked, c.PathChange); c.Kind == Special {
			continue
		}
		s.picks.all[c.Path] = pickRecord{Path: c.Path, NewDir: c.NewDir, At: at, Partial: c.contentFile != "" && !c.complete, New: c.Op == Create}
	}
	return picked, s.picks.save()
}

// A pickedChange is a change to copy.
type pickedChange struct {
	PathChange
	contentFile string
	complete    bool // contentFile stands for all of the session's content
	newMode     bool // it gets the permission bits of the session
}

// findPicked returns the changes of a list that are picked, with the directories that
// they need.
func findPicked(list []PathChange, picks []Pick, badNames []string) ([]pickedChange, error) {
	at := map[string]int{}
	for i, c := range list {
		at[c.Path] = i
	}
	wanted, given := make([]bool, len(list)), map[string]Pick{}
	var conflict ConflictError
	for _, p := range picks {
		name := path.Clean(p.Path)
		i, ok := at[name]
		if !ok {
			return nil, fmt.Errorf("%q is not a change: %w", name, fs.ErrNotExist)
		}
		c := list[i]
		if c.Conflict && !p.Force {
			conflict.Paths = append(conflict.Paths, c.Top())
		}
		if p.ContentFile != "" {
			if c.Kind != File && (c.Op != Delete || c.OldKind != File) {
				return nil, fmt.Errorf("%q is not a file: %w", name, fs.ErrInvalid)
			}
			given[name] = p
		}
		wanted[i] = true
		if c.Kind == Dir && c.Op != Mode {
			for j := i + 1; j < len(list) && strings.HasPrefix(list[j].Path, name+"/"); j++ {
				wanted[j] = true
			}
			for _, u := range badNames {
				if strings.HasPrefix(u, name+"/") {
					return nil, &NameError{u}
				}
			}
		}
		for above := name; above != c.Top(); {
			above = path.Dir(above)
			if wanted[at[above]] {
				break // and so are those above it
			}
			wanted[at[above]] = true
		}
	}
	if len(conflict.Paths) > 0 {
		return nil, &conflict
	}
	var result []pickedChange
	for i, c := range list {
		if wanted[i] {
			p := given[c.Path]
			result = append(result, pickedChange{c, p.ContentFile, p.Complete, p.NewMode})
		}
	}
	return result, nil
}

// copyPicked copies one change to the upperdir of another overlay.
func (s *openedStore) copyPicked(to *tree, c *pickedChange) error {
	c.Conflict = false
	if c.contentFile == "" && !c.hasNewFile() || c.Kind == Special {
		return nil
	}
	if !to.hasOpen(path.Dir(c.Path)) {
		if err := to.makeParents(c.Path); err != nil {
			return err
		}
	}
	return to.withParent(c.Path, func(dir int, base string) error {
		if c.Kind == Dir || c.Kind == Symlink {
			return s.copyNode(dir, base, c)
		}
		return s.copyContent(dir, base, c)
	})
}

// copyNode makes a directory or a symlink with the owner that it has in the session.
func (s *openedStore) copyNode(dir int, base string, c *pickedChange) (err error) {
	if c.Kind == Dir {
		err = unix.Mkdirat(dir, base, 0o700)
	} else {
		err = unix.Symlinkat(c.LinkTarget, dir, base)
	}
	if err != nil {
		return err
	}
	st, err := s.upper.stat(c.Path)
	if err != nil {
		return err
	}
	return chownLike(dir, base, st)
}

// copyContent copies a file.
func (s *openedStore) copyContent(dir int, base string, c *pickedChange) error {
	in, st, err := s.openContent(c)
	if err != nil {
		return err
	}
	defer in.Close()
	fd, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), c.Path)
	defer out.Close()
	if err := copyFile(out, in, math.MaxInt64); err != nil {
		return err
	}
	var made unix.Stat_t
	if err := unix.Fstat(fd, &made); err != nil {
		return err
	}
	c.Size = made.Size
	if c.OldKind == File {
		s.copyAttributes(out, c.Path)
	}
	if made.Uid != st.Uid || made.Gid != st.Gid {
		if err := chownLike(fd, "", st); err != nil {
			return err
		}
	}
	if c.contentFile != "" {
		return nil
	}
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// openContent opens the content to copy, and returns the file whose owner the copy gets.
func (s *openedStore) openContent(c *pickedChange) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	if c.contentFile != "" {
		in, err := os.Open(c.contentFile)
		if err != nil {
			return nil, st, err
		}
		of := s.upper
		if c.OldKind == File {
			of = s.lower
		}
		if st, err = of.stat(c.Path); err != nil {
			in.Close()
			return nil, st, err
		}
		if c.OldKind == File {
			if c.Op, c.Kind = Modify, File; !c.newMode {
				c.Mode = permissions(st)
			}
		}
		return in, st, nil
	}
	fd, err := s.upper.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, st, err
	}
	in := os.NewFile(uintptr(fd), c.Path)
	if err := unix.Fstat(fd, &st); err != nil || kindOf(st) != File {
		in.Close()
		return nil, st, errors.Join(err, errReplaced)
	}
	return in, st, nil
}

// chownLike gives a copy in an open directory the owner of the original, if the process may do
// that. Without a name, the copy is what is open.
func chownLike(fd int, name string, st unix.Stat_t) error {
	err := unix.Fchownat(fd, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// copyAttributes copies the extended attributes and access control lists of the real
// file. It skips those that it cannot set.
func (s *openedStore) copyAttributes(out *os.File, name string) {
	for name, value := range s.lower.attributes(name) {
		if isOwnAttribute(name) {
			unix.Fsetxattr(int(out.Fd()), name, []byte(value), 0)
		}
	}
}

// A pickRecord says that a change was picked, and when. It stays until MarkApplied or
// Unpick.
type pickRecord struct {
	Path    string
	NewDir  string `json:",omitempty"`
	At      int64
	Partial bool `json:",omitempty"`
	New     bool `json:",omitempty"` // the real directory did not have the file
}

// topPath is the path of the new directory that the change was picked with, or its own.
func (p pickRecord) topPath() string { return cmp.Or(p.NewDir, p.Path) }

// A pickInfo says when a change was picked, and whether only part of it.
type pickInfo struct {
	At      int64
	Partial bool
}

// matches reports whether the session's file is still as it was picked.
func (l pickInfo) matches(st unix.Stat_t) bool { return !l.Partial && st.Ctim.Nano() < l.At }

// A pickList holds the records of a session by path.
type pickList struct {
	file string
	all  map[string]pickRecord
}

func readPicks(store string) (*pickList, error) {
	p := &pickList{store + "/" + picksName, map[string]pickRecord{}}
	list, err := ReadLines[pickRecord](p.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", picksName, err)
	}
	for _, l := range list {
		p.all[l.Path] = l
	}
	return p, nil
}

// remove removes records and saves the list.
func (p *pickList) remove(which func(name string) bool) error {
	had := len(p.all)
	maps.DeleteFunc(p.all, func(name string, _ pickRecord) bool { return which(name) })
	if len(p.all) == had {
		return nil
	}
	return p.save()
}

// save writes the file.
func (p *pickList) save() error {
	var list []pickRecord
	for _, name := range slices.Sorted(maps.Keys(p.all)) {
		list = append(list, p.all[name])
	}
	var buf bytes.Buffer
	if err := WriteLines(&buf, list); err != nil {
		return err
	}
	return durable.WriteAlone(p.file, buf.Bytes(), 0o600)
}
