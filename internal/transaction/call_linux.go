package transaction

import (
	"errors"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Enter is called before a call looks at the overlays or changes them, and leave after it.
// With fresh, the overlays show from here on what others have changed in the directories
// below; with changes, what is changed until leave is recorded with what it was before.
func (o *Overlays) Enter(fresh, changes bool) (leave func() error, err error) {
	if len(o.layers) == 0 { // there is nothing that calls share
		return func() error { return nil }, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inCall == nil {
		if o.inCall, err = lockFile(filepath.Join(o.dir, callName), unix.LOCK_SH, busyWait); err != nil {
			return nil, err
		}
	}
	o.calls++
	for i, l := range o.layers {
		if o.shown[i] == nil || !fresh {
			continue
		}
		if _, err := o.by(l).ask(request{Do: flushOverlay, Layer: l}); err != nil {
			o.leave(false)
			return nil, err
		}
	}
	if changes && o.calls == 1 { // what others began earlier is recorded from then
		if o.guests > 0 {
			if err := o.record(); err != nil {
				o.leave(false)
				return nil, err
			}
		}
		for i, l := range o.layers {
			if o.shown[i] == nil {
				continue // it is stamped when it is mounted
			}
			if err := l.MarkStart(); err != nil {
				o.leave(false)
				return nil, err
			}
		}
	}
	return func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.leave(changes)
	}, nil
}

// leave ends a call.
func (o *Overlays) leave(changed bool) (err error) {
	o.calls--
	o.last = nil
	for i, l := range o.layers {
		if changed && o.shown[i] != nil {
			got, e := o.by(l).ask(request{Do: recordChanges, Layer: l, Tidy: o.isIdle()})
			err = errors.Join(err, e)
			for _, name := range got.Touched {
				o.last = append(o.last, path.Join(o.targets[i], name))
			}
		}
	}
	if o.calls == 0 {
		o.inCall.Close()
		o.inCall = nil
	}
	return err
}

// Touched returns some of the names that the last call has changed.
func (o *Overlays) Touched() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.last)
}

// alone runs do while no call works on the overlays, of this golem or another, except the
// one that it belongs to.
func (o *Overlays) alone(do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls > 1 {
		return ErrBusy
	}
	call := o.inCall
	if call == nil {
		var err error
		if call, err = lockFile(filepath.Join(o.dir, callName), unix.LOCK_SH, busyWait); err != nil {
			return err
		}
		defer call.Close()
	}
	if err := lock(call, unix.LOCK_EX, busyWait); err != nil {
		return err
	}
	defer lock(call, unix.LOCK_SH, 0)
	return do()
}

// Serve implements jail.Overlays. While a service runs, nothing that it may have open is
// taken out of the overlays.
func (o *Overlays) Serve() (ended func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guests++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.guests--
		o.record()
	}
}

// record records what was changed so far, and what it was before. If nobody works on the
// overlays, it takes out what is no change.
func (o *Overlays) record() (err error) {
	for i, l := range o.layers {
		if o.shown[i] != nil {
			_, e := o.by(l).ask(request{Do: recordChanges, Layer: l, Tidy: o.isIdle()})
			err = errors.Join(err, e)
		}
	}
	return err
}

// isIdle reports whether no call and no service works on the overlays.
func (o *Overlays) isIdle() bool { return o.calls == 0 && o.guests == 0 }
