package opfs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"sync"
	"syscall/js"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Workspace is a directory of the origin that this tab holds. Many goroutines may use it at
// once.
type Workspace struct {
	now  func() time.Time
	meta js.Value // the directory for unfinished writes and renames
	free func()   // releases the lock

	mu    sync.Mutex // held by an operation, also while it waits for the browser
	top   *node
	next  uint64  // the next ID
	temps uint64  // how many temporary files were made
	ready draft   // for the next write; the zero draft before the first one
	stuck error   // why no operation is possible any more
	held  []*node // files with an access handle, the one that was read last at the end
}

// The top directories: those of workspaces, and those for what is unfinished in them.
const (
	workspacesName = "workspaces"
	metaName       = "golem-unfinished"
)

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Open opens the workspace of an ID made of letters, digits, - and _, and makes it if there is
// none. It completes what a closed tab has begun. If another tab holds the workspace, the error
// has the code ErrConflict. Now is the clock, such as time.Now.
func Open(ctx context.Context, id string, now func() time.Time) (*Workspace, error) {
	if !validID.MatchString(id) {
		return nil, openError(id, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "the ID of a workspace has at most 64 letters, digits, - and _"})
	}
	w := &Workspace{now: now}
	var random [8]byte
	rand.Read(random[:]) // it never fails: see crypto/rand
	// IDs of an earlier tab must not come again, because versions have them.
	w.next = binary.LittleEndian.Uint64(random[:]) >> 2
	storage := js.Global().Get("navigator").Get("storage")
	if storage.IsUndefined() || storage.Get("getDirectory").IsUndefined() {
		return nil, openError(id, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "this page has no storage; it needs a browser with OPFS, and https or localhost"})
	}
	if err := w.lock(ctx, id); err != nil {
		return nil, openError(id, err)
	}
	if err := w.open(storage, id); err != nil {
		w.free()
		return nil, openError(id, err)
	}
	return w, nil
}

// openError returns an error of Open.
func openError(id string, err error) error {
	e := &sandbox.Error{Op: "open", Path: id, Code: sandbox.CodeOf(err)}
	if known := (*sandbox.Error)(nil); errors.As(err, &known) {
		e.Hint = known.Hint
	}
	return e
}

// lock takes the Web Lock of a workspace, or fails at once.
func (w *Workspace) lock(ctx context.Context, id string) error {
	got := make(chan bool, 1)
	hold := js.FuncOf(func(_ js.Value, args []js.Value) any {
		if args[0].IsNull() {
			got <- false
			return nil
		}
		promise := js.Global().Get("Promise").Call("withResolvers")
		w.free = func() { promise.Call("resolve") }
		got <- true
		return promise.Get("promise")
	})
	defer hold.Release()
	options := map[string]any{"ifAvailable": true}
	locks := js.Global().Get("navigator").Get("locks")
	if _, err := call(locks, "request", "golem-forge:"+id, options, hold); err != nil {
		return err
	}
	select {
	case ok := <-got:
		if !ok {
			return &sandbox.Error{Code: sandbox.ErrConflict, Hint: "another tab or sandbox has this workspace open; close it there, and try again"}
		}
		return nil
	case <-ctx.Done():
		return &sandbox.Error{Code: sandbox.ErrConflict, Hint: "the browser does not answer"}
	}
}

// open opens the directories, and completes what is unfinished.
func (w *Workspace) open(storage js.Value, id string) error {
	origin, err := ask(storage, "getDirectory")
	if err != nil {
		return err
	}
	directory := func(top string) (at js.Value, err error) {
		at = origin
		for _, name := range []string{top, id} {
			if err == nil {
				at, err = ask(at, "getDirectoryHandle", name, map[string]any{"create": true})
			}
		}
		return at, err
	}
	files, err := directory(workspacesName)
	if err != nil {
		return err
	}
	if w.meta, err = directory(metaName); err != nil {
		return err
	}
	w.top = w.newNode(nil, "", fs.ModeDir|0o755, files)
	return w.recover()
}

// Close gives the workspace back. Its backends must not be used any more.
func (w *Workspace) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.held) > 0 {
		w.release(w.held[0])
	}
	if d := w.ready; d.name != "" {
		if d.wait() == nil {
			d.access.Call("close")
		}
		w.drop(d)
		w.ready = draft{}
	}
	if w.free != nil {
		w.free()
		w.free = nil
	}
}

// Backend returns a backend for a directory of the workspace, "." for all of it. If the
// directory is missing, the first write makes it.
func (w *Workspace) Backend(dir string) sandbox.Backend { return &backend{w, path.Clean(dir)} }

// A draft is a temporary file for a write.
type draft struct {
	name           string
	opened         js.Value // the promise of both handles
	handle, access js.Value
}

// openAccess is the function that opens the access handle of a file handle.
var openAccess = sync.OnceValue(func() js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		return js.Global().Get("Promise").Call("all", []any{args[0], args[0].Call("createSyncAccessHandle")})
	})
})

// beginDraft asks the browser for a draft. The caller holds mu.
func (w *Workspace) beginDraft() draft {
	w.temps++
	d := draft{name: tempName + strconv.FormatUint(w.temps, 36)}
	d.opened = w.meta.Call("getFileHandle", d.name, map[string]any{"create": true}).Call("then", openAccess())
	d.opened.Call("catch", js.Global().Get("Boolean")) // who waits for it gets the error
	return d
}

// wait waits until the browser has opened the file.
func (d *draft) wait() error {
	both, err := await(d.opened)
	if err == nil {
		d.handle, d.access = both.Index(0), both.Index(1)
	}
	return err
}

// takeDraft returns a draft. Making one takes as long as the rest of a write, so it begins the
// one for the next write.
func (w *Workspace) takeDraft() (draft, error) {
	w.mu.Lock()
	d := w.ready
	prepared := d.name != ""
	if !prepared {
		d = w.beginDraft()
	}
	w.ready = w.beginDraft()
	w.mu.Unlock()
	err := d.wait()
	if err != nil && prepared { // it may be possible now
		w.drop(d)
		w.mu.Lock()
		d = w.beginDraft()
		w.mu.Unlock()
		err = d.wait()
	}
	if err != nil {
		w.drop(d)
	}
	return d, err
}

// drop removes the file of a draft, which is closed. If that fails, the next Open removes it.
func (w *Workspace) drop(d draft) { ask(w.meta, "removeEntry", d.name) }

// tempName begins the names of temporary files.
const tempName = "write-"

// recover completes the rename of a directory, and removes the temporary files of a tab that
// was closed.
func (w *Workspace) recover() error {
	if err := w.resume(); err != nil {
		return err
	}
	entries, err := list(w.meta)
	for _, e := range entries {
		if err == nil {
			_, err = ask(w.meta, "removeEntry", e.name, map[string]any{"recursive": true})
		}
	}
	return err
}
