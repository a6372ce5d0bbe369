package state

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

// TestHead checks which heads are valid.
func TestHead(t *testing.T) {
	for _, h := range []head{
		{first: 1},
		{count: 1, first: 1, size: 10, start: 7, mark: []byte("m")},
		{count: maxCount, first: maxCount, size: math.MaxInt64, mark: bytes.Repeat([]byte{0}, maxMark)},
	} {
		slot := h.slot()
		if got, err := parseHead(slot); !reflect.DeepEqual(got, h) || err != nil || len(slot) != slotSize {
			t.Errorf("got %+v, %v, want %+v", got, err, h)
		}
		for i := range slot {
			for bit := range 8 {
				slot[i] ^= 1 << bit
				if _, err := parseHead(slot); err != errDamaged {
					t.Fatalf("bit %d of byte %d is another: %v", bit, i, err)
				}
				slot[i] ^= 1 << bit
			}
		}
	}
	for name, h := range map[string]head{
		"no first": {count: 1}, "first too high": {count: 1, first: 3}, "count too high": {count: maxCount + 1, first: 1},
		"size too high": {first: 1, size: -1}, "records in nothing": {count: 2, first: 1, size: 1}, "no records": {count: 3, first: 4, size: 1},
	} {
		if got, err := parseHead(h.slot()); err != errDamaged {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// FuzzHead checks arbitrary heads.
func FuzzHead(f *testing.F) {
	f.Add(head{first: 1}.slot())
	f.Add(head{count: 7, first: 3, size: 99, mark: []byte("mark")}.slot())
	f.Fuzz(func(t *testing.T, slot []byte) {
		h, err := parseHead(slot)
		if err != nil {
			// The checksum is made valid, so that the rest of the head is tested as well.
			if len(slot) < slotSize-4 {
				return
			}
			slot = sum(append([]byte(headMagic), slot[len(headMagic):slotSize-4]...))
			if h, err = parseHead(slot); err != nil {
				return
			}
		}
		if again, err := parseHead(h.slot()); !reflect.DeepEqual(again, h) || err != nil {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}
