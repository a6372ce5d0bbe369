package changes

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
)

// Child is jail.Child with the handler of this package. A program that uses the package
// must call it first in main.
func Child(args []string, stderr io.Writer) (code int, is bool) {
	return jail.Child(args, stderr, handle)
}

// handle carries out a request in a helper.
func handle(data json.RawMessage, files []int) (any, []int) {
	var r request
	if err := json.Unmarshal(data, &r); err != nil {
		return reply{Error: err.Error()}, nil
	}
	if r.Do == showOverlay {
		// A file that came with the request marks the overlays as used while it is open
		// here.
		return r.show()
	}
	return r.carryOut(), nil
}

// A helper carries out requests in a process that can enter all directories of the user.
// If process is nil, this process carries them out with its own permissions.
type helper struct{ process *jail.Helper }

// startHelper starts a helper that needs no mounts. If no process can be started, the
// helper has none.
func startHelper() *helper {
	p, err := jail.StartHelper(false, false)
	if err != nil {
		return &helper{}
	}
	return &helper{p}
}

// withHelper runs do with a new helper. If the helper ends too early, it runs do again
// with another one.
func withHelper(do func(*helper) error) error {
	for tries := 0; ; tries++ {
		h := startHelper()
		err := do(h)
		h.close()
		if !errors.Is(err, jail.ErrEnded) || tries == 2 {
			return err
		}
	}
}

// close ends the process of a helper.
func (h *helper) close() error {
	if h.process == nil {
		return nil
	}
	return h.process.Close()
}

// ask makes a request.
func (h *helper) ask(r request) (reply, error) {
	got, _, err := h.askFor(r)
	return got, err
}

// askFor makes a request with files, and returns the files that came with the reply.
func (h *helper) askFor(r request, with ...int) (got reply, files []int, err error) {
	err = retry(func() error {
		got, files, err = h.askOnce(r, with...)
		return err
	})
	return got, files, err
}

// askOnce is askFor without a retry. If another process works on the same overlay, the error
// is an overlay.BusyError. The helper does not wait for long, because it cannot see whether
// that process is stopped, and must end soon if golem is killed.
func (h *helper) askOnce(r request, with ...int) (got reply, files []int, err error) {
	switch {
	case h.process != nil:
		files, err = h.process.Ask(r, &got, with...)
	case r.Do == showOverlay:
		got, files = r.show()
	default:
		got = r.carryOut()
	}
	switch {
	case err != nil:
		return got, nil, err
	case got.Busy != "":
		return got, files, &overlay.BusyError{File: got.Busy}
	case got.Error != "" && got.Later:
		return got, files, postponed("jail: " + got.Error)
	case got.Error != "":
		return got, files, errors.New("jail: " + got.Error)
	case got.More:
		got.Clash, _ = readList[string](r.Layer, clashName)
	}
	return got, files, nil
}

// A postponed is the error of work that may succeed later.
type postponed string

// Error implements error.
func (p postponed) Error() string { return string(p) }

// helpers are the helpers of a session's overlays.
type helpers struct {
	network  bool          // whether the helper with mounts has the network
	now      *helper       // nil before it is needed
	mounts   bool          // whether now has its own mounts
	starting chan starting // the helper that expect starts
	before   []*helper     // older helpers, which transactions may still use
}

// A starting is a started helper, or the error.
type starting struct {
	helper *jail.Helper
	err    error
}

// expect starts the helper that mount will need, and returns at once.
func (h *helpers) expect() {
	if h.now != nil || h.starting != nil {
		return
	}
	h.starting = make(chan starting, 1)
	go func(started chan<- starting) {
		p, err := jail.StartHelper(h.network, true)
		started <- starting{p, err}
	}(h.starting)
}

// start returns the helper that expect has started, or a new one. The helper has its own
// mounts.
func (h *helpers) start() (*helper, error) {
	var got starting
	if h.starting != nil {
		got = <-h.starting
		h.starting = nil
	} else {
		got.helper, got.err = jail.StartHelper(h.network, true)
	}
	if got.err != nil {
		return nil, got.err
	}
	return &helper{got.helper}, nil
}

// mount replaces the current helper with one that has its own mounts.
func (h *helpers) mount() error {
	if h.mounts {
		return nil
	}
	started, err := h.start()
	if err != nil {
		return err
	}
	if h.now != nil { // it cannot mount, and a transaction may still work with it
		h.before = append(h.before, h.now)
	}
	h.now, h.mounts = started, true
	return nil
}

// any returns a helper for work that needs no mount.
func (h *helpers) any() *helper {
	if h.now == nil {
		h.now = startHelper()
	}
	return h.now
}

// close ends all helpers.
func (h *helpers) close() (err error) {
	if h.starting != nil { // no caller needed it
		if started, failed := h.start(); failed == nil {
			err = started.close()
		}
	}
	if h.now != nil {
		err = errors.Join(err, h.now.close())
	}
	for _, b := range h.before {
		err = errors.Join(err, b.close())
	}
	h.now, h.mounts, h.before = nil, false, nil
	return err
}
