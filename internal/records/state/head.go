package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A head records how a log ended after its last Append. It has a fixed size, so that one
// write replaces it.
type head struct {
	count uint64 // number of records in the log
	first uint64 // number of the first record of the current segment
	size  int64  // size of the current segment
	start uint32 // startOf the current segment; 0 if it is too short
	mark  []byte
}

const (
	slotSize    = 512
	maxMark     = 256
	headVersion = 1
	headMagic   = "golemlog"
	maxCount    = math.MaxUint64 / 2 // leaves room for the next number
)

var errDamaged = errors.New("damaged")

// slot encodes the head: magic, version, count, first, size, length of the mark, mark,
// zeros, start and a checksum of all.
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

// sum appends the checksum of a slot.
func sum(s []byte) []byte { return binary.LittleEndian.AppendUint32(s, checksum(s)) }

func checksum(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
}

// minStart is the size from which the beginning of a segment no longer changes.
const minStart = 64

// startOf returns a checksum of the beginning of a segment. It differs if another file
// has replaced the segment.
func startOf(file io.ReaderAt, size int64) uint32 {
	var start [minStart]byte
	n, _ := file.ReadAt(start[:min(size, int64(len(start)))], 0)
	return checksum(start[:n])
}

// parseHead decodes a slot. It returns errDamaged if the slot is incomplete or damaged.
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
