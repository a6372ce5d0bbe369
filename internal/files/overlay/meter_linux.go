package overlay

import (
	"encoding/binary"
	"os"
	"path/filepath"
)

// progressName is the file in which a helper process writes how much of an apply it has
// done, for the process that waits for it.
const progressName = "progress"

// The phases of an apply, in order.
const (
	phaseTake = iota
	phasePrepare
	phaseFinish
	phases
)

// A meter counts the steps of one phase. A nil meter counts nothing.
type meter struct {
	file        *os.File
	phase       int
	done, total int
}

// stepsPerWrite is after how many steps a meter writes.
const stepsPerWrite = 256

// startMeter starts the meter of a phase. A short phase has no meter, so that it needs no
// file on a disk that is nearly full. Without a file there is no meter either: progress is
// not worth an error.
func startMeter(store string, phase, total int) *meter {
	if total < stepsPerWrite {
		if phase == phases-1 {
			os.Remove(filepath.Join(store, progressName)) // of an earlier phase
		}
		return nil
	}
	f, err := os.OpenFile(filepath.Join(store, progressName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	m := &meter{f, phase, 0, max(total, 1)}
	m.write()
	return m
}

// add counts one step.
func (m *meter) add() {
	if m == nil {
		return
	}
	if m.done++; m.done%stepsPerWrite == 0 {
		m.write()
	}
}

func (m *meter) write() {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(min(m.done, m.total)*progressScale/m.total+m.phase*progressScale))
	m.file.WriteAt(b[:], 0)
}

// close removes the file after the last phase.
func (m *meter) close() {
	if m == nil {
		return
	}
	m.file.Close()
	if m.phase == phases-1 {
		os.Remove(m.file.Name())
	}
}

// progressScale is how fine the steps of a phase are.
const progressScale = 1000

// ApplyProgress returns how much of an apply is done: a number from 0 to 1. It reports
// false if none is under way.
func ApplyProgress(o Overlay) (part float64, ok bool) {
	data, err := os.ReadFile(filepath.Join(o.Store, progressName))
	if err != nil || len(data) != 4 {
		return 0, false
	}
	return float64(binary.LittleEndian.Uint32(data)) / (phases * progressScale), true
}
