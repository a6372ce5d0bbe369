package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// fileLeases are locked files, each named by the hash of the lease's name. A file
// contains its owner.
type fileLeases struct{ folder *Dir }

// maxOwner limits the length of an owner in messages.
const maxOwner = 256

// Leases returns the leases of the directory.
func (f *Dir) Leases() (Leases, error) { return &fileLeases{f}, nil }

// Take implements Leases. It tries at least once.
func (l *fileLeases) Take(ctx context.Context, name, owner string) (release func() error, err error) {
	room, err := l.folder.room("leases", true)
	if err != nil {
		return nil, err
	}
	hash := hexHash(name)
	file, err := room.wait(ctx, hash)
	if err != nil {
		room.Close()
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	free := sync.OnceValue(func() error {
		room.root.Remove(hash) // if that fails, the file stays and is used again
		return errors.Join(room.unlock(file), room.Close())
	})
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(owner[:min(len(owner), maxOwner)]), 0)
	}
	if err != nil {
		free()
		return nil, fmt.Errorf("lease %q: %w", name, trouble("leases", err))
	}
	return free, nil
}

// Lock is a lease for short and frequent use: its file stays, because to create and remove
// it takes longer than the rest. A Lock and a lease of the same name exclude each other.
func (f *Dir) Lock(ctx context.Context, name, owner string) (release func() error, err error) {
	room, err := f.room("leases", true)
	if err != nil {
		return nil, err
	}
	file, err := room.wait(ctx, hexHash(name))
	if err == nil && file.size == 0 {
		_, err = file.WriteAt([]byte(owner[:min(len(owner), maxOwner)]), 0)
	}
	if err != nil {
		if file != nil {
			room.unlock(file)
		}
		room.Close()
		return nil, fmt.Errorf("lock %q: %w", name, trouble("leases", err))
	}
	return sync.OnceValue(func() error { return errors.Join(room.unlock(file), room.Close()) }), nil
}

// wait locks a file. It gives up when ctx ends.
func (f *Dir) wait(ctx context.Context, name string) (*held, error) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		file, err := f.lock(name, nil, false)
		if err != nil || file != nil {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("held by %q; wait for it, or end it: %w", f.owner(name), context.Cause(ctx))
		case <-tick.C:
			tick.Reset(interval / 5)
		}
	}
}

// LeaseHolder returns the process that has the lease of a name now: 0 if none has it, or if
// the system does not show it.
func (f *Dir) LeaseHolder(name string) int {
	room, err := f.room("leases", false)
	if err != nil {
		return 0
	}
	defer room.Close()
	file, err := open(room.root, hexHash(name), toRead)
	if err != nil {
		return 0
	}
	defer file.Close()
	return LockHolder(file)
}

// MayBeLeased reports whether somebody may have the lease of a name. It writes nothing, and
// Take finds out.
func (f *Dir) MayBeLeased(name string) bool {
	room, err := f.room("leases", false)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer room.Close()
	_, err = room.root.Lstat(hexHash(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// LockHolder returns the process that holds the lock of an open file: 0 if none does, or if
// the system does not show it.
func LockHolder(file *os.File) int { return holder(file).id }

// owner returns the owner that a lease's file names.
func (f *Dir) owner(name string) string {
	file, err := open(f.root, name, toRead)
	if err != nil {
		return "somebody"
	}
	defer file.Close()
	owner, err := io.ReadAll(io.LimitReader(file, maxOwner))
	if err != nil || len(owner) == 0 {
		return "somebody"
	}
	return string(owner)
}
