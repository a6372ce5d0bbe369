package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// newlineMark stands for a new line in the line that the user edits.
const newlineMark = '␤'

// errInterrupted is the error of a line that Ctrl-C ended twice.
var errInterrupted = errors.New("interrupted")

// A lineEditor reads the messages of a chat at a terminal: with history, completion, and
// messages of several lines. Enter sends a message, Ctrl-J begins a new line in it, and a
// text that the user pastes is one message. Ctrl-C deletes the line. If it is empty, Ctrl-C
// ends the chat the second time.
type lineEditor struct {
	in      *os.File
	out     io.Writer
	console *console // its output waits while the user types
	keys    *chatKeys
	editor  *term.Terminal
	restore func() // sets the modes of the terminal again; nil while nobody types
}

// newLineEditor returns an editor that reads from a terminal and draws to out. complete
// returns the texts that a text can become.
func newLineEditor(in, out *os.File, c *console, prompt string, complete func(text string) []string) *lineEditor {
	e := &lineEditor{in: in, out: out, console: c, keys: &chatKeys{in: in}}
	e.editor = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, out}, prompt)
	e.editor.History = &chatHistory{}
	e.editor.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		text := commonPrefix(complete(line[:at]))
		if len(text) <= at {
			return line, at, true // a tab is no text
		}
		return text + line[at:], len(text), true
	}
	return e
}

// read returns the next message.
func (e *lineEditor) read() (string, error) {
	_, release := e.console.own()
	defer release()
	if width, height, err := term.GetSize(int(e.in.Fd())); err == nil && width > 0 {
		e.editor.SetSize(width, height)
	}
	old, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", err
	}
	e.restore = func() {
		e.editor.SetBracketedPasteMode(false)
		term.Restore(int(e.in.Fd()), old)
	}
	defer e.close()
	e.editor.SetBracketedPasteMode(true)
	for {
		e.keys.begin()
		line, err := e.editor.ReadLine()
		switch {
		case e.keys.interrupts > 1:
			return "", errInterrupted
		case err != nil:
			return "", err
		case e.keys.interrupts == 1:
			fmt.Fprint(e.editor, "golem: Ctrl-C again ends the chat\n")
			continue
		}
		return strings.ReplaceAll(line, string(newlineMark), "\n"), nil
	}
}

// close sets the modes of the terminal again.
func (e *lineEditor) close() {
	if e != nil && e.restore != nil {
		e.restore()
		e.restore = nil
	}
}

// chatKeys pass on the keys of a terminal. They change some of them for the editor.
type chatKeys struct {
	in         io.Reader
	waiting    []byte // that the editor has not read
	partial    []byte // the start of a sequence whose end was not read yet
	pasting    bool
	returned   bool // the last key was a carriage return
	typed      bool // something is in the line
	interrupts int  // how often the user pressed Ctrl-C in an empty line
}

// The sequences around a text that the user pastes.
var pasteStart, pasteEnd = []byte("\x1b[200~"), []byte("\x1b[201~")

const (
	ctrlC = 3
	ctrlU = 21
)

// begin begins a line.
func (k *chatKeys) begin() { k.typed = false }

// Read implements io.Reader.
func (k *chatKeys) Read(p []byte) (int, error) {
	for len(k.waiting) == 0 {
		buffer := make([]byte, 4096)
		n, err := k.in.Read(buffer)
		k.waiting = k.change(append(k.partial, buffer[:n]...))
		if err != nil && len(k.waiting) == 0 {
			return 0, err
		}
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
}

// change returns keys as the editor gets them: Ctrl-J and the new lines of a paste become
// marks, and Ctrl-C deletes the line, or ends an empty one.
func (k *chatKeys) change(keys []byte) (list []byte) {
	k.partial = nil
	for i := 0; i < len(keys); i++ {
		c := keys[i]
		switch rest := keys[i:]; {
		case c == '\x1b' && len(rest) < len(pasteEnd) && (bytes.HasPrefix(pasteEnd, rest) || bytes.HasPrefix(pasteStart, rest)):
			k.partial = slices.Clone(rest)
			return list
		case bytes.HasPrefix(keys[i:], pasteStart):
			k.pasting = true
			i += len(pasteStart) - 1
			continue
		case bytes.HasPrefix(keys[i:], pasteEnd):
			k.pasting = false
			i += len(pasteEnd) - 1
			continue
		case c == '\n' && k.pasting && k.returned: // the end of CR LF
			k.returned = false
			continue
		case c == ctrlC && k.pasting:
			continue
		case c == ctrlC && k.typed:
			list, k.typed = append(list, ctrlU), false
			continue
		case c == ctrlC:
			k.interrupts++
			list = append(list, '\r')
			continue
		case c == '\n' || c == '\r' && k.pasting:
			list = append(list, string(newlineMark)...)
		case c == '\t' && k.pasting: // no completion
			list = append(list, "    "...)
		case c < ' ' && k.pasting:
			continue
		case c == '\r':
			list = append(list, c)
			k.typed = false
			k.interrupts = 0
			continue
		default:
			list = append(list, c)
		}
		k.typed, k.interrupts, k.returned = true, 0, c == '\r'
	}
	return list
}

// commonPrefix returns the text that all texts begin with. If there is only one, it ends
// with a space.
func commonPrefix(list []string) string {
	if len(list) == 0 {
		return ""
	}
	if len(list) == 1 {
		return list[0] + " "
	}
	least, most := slices.Min(list), slices.Max(list)
	i := 0
	for i < min(len(least), len(most)) && least[i] == most[i] {
		i++
	}
	return least[:i]
}

// completeChat returns what a line of a chat can become: a command, or the name of a tool.
func completeChat(line string, tools []string) (list []string) {
	words := chatCommands()
	if rest, ok := strings.CutPrefix(line, "/tool "); ok && !strings.Contains(rest, " ") {
		words = nil
		for _, name := range tools {
			words = append(words, "/tool "+name)
		}
	}
	for _, word := range words {
		if strings.HasPrefix(line, "/") && strings.HasPrefix(word, line) {
			list = append(list, word)
		}
	}
	return list
}

// chatHistory is the list of messages that the user has sent, the oldest first.
type chatHistory struct{ list []string }

// maxHistory is how many messages golem keeps.
const maxHistory = 1000

// Add implements term.History.
func (h *chatHistory) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.list) > 0 && h.list[len(h.list)-1] == line {
		return
	}
	h.list = append(h.list[max(0, len(h.list)-maxHistory+1):], line)
}

// Len implements term.History.
func (h *chatHistory) Len() int { return len(h.list) }

// At implements term.History. Index 0 is the last message.
func (h *chatHistory) At(i int) string { return h.list[len(h.list)-1-i] }
