package visible

import (
	"io"
	"sync"
	"unicode/utf8"
)

// A Writer passes on only visible text. However the text is split into writes, the output
// is what [Text] returns for the whole. Several goroutines may use it at once.
type Writer struct {
	to   *target
	scan scan
	rest []byte // the start of a character or flag, or a character that depends on the next
}

// A target is where writers write.
type target struct {
	w   io.Writer
	mu  sync.Mutex // also guards the writers
	err error
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: &target{w: w}, scan: scan{keep: kept}} }

// NewProseWriter returns a writer to w that escapes like [Prose].
func NewProseWriter(w io.Writer) *Writer {
	return &Writer{to: &target{w: w}, scan: scan{keep: kept, reader: person}}
}

// ForData returns another writer to the same place, which escapes like [Data]. A failure
// of one is a failure of both.
func (w *Writer) ForData() *Writer {
	return &Writer{to: w.to, scan: scan{keep: kept, reader: machine}}
}

// Under returns the underlying writer. Only golem's own output, such as a colour, may go
// there directly.
func (w *Writer) Under() io.Writer { return w.to.w }

// Write implements io.Writer. It holds back the start of a character or of a flag, and a
// character that depends on the next one, until the rest arrives. After a failure it writes nothing more.
func (w *Writer) Write(text []byte) (int, error) {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	all := append(w.rest, text...)
	end := len(all)
	for i := max(0, end-utf8.UTFMax+1); i < end; i++ {
		if utf8.RuneStart(all[i]) && !utf8.FullRune(all[i:]) {
			end = i
		}
	}
	end = openFlag(all[:end])
	if w.scan.reader != careful {
		end = w.scan.settled(all[:end])
	}
	w.rest = append([]byte(nil), all[end:]...)
	if !w.put(all[:end]) {
		return 0, w.to.err
	}
	return len(text), nil
}

// Close writes the text that Write held back. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	w.put(w.rest)
	w.rest = nil
	return w.to.err
}

// Err returns the first failure.
func (w *Writer) Err() error {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	return w.to.err
}

func (w *Writer) put(text []byte) bool {
	if w.to.err == nil && len(text) > 0 {
		_, w.to.err = io.WriteString(w.to.w, w.scan.escape(string(text)))
	}
	return w.to.err == nil
}

// settled returns the offset of a last character that passes or not because of the next
// one. If there is none, it returns the length of the text.
func (s *scan) settled(text []byte) int {
	r, size := utf8.DecodeLastRune(text)
	if s.reader == machine && r == '\r' || s.reader == person && isUnseen(r) {
		return len(text) - size
	}
	return len(text)
}
