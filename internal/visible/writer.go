package visible

import (
	"io"
	"sync"
	"unicode/utf8"
)

// A Writer passes on only visible text. However the text is split into writes, the output
// is what [Text] returns for the whole. Several goroutines may use it at once.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	scan scan
	rest []byte // the start of a character or flag
	err  error
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w, scan: scan{keep: kept}} }

// Under returns the underlying writer. Only golem's own output, such as a colour, may go
// there directly.
func (w *Writer) Under() io.Writer { return w.to }

// Write implements io.Writer. It holds back the start of a character or of a flag until
// the rest arrives. After a failure it writes nothing more.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(w.rest, text...)
	end := len(all)
	for i := max(0, end-utf8.UTFMax+1); i < end; i++ {
		if utf8.RuneStart(all[i]) && !utf8.FullRune(all[i:]) {
			end = i
		}
	}
	end = openFlag(all[:end])
	w.rest = append([]byte(nil), all[end:]...)
	if !w.put(all[:end]) {
		return 0, w.err
	}
	return len(text), nil
}

// Close writes the text that Write held back. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(w.rest)
	w.rest = nil
	return w.err
}

// Err returns the first failure.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) put(text []byte) bool {
	if w.err == nil && len(text) > 0 {
		_, w.err = io.WriteString(w.to, w.scan.escape(string(text)))
	}
	return w.err == nil
}
