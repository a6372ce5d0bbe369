package transaction

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Overlays are what a session has changed over some directories, in a directory of golem's
// own, until it is applied or discarded. A session may have copies of the directories
// instead. Overlays implement jail.Overlays.
//
// They are mounted in a helper when they are first used, by one golem at a time. To list,
// pick or discard changes nothing needs to be mounted, and another golem may work on the
// session: only its calls are waited for.
type Overlays struct {
	dir     string
	layers  []overlay.Overlay
	targets []string    // of each, as the sandbox names it
	all     description // with overlays over other directories

	mu      sync.Mutex
	helpers helpers
	shown   []*os.File // of each overlay, once it is mounted
	used    *os.File   // says that they are
	calls   int        // that run now
	guests  int        // services that run now
	last    []string   // some of what the last call has changed
	inCall  *os.File   // says that calls run
	owners  []string   // whose commands work on them
	sole    bool       // the first owner was promised that it is the only one
}

// The files of a session's directory that are locked: while its overlays are mounted, and
// while a call works on them.
const (
	usedName = "used"
	callName = "call"
)

// Open opens the overlays over directories that are in a directory of golem's, and makes
// those that are missing. Others there stay as they are. Commands that write to them can
// have the host's network only if network is set.
func Open(dir sandbox.Host, list []Directory, network bool) (*Overlays, error) {
	o := &Overlays{dir: string(dir), helpers: helpers{network: network}}
	return o, o.open(list, func(l *overlay.Overlay, _ Directory) error { return l.InitSession() })
}

// Look is Open for callers that only list, pick or discard changes: it makes nothing.
func Look(dir sandbox.Host, list []Directory) (*Overlays, error) {
	o := &Overlays{dir: string(dir)}
	return o, o.open(list, nil)
}

// open opens the overlays over directories, and makes those that are missing if begin is
// not nil. While another golem does the same the error is ErrBusy.
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
			if err := l.Remove(); err != nil { // a golem that was killed may have left one
				return err
			}
			if err := begin(&l, d); err != nil {
				return err
			}
			i = len(known.Layers)
			known.Layers, known.Target = append(known.Layers, l), append(known.Target, d.Target)
			if err := known.write(o.dir); err != nil {
				return err
			}
		}
		o.layers, o.targets = append(o.layers, known.Layers[i]), append(o.targets, d.Target)
	}
	o.shown, o.all = make([]*os.File, len(o.layers)), known
	return nil
}

// find returns which overlay is over a directory, -1 for none.
func (o *Overlays) find(d Directory) int {
	return description{Layers: o.layers, Target: o.targets}.find(d)
}

// Path returns where commands find the overlay over a directory, "" if there is none.
func (o *Overlays) Path(d Directory) sandbox.Host {
	i := o.find(d)
	if i < 0 {
		return ""
	}
	return sandbox.Host(o.layers[i].SessionDir())
}

// OpenDirectory opens a directory as the session sees it. It is mounted if it is not yet.
// If another golem has it mounted, the error is ErrBusy.
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

// StartHelper starts the helper that OpenDirectory will need, and returns at once: it
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

// use takes the overlays for this golem, and starts the helper that one needs.
func (o *Overlays) use(l overlay.Overlay) (err error) {
	if o.used == nil {
		if o.used, err = lockFile(filepath.Join(o.dir, usedName), unix.LOCK_EX, busyWait); err != nil {
			return err
		}
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

// by returns who works on an overlay that is mounted: the helper that has the mount, and on
// a copy this process.
func (o *Overlays) by(l overlay.Overlay) *helper {
	if l.IsCopy {
		return &helper{}
	}
	return o.helpers.now
}

// States returns what the session has at the path of a change, and what the directory has.
func (o *Overlays) States(c SessionChange) (own, real overlay.State, err error) {
	i := slices.Index(o.targets, c.Target)
	if i < 0 {
		return own, real, fs.ErrNotExist
	}
	return o.layers[i].States(c.Change)
}

// Base returns what a changed file was when the session first changed it, nil if that is
// not kept.
func (o *Overlays) Base(c SessionChange) (base []byte) {
	if i := slices.Index(o.targets, c.Target); i >= 0 {
		base, _ = o.layers[i].BaseContent(c.Path)
	}
	return base
}

// Texts returns what a changed file is in the directory now, and what the session has made
// of it; nil for one that does not exist, or has more than most bytes.
func (o *Overlays) Texts(c SessionChange, most int64) (real, own []byte) {
	i := slices.Index(o.targets, c.Target)
	if i < 0 {
		return nil, nil
	}
	l := o.layers[i]
	if c.OldKind == overlay.File {
		real, _ = overlay.ReadFile(l.Dir, c.Path, most)
	}
	if c.Kind == overlay.File {
		own, _ = overlay.ReadFile(l.UpperOrCopy(), c.Path, most)
	}
	return real, own
}

// OtherTargets returns the targets of directories that the session has changes over and
// that were not named to Open: the configuration was another one.
func (o *Overlays) OtherTargets() (targets []string) {
	for i, l := range o.all.Layers {
		if entries, err := os.ReadDir(l.UpperDir()); !slices.Contains(o.layers, l) && (err != nil || len(entries) > 0) {
			targets = append(targets, o.all.Target[i])
		}
	}
	return targets
}

// Usage returns how many files the session keeps, and how many bytes.
func (o *Overlays) Usage() (files int, bytes int64) {
	for _, l := range o.all.Layers {
		n, size, _ := l.Usage()
		files, bytes = files+n, bytes+size
	}
	return files, bytes
}

// Discard takes the changes at and below names out of the overlays: the directories show
// through again. It calls check with what is discarded, while no call can change that, and
// does nothing if check returns an error.
func (o *Overlays) Discard(names []string, check func([]SessionChange) error) error {
	return o.alone(func() error {
		h := o.helpers.any()
		list, _, err := o.listBelow(h, names)
		if err != nil {
			return err
		}
		if err := check(list); err != nil {
			return err
		}
		for i, l := range o.layers {
			paths := o.pathsIn(i, names)
			if len(paths) == 0 {
				continue
			}
			if _, err := h.ask(request{Do: discardChanges, Layer: l, Paths: paths}); err != nil {
				return err
			}
		}
		return nil
	})
}

// pathsIn returns the paths that names have in an overlay.
func (o *Overlays) pathsIn(i int, names []string) (paths []string) {
	for _, name := range names {
		if rel, ok := o.pathIn(i, name); ok {
			paths = append(paths, rel)
		}
	}
	return paths
}

// pathIn returns the path of a name in an overlay, if the overlay has it: another directory
// may be mounted in the directory.
func (o *Overlays) pathIn(i int, name string) (rel string, ok bool) {
	in := -1
	for n, target := range o.targets {
		if (target == "/" || name == target || strings.HasPrefix(name, target+"/")) && (in < 0 || len(target) > len(o.targets[in])) {
			in = n
		}
	}
	if name == "/" { // all
		return ".", true
	}
	if in != i {
		return "", false
	}
	rel = strings.TrimPrefix(strings.TrimPrefix(name, o.targets[i]), "/")
	if rel == "" {
		rel = "."
	}
	return rel, true
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

// Remove removes the overlays with all changes in them.
func (o *Overlays) Remove() error {
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
		for _, l := range o.all.Layers {
			r := request{Do: removeRecord, Layer: l}
			if _, err := (&helper{}).ask(r); err == nil {
				continue // only directories that the user cannot enter need a process
			}
			if _, err := o.helpers.any().ask(r); err != nil {
				return err
			}
		}
		return overlay.Overlay{Store: o.dir}.Remove()
	})
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
