package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A head says how a log ended when its last Append did. It is kept in a slot of
// fixed size, which one write replaces.
type head struct {
	count uint64 // records in the log
	first uint64 // number of the first record of the current segment
	size  int64  // of the current segment
	start uint32 // what startOf says of the current segment; 0 for nothing
	mark  []byte
}

const (
	slotSize    = 512
	maxMark     = 256
	headVersion = 1
	headMagic   = "golemlog"
	maxCount    = math.MaxUint64 / 2 // so that there is always a next number
)

var errDamaged = errors.New("damaged")

// slot returns the head as it is kept: magic, version, count, first, size,
// length of the mark, mark, zeros, start, and a checksum of it all.
func (h head) slot() []byte {
	s := make([]byte, 0, slotSize)
	s = append(s, headMagic...)
	s = binary.LittleEndian.AppendUint32(s, headVersion)
	s = binary.LittleEndian.AppendUint64(s, h.count)
	s = binary.LittleEndian.AppendUint64(s, h.first)
	s = binary.LittleEndian.AppendUint64(s, uint64(h.size))
	s = binary.LittleEndian.AppendUint16(s, uint16(len(h.mark)))
	s = append(s, h.mark...)
	return sum(binary.LittleEndian.AppendUint32(s[:slotSize-8], h.start))
}

// sum adds the checksum of a slot.
func sum(s []byte) []byte { return binary.LittleEndian.AppendUint32(s, checksum(s)) }

func checksum(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
}

// minStart is the size from which on a segment begins as it always will.
const minStart = 64

// startOf returns a checksum of how a segment of a size begins: it tells one
// from another that has been put in its place.
func startOf(file io.ReaderAt, size int64) uint32 {
	var start [minStart]byte
	n, _ := file.ReadAt(start[:min(size, int64(len(start)))], 0)
	return checksum(start[:n])
}

// parseHead reads a slot: errDamaged is one that a crash or an accident left.
func parseHead(s []byte) (head, error) {
	if len(s) != slotSize || string(s[:8]) != headMagic || checksum(s[:slotSize-4]) != binary.LittleEndian.Uint32(s[slotSize-4:]) {
		return head{}, errDamaged
	}
	if v := binary.LittleEndian.Uint32(s[8:]); v != headVersion {
		return head{}, fmt.Errorf("version %d, and this golem knows %d; use a newer one", v, headVersion)
	}
	h := head{count: binary.LittleEndian.Uint64(s[12:]), first: binary.LittleEndian.Uint64(s[20:])}
	size, length := binary.LittleEndian.Uint64(s[28:]), binary.LittleEndian.Uint16(s[36:])
	if h.first == 0 || h.count < h.first-1 || h.count > maxCount || size > math.MaxInt64 || length > maxMark {
		return head{}, errDamaged
	}
	if n := h.count - (h.first - 1); size < n || n == 0 && size > 0 {
		return head{}, errDamaged
	}
	h.size, h.start = int64(size), binary.LittleEndian.Uint32(s[slotSize-8:])
	if length > 0 {
		h.mark = append([]byte(nil), s[38:38+length]...)
	}
	return h, nil
}
