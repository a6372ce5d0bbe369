package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxNow is how many bytes at the end of an output a Now keeps.
	maxNow = 32 << 10
	// nowEvery is how often a Now writes its file at most.
	nowEvery = 100 * time.Millisecond
)

// A Now shows in a file what a run does at the moment: the answer that a model writes, or
// the output of a command. Other processes read the file. The log of the run has the text
// when it is complete, so nobody needs the file later, and errors do not matter.
type Now struct {
	path    string
	secrets []string

	mu      sync.Mutex
	file    *os.File // nil before the first text
	title   string
	text    []byte
	kind    Kind
	pending bool // the file is to be written
	closed  bool
}

// nowName is the file of a Now.
const nowName = "run-now"

// NewNow returns a Now that writes to a file in dir, without secrets.
func NewNow(dir string, secrets []string) *Now {
	return &Now{path: filepath.Join(dir, nowName), secrets: secrets}
}

// Tell shows an event.
func (n *Now) Tell(e Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch e.Type {
	case Piece:
		if n.kind != Piece {
			n.title, n.text = e.Worker+" writes", nil
		}
		n.add([]byte(e.Text))
	case ToolCall:
		n.title, n.text = e.Worker+" calls "+e.Tool, nil
	case Message, ToolResult, Pending, RunEnd:
		n.title, n.text = "", nil
	default:
		return
	}
	n.kind = e.Type
	n.write()
}

// Output shows output of a command.
func (n *Now) Output(data []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(data)
	n.write()
}

func (n *Now) add(data []byte) {
	n.text = append(n.text, data...)
	if len(n.text) > 2*maxNow {
		n.text = append([]byte(nil), n.text[len(n.text)-maxNow:]...)
	}
}

// write writes the file soon.
func (n *Now) write() {
	if n.pending || n.closed {
		return
	}
	n.pending = true
	time.AfterFunc(nowEvery, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.pending = false; n.closed {
			return
		}
		text := n.text[max(0, len(n.text)-maxNow):]
		if len(n.text) > len(text) { // begin with a whole line, if there is one
			if i := bytes.IndexByte(text, '\n'); i >= 0 {
				text = text[i+1:]
			}
		}
		n.save(strings.ReplaceAll(n.title, "\n", " ") + "\n" + hideSecrets(string(text), n.secrets))
	})
}

// save writes the file, with one write, so that a reader sees the old text or the new one. The
// size before the text says where it ends: the rest of the file is older.
func (n *Now) save(text string) {
	if n.file == nil {
		var err error
		if n.file, err = os.OpenFile(n.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return
		}
	}
	n.file.WriteAt(fmt.Appendf(nil, "%d\n%s", len(text), text), 0)
}

// Close removes the file.
func (n *Now) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.file != nil {
		n.file.Close()
	}
	os.Remove(n.path)
}

// ReadNow returns what a run does at the moment, as a Now has written it to dir: a title, "" for
// nothing, and a text. A run that was killed leaves its last text.
func ReadNow(dir string) (title, text string) {
	data, err := os.ReadFile(filepath.Join(dir, nowName))
	if err != nil {
		return "", ""
	}
	size, all, _ := strings.Cut(string(data), "\n")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(all) {
		return "", ""
	}
	title, text, _ = strings.Cut(all[:n], "\n")
	return title, text
}
