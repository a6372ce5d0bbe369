package state

import (
	"context"
	"io"
)

// The interfaces below are all that other packages know of how data is kept. A Dir
// implements them with plain files. statetest tests any implementation, including kills
// at any moment.

// A Log is a sequence of records that every process sees in the same order. Records never
// change, and their numbers start at 1.
type Log interface {
	// Append adds the records that next returns, all or none. Nobody else appends while
	// next runs, so next can build on the tail it gets. The mark is kept with the records
	// and is part of the next tail. With sync, the records are on disk when Append
	// returns. Without sync, they survive the process but not the machine, until a later
	// Append with sync.
	Append(sync bool, next func(Tail) (records [][]byte, mark []byte, err error)) error
	// Read calls yield for each record from the given number on, until yield returns an
	// error, which Read returns. The record is valid only during the call. Read reports
	// damage of the log after it has read all that is there.
	Read(from uint64, yield func(number uint64, record []byte) error) error
	// Watch waits until the record of a number exists, or ctx ends.
	Watch(ctx context.Context, number uint64) error
	// Tail returns how the log ends, and repairs nothing.
	Tail() (Tail, error)
	Close() error
}

// A Tail is the end of a log, with what a crash left there. The next Append repairs it:
// it keeps complete records and removes a torn one. Only data after the mark can be torn.
// Records that the mark counts stay, complete or not.
type Tail struct {
	Count uint64 // number of complete records
	Mark  []byte // the mark of the last Append; nil if there is none or it is damaged
	// Beyond are the complete records after the mark: their writer was killed before it
	// could write its own mark.
	Beyond [][]byte
	Torn   int64  // bytes of an incomplete record that no caller knows of
	Lost   uint64 // records that the mark counts but that no longer exist
}

// Once decides each key exactly once, for all processes.
type Once interface {
	// Decide gives key a value unless it has one. It returns the key's value, and whether
	// this call set it. The value is on disk when Decide returns.
	Decide(key string, value []byte) (kept []byte, first bool, err error)
	// Look returns the value of a key, and whether it has one.
	Look(key string) (value []byte, ok bool, err error)
	// Forget lets a key be decided again.
	Forget(key string) error
}

// Leases are held by one process at a time. They are released when the process ends, in
// whatever way.
type Leases interface {
	// Take waits for the lease of a name until ctx ends, and returns a function that
	// releases it. If others wait in vain, their error names the owner.
	Take(ctx context.Context, name, owner string) (release func() error, err error)
}

// Blobs are contents, each with its hash: hexadecimal SHA-256.
type Blobs interface {
	// Put keeps a content, and returns its hash. It is on the disk when Put returns.
	Put(content io.Reader) (hash string, err error)
	// Get returns a content of at most most bytes. A missing content is an error, and so
	// is one that no longer matches its hash.
	Get(hash string, most int64) ([]byte, error)
	// Remove removes a content. A missing one is no error.
	Remove(hash string) error
}
