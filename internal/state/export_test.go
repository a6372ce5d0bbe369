package state

import "time"

// Slot returns a whole head, as whoever can forge a checksum would write it.
func Slot(count, first uint64, size int64) []byte {
	return head{count: count, first: first, size: size, mark: []byte("forged")}.slot()
}

// SetPatience sets how long to wait for a lock.
func (f *Folder) SetPatience(d time.Duration) { f.waits.patience = d }
