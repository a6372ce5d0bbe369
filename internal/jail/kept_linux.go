package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Kept are the layers of a session: what its commands and file tools have changed
// over some folders, in a folder of golem's own, until it lands or is discarded. A
// session may have copies of the folders instead.
//
// The layers are mounted in a holder when they are first shown, by one golem at a
// time. To list, take or discard changes nothing needs to be mounted, and another
// golem may be at work: only its calls are waited for.
type Kept struct {
	dir     string
	layers  []overlay.Overlay
	target  []string // of each, as the sandbox names it
	all     about    // with those that are over other folders
	network bool
	now     func() time.Time

	mu      sync.Mutex
	holder  *Session    // nil before it is needed
	coming  chan coming // the one that Expect has started
	helpers []*Session  // holders before it, which transactions may still work with
	mounts  bool        // it has mounts of its own
	shown   []*os.File  // of each layer, once it is mounted
	used    *os.File    // says that they are
	calls   int         // that run now
	guests  int         // who work on them and are in no call
	last    []string    // some of what the last one has changed
	inCall  *os.File    // says that some do
	owners  []string    // whose commands work on them, as Policy.Loopback names them
	sole    bool        // the first owner was promised that it is the only one
}

// The files of a session's folder that are locked: while its layers are mounted,
// and while a call works on them.
const (
	usedName = "used"
	callName = "call"
)

// OpenKept opens the layers over folders that are kept in a folder of golem's, and
// makes those that are missing. Others that are there are left as they are. Commands
// that write to them must have this network.
func OpenKept(dir sandbox.Host, over []Over, network bool, now func() time.Time) (*Kept, error) {
	k := &Kept{dir: string(dir), network: network, now: now}
	return k, k.open(over, func(l *overlay.Overlay, _ Over) error { return l.InitSession() })
}

// LookKept is OpenKept for who lists, takes or discards: it makes nothing.
func LookKept(dir sandbox.Host, over []Over, now func() time.Time) (*Kept, error) {
	k := &Kept{dir: string(dir), now: now}
	return k, k.open(over, nil)
}

// open opens what is kept over folders, and makes what is missing if it can. While
// another golem does the same the error is ErrBusy.
func (k *Kept) open(over []Over, begin func(*overlay.Overlay, Over) error) error {
	if begin != nil {
		if err := os.MkdirAll(k.dir, 0o700); err != nil {
			return err
		}
		dir, err := os.Open(k.dir)
		if err != nil {
			return err
		}
		defer dir.Close()
		if err := lock(dir, unix.LOCK_EX, busyWait); err != nil {
			return err
		}
	}
	known, err := aboutAt(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, o := range over {
		i := known.find(o)
		if i < 0 && begin == nil {
			continue
		}
		if i < 0 {
			l := overlay.Overlay{Dir: string(o.Folder), Store: filepath.Join(k.dir, strconv.Itoa(len(known.Layers)))}
			if err := l.Remove(); err != nil { // what somebody has left who was killed
				return err
			}
			if err := begin(&l, o); err != nil {
				return err
			}
			i = len(known.Layers)
			known.Layers, known.Target = append(known.Layers, l), append(known.Target, o.Target)
			if err := known.write(k.dir); err != nil {
				return err
			}
		}
		k.layers, k.target = append(k.layers, known.Layers[i]), append(k.target, o.Target)
	}
	k.shown, k.all = make([]*os.File, len(k.layers)), known
	return nil
}

// find returns which layer is over a folder, -1 for none.
func (a about) find(o Over) int {
	for i, l := range a.Layers {
		if l.Dir == string(o.Folder) && a.Target[i] == o.Target {
			return i
		}
	}
	return -1
}

// aboutAt reads what is written down of layers.
func aboutAt(dir string) (a about, err error) {
	data, err := os.ReadFile(filepath.Join(dir, aboutName))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil || len(a.Layers) != len(a.Target) {
		return a, fmt.Errorf("%s: not as it was written", aboutName)
	}
	return a, nil
}

// write writes it down, without the kernel's numbers of folders: who reads it later may
// find a folder with others in its place, and rightly so.
func (a about) write(dir string) error {
	a.Layers = slices.Clone(a.Layers)
	for i := range a.Layers {
		a.Layers[i].Device, a.Layers[i].Inode = 0, 0
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, aboutName), data)
}

// Through is where commands find the layer over a folder.
func (k *Kept) Through(o Over) sandbox.Host {
	i := about{Layers: k.layers, Target: k.target}.find(o)
	if i < 0 {
		return ""
	}
	return sandbox.Host(k.layers[i].SessionDir())
}

// Folder returns a folder as the session sees it. It is mounted if it is not yet.
// Where another golem has it, the error is ErrBusy.
func (k *Kept) Folder(o Over) (*os.File, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := about{Layers: k.layers, Target: k.target}.find(o)
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	if k.shown[i] != nil {
		return k.shown[i], nil
	}
	if err := k.use(k.layers[i]); err != nil {
		return nil, err
	}
	got, files, err := k.by(k.layers[i]).askFor(ask{Do: showLayer, Layer: k.layers[i]}, int(k.used.Fd()))
	if err != nil {
		return nil, err
	}
	if got.Error != "" || len(files) != 1 {
		return nil, errors.New("jail: " + got.Error)
	}
	k.shown[i] = os.NewFile(uintptr(files[0]), "layer")
	return k.shown[i], nil
}

// Busy reports whether another golem works on the session now.
func (k *Kept) Busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used != nil {
		return false
	}
	f, err := lockFile(filepath.Join(k.dir, usedName), unix.LOCK_EX, 0)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrBusy)
}

// use takes the layers for this golem, and starts the holder that a layer needs.
func (k *Kept) use(l overlay.Overlay) (err error) {
	if k.used == nil {
		if k.used, err = lockFile(filepath.Join(k.dir, usedName), unix.LOCK_EX, busyWait); err != nil {
			return err
		}
	}
	if l.IsCopy || k.mounts {
		return nil
	}
	holder, err := k.newHolder()
	if err != nil {
		k.used.Close()
		k.used = nil
		return err
	}
	if k.holder != nil { // it cannot mount, and a transaction may still work with it
		k.helpers = append(k.helpers, k.holder)
	}
	k.holder, k.mounts = holder, true
	return nil
}

// by returns who does something with a layer while it is worked on: the holder that
// has it, and with a copy this process.
func (k *Kept) by(l overlay.Overlay) *Session {
	if l.IsCopy {
		return unheld(Policy{}, k.now)
	}
	return k.holder
}

// busyWait is how long others are waited for.
const busyWait = 5 * time.Second

// lockFile opens a file and locks it. Where others hold it longer than a moment
// the error is ErrBusy.
func lockFile(name string, how int, most time.Duration) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, how, most); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lock locks a file, or makes another lock of the one it has.
func lock(f *os.File, how int, most time.Duration) error {
	const step = 5 * time.Millisecond
	for wait := time.Duration(0); ; wait += step {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == unix.EWOULDBLOCK && wait >= most:
			return ErrBusy
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return err
		}
		time.Sleep(step)
	}
}

// helper returns a holder for work that needs no mount.
func (k *Kept) helper() *Session {
	if k.holder == nil {
		k.holder = startHelper(Policy{}, k.now)
	}
	return k.holder
}

// Enter is called before something is looked at or changed in the layers, and what
// it returns afterwards. With fresh, what others have changed in the folders below is
// seen from here on; with changes, what is changed until the end is noted with what
// it was changed from.
func (k *Kept) Enter(fresh, changes bool) (leave func() error, err error) {
	if len(k.layers) == 0 { // nothing that a call could be in the way of
		return func() error { return nil }, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inCall == nil {
		if k.inCall, err = lockFile(filepath.Join(k.dir, callName), unix.LOCK_SH, busyWait); err != nil {
			return nil, err
		}
	}
	k.calls++
	for i, l := range k.layers {
		if k.shown[i] == nil || !fresh {
			continue
		}
		if _, err := k.by(l).ask(ask{Do: flushLayer, Layer: l}); err != nil {
			k.left(false)
			return nil, err
		}
	}
	if changes && k.calls == 1 { // what others began earlier is noted from then
		if k.guests > 0 {
			if err := k.note(); err != nil {
				k.left(false)
				return nil, err
			}
		}
		for i, l := range k.layers {
			if k.shown[i] == nil {
				continue // it is stamped then
			}
			if err := l.MarkStart(); err != nil {
				k.left(false)
				return nil, err
			}
		}
	}
	return func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.left(changes)
	}, nil
}

// left ends a call.
func (k *Kept) left(changed bool) (err error) {
	k.calls--
	k.last = nil
	for i, l := range k.layers {
		if changed && k.shown[i] != nil {
			got, e := k.by(l).ask(ask{Do: recordLayer, Layer: l, Tidy: k.tidy()})
			err = errors.Join(err, e)
			for _, name := range got.Touched {
				k.last = append(k.last, path.Join(k.target[i], name))
			}
		}
	}
	if k.calls == 0 {
		k.inCall.Close()
		k.inCall = nil
	}
	return err
}

// Touched names some of what the last call has changed in the layers.
func (k *Kept) Touched() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.last)
}

// alone runs something while no call works on the layers, of this golem or another,
// but the one that it belongs to. It may ask for a holder.
func (k *Kept) alone(do func(helper func() *Session) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls > 1 {
		return ErrBusy
	}
	call := k.inCall
	if call == nil {
		var err error
		if call, err = lockFile(filepath.Join(k.dir, callName), unix.LOCK_SH, busyWait); err != nil {
			return err
		}
		defer call.Close()
	}
	if err := lock(call, unix.LOCK_EX, busyWait); err != nil {
		return err
	}
	defer lock(call, unix.LOCK_SH, 0)
	return do(k.helper)
}

// States returns what the session has at the path of a change, and what the folder has.
func (k *Kept) States(c Standing) (own, real overlay.State, err error) {
	for i, l := range k.layers {
		if k.target[i] == c.Target {
			return l.States(c.Change)
		}
	}
	return own, real, fs.ErrNotExist
}

// Base returns what a changed file was when the session first changed it, nil where
// that is not kept.
func (k *Kept) Base(c Standing) (base []byte) {
	for i, l := range k.layers {
		if k.target[i] == c.Target {
			base, _ = l.BaseContent(c.Path)
		}
	}
	return base
}

// Texts returns what a changed file is in the folder now, and what the session has
// made of it; nil for what is not there, or has more than so many bytes.
func (k *Kept) Texts(c Standing, most int64) (real, own []byte) {
	for i, l := range k.layers {
		if k.target[i] != c.Target {
			continue
		}
		if c.OldKind == overlay.File {
			real, _ = overlay.ReadFile(l.Dir, c.Path, most)
		}
		if c.Kind == overlay.File {
			own, _ = overlay.ReadFile(l.UpperOrCopy(), c.Path, most)
		}
	}
	return real, own
}

// Others names the targets that folders had over which there are layers too: the
// configuration was another one.
func (k *Kept) Others() (targets []string) {
	for i, l := range k.all.Layers {
		if entries, err := os.ReadDir(l.UpperDir()); !slices.Contains(k.layers, l) && (err != nil || len(entries) > 0) {
			targets = append(targets, k.all.Target[i])
		}
	}
	return targets
}

// Usage tells how much the session keeps.
func (k *Kept) Usage() (files int, bytes int64) {
	for _, l := range k.all.Layers {
		n, size, _ := l.Usage()
		files, bytes = files+n, bytes+size
	}
	return files, bytes
}

// Discard takes what is at and below names out of the layers: the folders show
// through again. It calls check with what is given up, while no call can change that, and
// does nothing if check returns an error.
func (k *Kept) Discard(names []string, check func([]Standing) error) error {
	return k.alone(func(helper func() *Session) error {
		s := helper()
		list, _, err := k.lost(s, names)
		if err != nil {
			return err
		}
		if err := check(list); err != nil {
			return err
		}
		for i, l := range k.layers {
			paths := k.within(i, names)
			if len(paths) == 0 {
				continue
			}
			if _, err := s.ask(ask{Do: discardKept, Layer: l, Paths: paths}); err != nil {
				return err
			}
		}
		return nil
	})
}

// within returns the paths that names have in a layer.
func (k *Kept) within(i int, names []string) (paths []string) {
	for _, name := range names {
		if rel, ok := k.below(i, name); ok {
			paths = append(paths, rel)
		}
	}
	return paths
}

// below returns the path of a name in a layer, if the name is one of it: another
// mount may stand in the folder.
func (k *Kept) below(i int, name string) (rel string, ok bool) {
	in := -1
	for n, target := range k.target {
		if (target == "/" || name == target || strings.HasPrefix(name, target+"/")) && (in < 0 || len(target) > len(k.target[in])) {
			in = n
		}
	}
	if name == "/" { // all
		return ".", true
	}
	if in != i {
		return "", false
	}
	rel = strings.TrimPrefix(strings.TrimPrefix(name, k.target[i]), "/")
	if rel == "" {
		rel = "."
	}
	return rel, true
}

// Close lets go of the layers. What they hold stays.
func (k *Kept) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.shown {
		f.Close()
	}
	var err error
	if k.coming != nil { // nobody has needed it
		if holder, failed := k.newHolder(); failed == nil {
			err = holder.Close()
		}
	}
	if k.holder != nil {
		err = errors.Join(err, k.holder.Close())
	}
	for _, s := range k.helpers {
		err = errors.Join(err, s.Close())
	}
	if k.used != nil {
		k.used.Close()
	}
	k.helpers = nil
	k.holder, k.mounts, k.used, k.shown = nil, false, nil, make([]*os.File, len(k.layers))
	return err
}

// Remove removes the layers with all that they hold.
func (k *Kept) Remove() error {
	used, err := lockFile(filepath.Join(k.dir, usedName), unix.LOCK_EX, 0)
	if err != nil {
		return err
	}
	defer used.Close()
	dir, err := os.Open(k.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := lock(dir, unix.LOCK_EX, 0); err != nil {
		return err
	}
	return k.alone(func(helper func() *Session) error {
		for _, l := range k.all.Layers {
			a := ask{Do: removeWork, Layer: l}
			if _, err := unheld(Policy{}, k.now).ask(a); err == nil {
				continue // only directories that the user cannot enter need a holder
			}
			if _, err := helper().ask(a); err != nil {
				return err
			}
		}
		return overlay.Overlay{Store: k.dir}.Remove()
	})
}
