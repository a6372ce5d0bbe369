package changes

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// Overlays hold the changes of a session to some directories until they are applied or
// discarded. They are in a directory of golem's. A session may have copies of the
// directories instead. Overlays implement jail.Overlays.
//
// A helper mounts the overlays when they are first used, for one golem at a time. To
// list, pick or discard changes, golem mounts nothing. Another golem may then work on the
// session, and golem waits only for its calls.
type Overlays struct {
	dir     string
	layers  []overlay.Overlay
	targets []string    // the target of each overlay in the sandbox
	all     description // also describes overlays over other directories

	mu      sync.Mutex
	helpers helpers
	shown   []*os.File // the directory of each mounted overlay, nil if it is not mounted
	used    *os.File   // locked while overlays are mounted
	holder  Holder     // this golem, as others see it
	calls   int        // the number of running calls
	guests  int        // the number of running services
	last    []string   // some of the names that the last call changed
	inCall  *os.File   // locked while calls run
	owners  []string   // the owners of commands that work on the overlays
	sole    bool       // whether the first owner was promised to be the only one
}

// The lock files in a session's directory. golem locks usedName while overlays are
// mounted, and callName while a call works on them.
const (
	usedName = "used"
	callName = "call"
)

// Open opens the overlays over these directories, which are in dir, a directory of
// golem's. It makes missing overlays and does not change others. Commands that write to
// the overlays can use the host's network only if network is set.
func Open(dir sandbox.Host, list []Directory, network bool) (*Overlays, error) {
	o := &Overlays{dir: string(dir), helpers: helpers{network: network}}
	return o, o.open(list, func(l *overlay.Overlay, _ Directory) error { return l.InitSession() })
}

// Look is Open for callers that only list, pick or discard changes. It makes no overlays.
func Look(dir sandbox.Host, list []Directory) (*Overlays, error) {
	o := &Overlays{dir: string(dir)}
	return o, o.open(list, nil)
}

// open opens the overlays over directories. If begin is not nil, it makes missing ones.
// If another golem is doing the same, the error is ErrBusy.
func (o *Overlays) open(list []Directory, begin func(*overlay.Overlay, Directory) error) error {
	if begin != nil {
		if err := os.MkdirAll(o.dir, 0o700); err != nil {
			return err
		}
		dir, err := os.Open(o.dir)
		if err != nil {
			return err
		}
		defer dir.Close()
		if err := lock(dir, unix.LOCK_EX, busyWait); err != nil {
			return err
		}
	}
	known, err := readDescription(o.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range list {
		i := known.find(d)
		if i < 0 && begin == nil {
			continue
		}
		if i < 0 {
			l := overlay.Overlay{Dir: string(d.Host), Store: filepath.Join(o.dir, strconv.Itoa(len(known.Layers)))}
			if err := l.Remove(); err != nil { // a killed golem may have left one
				return err
			}
			if err := begin(&l, d); err != nil {
				return err
			}
			i = len(known.Layers)
			known.Layers, known.Targets = append(known.Layers, l), append(known.Targets, d.Target)
			if err := known.write(o.dir); err != nil {
				return err
			}
		}
		o.layers, o.targets = append(o.layers, known.Layers[i]), append(o.targets, d.Target)
	}
	o.shown, o.all = make([]*os.File, len(o.layers)), known
	return nil
}

// find returns the index of the overlay over a directory, or -1.
func (o *Overlays) find(d Directory) int {
	return description{Layers: o.layers, Targets: o.targets}.find(d)
}

// Path returns the path of the overlay over a directory for commands, "" if there is
// none.
func (o *Overlays) Path(d Directory) sandbox.Host {
	i := o.find(d)
	if i < 0 {
		return ""
	}
	return sandbox.Host(o.layers[i].SessionDir())
}

// OpenDirectory opens a directory as the session sees it, and mounts its overlay if
// needed. If another golem has mounted the overlays, the error is ErrBusy.
func (o *Overlays) OpenDirectory(d Directory) (*os.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.find(d)
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	if o.shown[i] != nil {
		return o.shown[i], nil
	}
	if err := o.use(o.layers[i]); err != nil {
		return nil, err
	}
	got, files, err := o.by(o.layers[i]).askFor(request{Do: showOverlay, Layer: o.layers[i]}, int(o.used.Fd()))
	if err != nil {
		return nil, err
	}
	if got.Error != "" || len(files) != 1 {
		return nil, errors.New("jail: " + got.Error)
	}
	o.shown[i] = os.NewFile(uintptr(files[0]), "layer")
	return o.shown[i], nil
}

// StartHelper starts the helper that OpenDirectory needs, and returns at once. The helper
// starts while the caller prepares other things.
func (o *Overlays) StartHelper() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.layers) > 0 && !o.layers[0].IsCopy {
		o.helpers.expect()
	}
}

// IsBusy reports whether another golem works on the session now.
func (o *Overlays) IsBusy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used != nil {
		return false
	}
	f, err := lockFile(filepath.Join(o.dir, usedName), unix.LOCK_EX, 0)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrBusy)
}

// MayBeBusy reports whether a golem may work on the session whose overlays are in dir. It
// is faster than Open and IsBusy.
func MayBeBusy(dir sandbox.Host) bool {
	f, err := os.Open(filepath.Join(string(dir), usedName))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	return lock(f, unix.LOCK_SH, 0) != nil
}

// use reserves the overlays for this golem, and starts the helper that an overlay needs.
func (o *Overlays) use(l overlay.Overlay) (err error) {
	if o.used == nil {
		if o.used, err = lockFile(filepath.Join(o.dir, usedName), unix.LOCK_EX, busyWait); err != nil {
			return err
		}
		writeHolder(o.used, o.holder)
	}
	if l.IsCopy {
		return nil
	}
	if err := o.helpers.mount(); err != nil {
		o.used.Close()
		o.used = nil
		return err
	}
	return nil
}

// by returns the helper that works on a mounted overlay. For an overlay that is the
// helper with the mount, and for a copy this process.
func (o *Overlays) by(l overlay.Overlay) *helper {
	if l.IsCopy {
		return &helper{}
	}
	return o.helpers.now
}

// States returns the state at the path of a change in the session and in the directory.
func (o *Overlays) States(c Change) (own, real overlay.State, err error) {
	i := slices.Index(o.targets, c.Target)
	if i < 0 {
		return own, real, fs.ErrNotExist
	}
	return o.layers[i].States(c.PathChange)
}

// Base returns the content of a changed file before the session first changed it, or nil
// if golem did not keep it.
func (o *Overlays) Base(c Change) (base []byte) {
	if i := slices.Index(o.targets, c.Target); i >= 0 {
		base, _ = o.layers[i].BaseContent(c.Path)
	}
	return base
}

// Texts returns the current content of a changed file in the directory and in the
// session. A content is nil if the file does not exist or has more than most bytes.
func (o *Overlays) Texts(c Change, most int64) (real, own []byte) {
	r := OpenTexts(o)
	defer r.Close()
	real, own, _ = r.Content(c, most)
	return real, own
}

// OpenTexts returns a reader of many changed files. The files come fastest in the order of
// their names.
func OpenTexts(o *Overlays) *Texts { return &Texts{o: o} }

// Texts reads the contents of changed files.
type Texts struct {
	o       *Overlays
	readers readers
}

// Content is like Overlays.Texts. The error says why a content cannot be read.
func (t *Texts) Content(c Change, most int64) (real, own []byte, err error) {
	i := slices.Index(t.o.targets, c.Target)
	if i < 0 {
		return nil, nil, fs.ErrNotExist
	}
	l := t.o.layers[i]
	if c.OldKind == overlay.File {
		real, err = t.readFile(l.Dir, c.Path, most)
	}
	if c.Kind == overlay.File {
		var wrong error
		own, wrong = t.readFile(l.UpperOrCopy(), c.Path, most)
		err = errors.Join(err, wrong)
	}
	return real, own, err
}

// Open opens the content of a changed file in the session.
func (t *Texts) Open(c Change) (*os.File, error) {
	if i := slices.Index(t.o.targets, c.Target); i >= 0 {
		r, err := t.readers.open(t.o.layers[i].UpperOrCopy())
		if err != nil {
			return nil, err
		}
		return r.Open(c.Path)
	}
	return nil, fs.ErrNotExist
}

func (t *Texts) oldFiles(c *Change, left *int) []OldFile {
	if i := slices.Index(t.o.targets, c.Target); i >= 0 {
		return t.readers.oldFiles(t.o.layers[i].Dir, c, left)
	}
	return nil
}

func (t *Texts) readFile(dir, name string, most int64) ([]byte, error) {
	r, err := t.readers.open(dir)
	if err != nil {
		return nil, err
	}
	return r.ReadFile(name, most)
}

// Close closes the files.
func (t *Texts) Close() { t.readers.close() }

// OtherTargets returns the targets of changed directories that Open did not get. They are
// from another configuration.
func (o *Overlays) OtherTargets() (targets []string) {
	for i, l := range o.all.Layers {
		if entries, err := os.ReadDir(l.UpperDir()); !slices.Contains(o.layers, l) && (err != nil || len(entries) > 0) {
			targets = append(targets, o.all.Targets[i])
		}
	}
	return targets
}

// Usage returns the number and the total size of the files that the session keeps.
func (o *Overlays) Usage() (files int, bytes int64) {
	for _, l := range o.all.Layers {
		n, size, _ := l.Usage()
		files, bytes = files+n, bytes+size
	}
	return files, bytes
}

// DiskUse returns how many bytes the overlays of a session and another directory take on the
// disk. Only a helper can look into a directory that a command has closed to the user. It
// reports false if a part could not be measured nevertheless.
func DiskUse(session, other sandbox.Host) (bytes int64, whole bool) {
	parts := []request{{Do: measureDisk, Paths: []string{string(other)}}}
	known, err := readDescription(string(session))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, false
	}
	for _, l := range known.Layers {
		parts = append(parts, request{Do: measureDisk, Layer: l, Paths: []string{l.UpperOrCopy()}})
	}
	var second *helper // started if it is needed
	whole = true
	for _, r := range parts {
		got, err := new(helper).ask(r)
		if err == nil && got.Partial {
			if second == nil {
				second = startHelper()
				defer second.close()
			}
			if second.process == nil && r.Layer.IsCopy {
				r.Layer.SessionChanges() // it opens closed directories of a copy
			}
			got, err = second.ask(r)
		}
		bytes, whole = bytes+got.Bytes, whole && err == nil && !got.Partial
	}
	return bytes, whole
}

// Discard removes the changes at and below names from the overlays, so that the overlays
// show the directories there again. It calls check with the changes first, while no call
// can add to them. If check returns an error, Discard does nothing. A record in dir, a
// directory of golem's, says what it discards. If golem is killed, Recover discards the rest.
// After the changes, Discard removes some names from the directory of the session.
func (o *Overlays) Discard(dir sandbox.Host, names []string, check func([]Change) error, removes []string) error {
	return o.alone(func() error {
		h := o.helpers.any()
		list, _, err := o.listBelow(h, names)
		if err != nil {
			return err
		}
		if err := check(list); err != nil {
			return err
		}
		st := &store{string(dir), h}
		if err := os.MkdirAll(st.dir, 0o700); err != nil {
			return err
		}
		w, err := st.newRecord(nil, nil, 1)
		if err != nil {
			return err
		}
		for i, l := range o.layers {
			if paths := pathsIn(o.targets, i, names); len(paths) > 0 {
				w.discards = append(w.discards, discarded{l, paths})
			}
		}
		w.removes = removes
		if err = w.describe(); err == nil {
			err = st.discard(w, false)
		}
		if errors.Is(err, jail.ErrEnded) { // the helper may have discarded a part
			err = withHelper(func(h *helper) error { return (&store{st.dir, h}).discard(w, true) })
		}
		if errors.Is(err, jail.ErrEnded) { // the record stays for Recover
			w.held.Close()
			return &sandbox.Error{Op: "discard_changes", Code: sandbox.ErrInternal,
				Hint: "helper processes of golem were killed, and a part of the changes is discarded; the next golem command discards the rest"}
		}
		return errors.Join(err, st.remove(w))
	})
}

// pathsIn returns the paths of names in the overlay with a number. targets has the targets of
// all overlays.
func pathsIn(targets []string, i int, names []string) (paths []string) {
	for _, name := range names {
		if rel, ok := pathIn(targets, i, name); ok {
			paths = append(paths, rel)
		}
	}
	return paths
}

// pathIn returns the path of a name in the overlay with a number. It returns false if the
// name is not in the overlay, for example because another directory is mounted there.
func pathIn(targets []string, i int, name string) (rel string, ok bool) {
	in := -1
	for n, target := range targets {
		if (target == "/" || name == target || strings.HasPrefix(name, target+"/")) && (in < 0 || len(target) > len(targets[in])) {
			in = n
		}
	}
	if name == "/" { // the whole overlay
		return ".", true
	}
	if in < 0 || targets[in] != targets[i] {
		return "", false
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, targets[i]), "/"), "."), true
}

// Close unmounts the overlays. The changes in them stay.
func (o *Overlays) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.shown {
		f.Close()
	}
	err := o.helpers.close()
	if o.used != nil {
		o.used.Close()
	}
	o.used, o.shown = nil, make([]*os.File, len(o.layers))
	return err
}

// Remove removes the overlays with all changes in them, and the directory that they are in.
// It calls check first, while nobody can work on the session or undo changes into it. If check
// returns an error, Remove does nothing. It renames the directory first. If golem is killed
// then, FinishRemoval removes the rest.
func (o *Overlays) Remove(check func() error) error {
	used, err := lockFile(filepath.Join(o.dir, usedName), unix.LOCK_EX, 0)
	if err != nil {
		return err
	}
	defer used.Close()
	dir, err := os.Open(o.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := lock(dir, unix.LOCK_EX, 0); err != nil {
		return err
	}
	return o.alone(func() error {
		if err := check(); err != nil {
			return err
		}
		to := filepath.Join(filepath.Dir(o.dir), removedPrefix+filepath.Base(o.dir))
		if err := durable.Rename(o.dir, to); err != nil {
			return err
		}
		return removeSession(&o.helpers, to, len(o.all.Layers))
	})
}

// removedPrefix starts the names of directories whose overlays golem removes.
const removedPrefix = ".removed-"

// FinishRemoval removes the directory dir if a golem was killed while it removed the overlays
// in it. It does nothing with other directories, and if a golem removes the overlays now.
func FinishRemoval(dir sandbox.Host) error {
	if !strings.HasPrefix(filepath.Base(string(dir)), removedPrefix) {
		return nil
	}
	held, ok := claim.Seize(string(dir))
	if !ok {
		return nil
	}
	defer held.Close()
	known, _ := readDescription(string(dir)) // it is gone if only golem's own files are left
	var h helpers
	return errors.Join(removeSession(&h, string(dir), len(known.Layers)), h.close())
}

// removeSession removes the directory dir with so many overlays.
func removeSession(h *helpers, dir string, overlays int) error {
	for i := range overlays {
		r := request{Do: removeRecord, Layer: overlay.Overlay{Store: filepath.Join(dir, strconv.Itoa(i))}}
		if _, err := (&helper{}).ask(r); err == nil {
			continue // only directories that the user cannot enter need a helper process
		}
		if _, err := h.any().ask(r); err != nil {
			return err
		}
	}
	return overlay.Overlay{Store: dir}.Remove()
}

// Mounted implements jail.Overlays.
func (o *Overlays) Mounted() bool {
	return slices.ContainsFunc(o.layers, func(l overlay.Overlay) bool { return !l.IsCopy })
}

// Helper implements jail.Overlays.
func (o *Overlays) Helper() *jail.Helper {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.helpers.now == nil {
		return nil
	}
	return o.helpers.now.process
}

// Join implements jail.Overlays. The first owner may be the only one that makes sockets in
// the directories.
func (o *Overlays) Join(owner string, sole bool) (shared bool, noSockets string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.owners, owner) {
		o.owners = append(o.owners, owner)
	}
	first := o.owners[0] == owner
	o.sole = o.sole || sole && first && len(o.owners) == 1
	if o.sole && !first {
		noSockets = "another program of the session makes sockets in the same directories"
	}
	return !o.sole || !first, noSockets
}

// commandName returns the name that commands have for the target of a mount.
func commandName(target string) string {
	if target == "/" {
		return jail.Work
	}
	return target
}
