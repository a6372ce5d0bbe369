package changes

import (
	"errors"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Enter starts a call that reads or changes the overlays. The caller calls leave at its
// end. If fresh is set, the overlays now show the current state of the directories below.
// If changes is set, leave records the changes of the call together with the state before
// them.
func (o *Overlays) Enter(fresh, changes bool) (leave func() error, err error) {
	if len(o.layers) == 0 { // calls share nothing
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
	if changes && o.calls == 1 { // earlier calls that still run have marked the start
		if o.guests > 0 {
			if err := o.record(); err != nil {
				o.leave(false)
				return nil, err
			}
		}
		for i, l := range o.layers {
			if o.shown[i] == nil {
				continue // mounting it marks the start
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

// leave ends a call. If the call may have changed something, leave records it.
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

// Touched returns some of the names that the last call changed.
func (o *Overlays) Touched() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.last)
}

// alone runs do while no other call, of this golem or another one, works on the overlays.
// The call that do belongs to may be running.
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

// Serve implements jail.Overlays. While a service runs, golem removes no file from the
// overlays that the service may have open.
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

// record records all changes so far, together with the state before them. If the overlays
// are idle, it also removes entries that do not differ from the directory.
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
