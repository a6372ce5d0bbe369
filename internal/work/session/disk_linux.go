package session

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// How often golem measures the changes of a session while a command runs. It asks for the
// free space often, and looks at the files if that has shrunk enough, or after a while that
// grows with the time that the look takes.
const (
	diskInterval = 500 * time.Millisecond
	diskGrace    = 25 * time.Millisecond // until the first look if the session may have too much already
	diskRest     = 5 * time.Second
	diskShare    = 20 // of the time, golem looks at files for one part at most
)

// A diskWatch stops a command whose session takes too much of the disk.
type diskWatch struct {
	workspace *Workspace
	limit     int64 // bytes of all changes; 0 means half of the free space more than the session has
	stop      func()

	ended   chan struct{}
	done    sync.WaitGroup
	reached int64 // the limit, if the session reached it
}

// watchDisk returns a context for a command. It ends when the changes of the session exceed
// the limit. The caller calls finish after the command.
func (c *Commands) watchDisk(ctx context.Context) (context.Context, *diskWatch) {
	w := &diskWatch{workspace: c.workspace, limit: c.policy.Limits.Disk, ended: make(chan struct{})}
	ctx, w.stop = context.WithCancel(ctx)
	if c.workspace.Session == nil {
		return ctx, w
	}
	if free, ok := freeSpace(c.workspace.Session.dir); ok {
		w.done.Go(func() { w.watch(free) })
	}
	return ctx, w
}

// A diskLook is the last look at the files of a session.
type diskLook struct {
	mu         sync.Mutex
	known      bool
	size, free int64 // of the session, and left on the disk
}

// finish ends the watch. If it stopped the command, the result says so.
func (w *diskWatch) finish(r *jail.Result) {
	close(w.ended)
	w.done.Wait()
	w.stop()
	if w.reached > 0 {
		r.Stopped, r.Hit, r.Limits.Disk = false, append(r.Hit, jail.DiskLimit), w.reached
	}
}

// watch measures until the command has ended. Free is the free space at its start. Many short
// commands together may take as much as one long command.
func (w *diskWatch) watch(free int64) {
	last := &w.workspace.diskLook
	last.mu.Lock()
	if !last.known {
		last.known, last.free = true, free
	}
	size, freeThen := last.size, last.free
	last.mu.Unlock()

	limit, wait := w.limit, diskInterval
	if limit > 0 && size+freeThen-free >= limit {
		wait = diskGrace
	}
	tick := time.NewTicker(wait)
	defer tick.Stop()
	var next time.Time // of the next look at the files
	for {
		select {
		case <-w.ended:
			return
		case <-tick.C:
			tick.Reset(diskInterval)
		}
		left, ok := freeSpace(w.workspace.Session.dir)
		if !ok || w.workspace.store.Now().Before(next) && size+freeThen-left < limit && left > free/diskShare {
			continue
		}
		began := w.workspace.store.Now()
		held, whole := w.workspace.diskUse()
		next = w.workspace.store.Now().Add(max(diskRest, diskShare*w.workspace.store.Now().Sub(began)))
		size, freeThen = held, left
		last.mu.Lock()
		last.size, last.free = size, freeThen
		last.mu.Unlock()
		if limit == 0 {
			limit = max(roundSize(held+free/2), 1<<20)
		}
		// Files without a name do not count, but must not fill the disk either.
		if !whole || size > limit || left < free/diskShare && free-left > limit/2 {
			w.reached = limit
			w.stop()
			return
		}
	}
}

// diskUse returns how much the changes of the session take on the disk, with the homes of
// its programs. It reports false if it could not look at everything, several times in a row.
func (w *Workspace) diskUse() (bytes int64, whole bool) {
	for range 3 { // somebody may move very deep directories meanwhile
		if bytes, whole = changes.DiskUse(sandbox.Host(w.Session.dir), sandbox.Host(filepath.Join(w.Session.dir, ownersName))); whole {
			break
		}
	}
	return bytes, whole
}

// freeSpace returns how many bytes the user can still write to the file system of a
// directory, false if golem cannot tell.
func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}

// roundSize rounds a size down to whole MiB.
func roundSize(n int64) int64 { return n >> 20 << 20 }
