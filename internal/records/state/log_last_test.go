package state

import (
	"bytes"
	"fmt"
	"testing"
)

// TestReadLast reads only the last record: a short one, and one that is longer than the
// part of the file that is read first.
func TestReadLast(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 70 << 10} {
		folder, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		for _, count := range []uint64{1, 2, 3} {
			want := append(bytes.Repeat([]byte("x"), size), fmt.Sprint(count)...)
			log, err := folder.Log("log", 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := log.Append(true, func(Tail) ([][]byte, []byte, error) { return [][]byte{want}, nil, nil }); err != nil {
				t.Fatal(err)
			}
			log.Close()
			if log, err = folder.Log("log", 0); err != nil { // a log that has read nothing yet
				t.Fatal(err)
			}
			read := 0
			err = log.Read(count, func(number uint64, line []byte) error {
				if read++; number != count || !bytes.Equal(line, want) {
					t.Errorf("record %d of %d bytes: got number %d with %d bytes", count, len(want), number, len(line))
				}
				return nil
			})
			if err != nil || read != 1 {
				t.Errorf("record %d of %d bytes: read %d records, %v", count, len(want), read, err)
			}
			log.Close()
		}
	}
}
