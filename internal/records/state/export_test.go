package state

import "time"

// Slot returns a valid head, as an attacker who can compute the checksum would write it.
func Slot(count, first uint64, size int64) []byte {
	return head{count: count, first: first, size: size, mark: []byte("forged")}.slot()
}

// SetPatience sets how long to wait for a lock.
func (f *Dir) SetPatience(d time.Duration) { f.waits.patience = d }
