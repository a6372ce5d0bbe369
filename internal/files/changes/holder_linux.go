package changes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/records/state"
)

// SetHolder sets what other golems see while this one works on the session.
func (o *Overlays) SetHolder(h Holder) { o.holder = h }

// writeHolder writes to the locked file who holds the lock. Others only show it, so an
// error does not matter.
func writeHolder(f *os.File, h Holder) {
	if data, err := json.Marshal(h); err == nil && f.Truncate(0) == nil {
		f.WriteAt(data, 0)
	}
}

// Holder returns the other golem that works on the session now. ok is false if there is
// none. An older golem does not say what it runs.
func (o *Overlays) Holder() (h Holder, ok bool) {
	if !o.IsBusy() {
		return h, false
	}
	f, err := os.Open(filepath.Join(o.dir, usedName))
	if err != nil {
		return h, true
	}
	defer f.Close()
	const most = 1 << 16
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}, true
	}
	return h, true
}

// Process returns the process of the other golem that works on a session now, as the kernel
// shows it. It is 0 if there is none.
func Process(o *Overlays) int {
	if !o.IsBusy() {
		return 0
	}
	f, err := os.Open(filepath.Join(o.dir, usedName))
	if err != nil {
		return 0
	}
	defer f.Close()
	return state.LockHolder(f)
}

// AwaitCalls waits until no call of another golem works on the session, or until ctx ends;
// the error is then its cause. It calls tell once, before it waits.
func AwaitCalls(ctx context.Context, o *Overlays, tell func(Holder)) error {
	const step = 50 * time.Millisecond
	for told := false; ; {
		f, err := lockFile(filepath.Join(o.dir, callName), unix.LOCK_EX, 0)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, ErrBusy) {
			return nil // the next command in the session reports other errors
		}
		if !told {
			h, _ := o.Holder()
			tell(h)
			told = true
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(step):
		}
	}
}
