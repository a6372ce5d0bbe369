package undo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// The file of a step has a first line with a letter, a checksum, the number of the step and
// the length of the rest. The second line is the step in JSON, and the saved content follows.
// The letter becomes finished when the step is on the disk. If golem or the machine stopped
// before that, the call was not made, and the checksum may be wrong.
const (
	unfinished byte = 'w'
	finished   byte = 's'

	headFormat = "%c %08x %019d %012d\n"
	headLength = 1 + 1 + 8 + 1 + 19 + 1 + 12 + 1
	sumStart   = 1 + 1 + 8 + 1 // the checksum covers everything from here on
)

// errUnfinished is the error of a step that was not written to its end.
var errUnfinished = errors.New("not written to its end")

var errDamaged = errors.New("damaged")

// encode returns a step as it is stored, without the first line. A step that is too large is
// stored without its entries.
func encode(step *Step, body []byte) ([]byte, error) {
	head, err := json.Marshal(step)
	if err == nil && len(head)+1+len(body) > MaxTotal {
		step.Impossible, step.Rename, body = fmt.Sprintf("it is more than %d MiB", MaxTotal>>20), nil, nil
		step.Entries = []Entry{{Path: step.Entries[0].Path}}
		head, err = json.Marshal(step)
	}
	return append(append(head, '\n'), body...), err
}

// seal returns the content of a step's file, and its checksum.
func seal(number int, content []byte) (file []byte, sum uint32) {
	file = fmt.Appendf(make([]byte, 0, headLength+len(content)), headFormat, unfinished, 0, number, len(content))
	file = append(file, content...)
	sum = crc32.Checksum(file[sumStart:], castagnoli())
	copy(file, fmt.Sprintf(headFormat, unfinished, sum, number, len(content)))
	return file, sum
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// A fileHead is the first line of a step's file.
type fileHead struct {
	letter byte
	sum    uint32
	number int
	length int64
}

// slot returns the place of the step whose file has this first line.
func (h fileHead) slot(file string) slot { return slot{file, h.number, h.length, h.sum} }

func readHead(f *os.File) (h fileHead, err error) {
	line := make([]byte, headLength)
	if _, err := f.ReadAt(line, 0); err != nil {
		return h, err
	}
	_, err = fmt.Sscanf(string(line), headFormat, &h.letter, &h.sum, &h.number, &h.length)
	return h, err
}

// readStep reads a step, without its content, and checks all of it. The error is
// fs.ErrNotExist if another step is in its file by now.
func readStep(at slot) (*Step, error) {
	f, err := os.Open(at.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, err := readHead(f)
	if err != nil {
		return nil, err
	}
	if head.slot(at.file) != at {
		return nil, fs.ErrNotExist
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sum := crc32.New(castagnoli())
	n, err := io.Copy(sum, io.NewSectionReader(f, sumStart, headLength-sumStart+head.length))
	switch {
	case err != nil:
		return nil, err
	case (n != headLength-sumStart+head.length || sum.Sum32() != head.sum) && head.letter == unfinished:
		return nil, errUnfinished
	case n != headLength-sumStart+head.length || sum.Sum32() != head.sum:
		return nil, errDamaged
	}
	line, err := bufio.NewReader(io.NewSectionReader(f, headLength, head.length)).ReadBytes('\n')
	if err != nil {
		return nil, errDamaged
	}
	step := &Step{slot: at, body: headLength + int64(len(line)), saved: info.ModTime()}
	return step, json.Unmarshal(line, step)
}
