package state

import (
	"context"
	"io"
)

// The contracts below are what the rest of the house knows of how things are
// kept. A Directory gives out implementations in plain files; statetest holds any
// implementation to them, a kill at any moment included.

// A Log is records in one order that every process sees. Records are never
// changed, and are numbered from 1.
type Log interface {
	// Append adds what next returns, all of it or nothing. While next runs nobody
	// else appends, so it may build on the tail that it is given. The mark it
	// returns is kept beside the records, and is part of the next tail. With sync
	// the records are on the disk when Append returns; without, they outlive the
	// process but not the machine, until a later Append with sync.
	Append(sync bool, next func(Tail) (records [][]byte, mark []byte, err error)) error
	// Read calls yield for each record from the given number on, until yield
	// returns an error, which it passes on. The record is yield's only for the
	// time of the call. What is wrong with how the log is kept is the error when
	// all that is there was read.
	Read(from uint64, yield func(number uint64, record []byte) error) error
	// Watch waits until the record of a number is there, or ctx ends.
	Watch(ctx context.Context, number uint64) error
	// Tail returns how the log ends, and fixes nothing.
	Tail() (Tail, error)
	Close() error
}

// A Tail is how a log ends, and what a crash has left there. The next Append
// fixes it: whole records stay, a torn one goes. Only what comes after the mark
// can be torn: what the mark counts stays, whole or not.
type Tail struct {
	Count uint64 // whole records that are there
	Mark  []byte // what the last Append left; nil if there is none, or it is damaged
	// Beyond are the whole records that came after the mark: their writer was
	// killed before it could leave its own.
	Beyond [][]byte
	Torn   int64  // bytes of a record that is not whole, and that nobody was told of
	Lost   uint64 // records that the mark counts and that are no longer there
}

// Once decides keys exactly once, whoever asks and from wherever.
type Once interface {
	// Decide gives key a value, unless it has one, and returns the value that it
	// has then, and whether this call gave it. It is on the disk when Decide
	// returns.
	Decide(key string, value []byte) (kept []byte, first bool, err error)
	// Look returns the value of a key, and whether it has one.
	Look(key string) (value []byte, ok bool, err error)
	// Forget lets a key be decided anew.
	Forget(key string) error
}

// Leases are held by one process at a time. A process that ends, in whatever
// way, holds none.
type Leases interface {
	// Take waits for the lease of a name, until ctx ends, and returns how to give
	// it back. The owner is told to those who wait in vain.
	Take(ctx context.Context, name, owner string) (release func() error, err error)
}

// Blobs are contents by the hash of each: hexadecimal SHA-256.
type Blobs interface {
	// Put keeps a content, and returns its hash. It is on the disk when Put returns.
	Put(content io.Reader) (hash string, err error)
	// Get returns a content of at most most bytes. One that no longer has its
	// hash is an error, as is one that is not there.
	Get(hash string, most int64) ([]byte, error)
	// Remove lets a content go. One that is not there is fine.
	Remove(hash string) error
}
