package session

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
)

// How often golem measures the changes of a session while a command runs. It asks for the
// free space often, and looks at the files if that has shrunk enough, or after a while that
// grows with the time that the look takes.
const (
	diskInterval = 500 * time.Millisecond
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

// finish ends the watch. If it stopped the command, the result says so.
func (w *diskWatch) finish(r *jail.Result) {
	close(w.ended)
	w.done.Wait()
	w.stop()
	if w.reached > 0 {
		r.Stopped, r.Hit, r.Limits.Disk = false, append(r.Hit, jail.DiskLimit), w.reached
	}
}

// watch measures until the command has ended. Free is the free space at its start.
func (w *diskWatch) watch(free int64) {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	limit, size, freeThen := w.limit, int64(0), free
	var next time.Time // of the next look at the files
	for {
		select {
		case <-w.ended:
			return
		case <-tick.C:
		}
		left, ok := freeSpace(w.workspace.Session.dir)
		if !ok || w.workspace.store.Now().Before(next) && size+freeThen-left < limit && left > free/diskShare {
			continue
		}
		began := w.workspace.store.Now()
		held, whole := w.workspace.diskUse()
		if !whole { // a command hides files: all that is missing counts
			held = max(held, free-left)
		}
		next = w.workspace.store.Now().Add(max(diskRest, diskShare*w.workspace.store.Now().Sub(began)))
		if size, freeThen = held, left; limit == 0 {
			limit = max(roundSize(held+free/2), 1<<20)
		}
		// Files without a name do not count, but must not fill the disk either.
		if size > limit || left < free/diskShare && free-left > limit/2 {
			w.reached = limit
			w.stop()
			return
		}
	}
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

// diskUse returns how much the changes of the session take on the disk, with the homes of
// its programs. Of a copy, only changed files count. It reports false if a part could not
// be measured.
func (w *Workspace) diskUse() (bytes int64, whole bool) {
	dirs := []string{filepath.Join(w.Session.dir, ownersName)}
	if w.Session.Copy && w.changes != nil {
		_, bytes = w.changes.Usage()
	} else {
		uppers, _ := filepath.Glob(filepath.Join(w.Session.dir, "*", "upper")) // the pattern is valid
		dirs = append(dirs, uppers...)
	}
	whole = true
	for _, dir := range dirs {
		more, all := overlay.DiskUse(dir)
		bytes, whole = bytes+more, whole && all
	}
	return bytes, whole
}
