package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestChatKeys checks the keys of a chat, also if they arrive one byte at a time.
func TestChatKeys(t *testing.T) {
	for keys, want := range map[string]string{
		"hi\r":                                   "hi\r",
		"a\nb\r":                                 "a␤b\r",
		"\x1b[200~a\r\nb\rc\nd\x1b[201~\r":       "a␤b␤c␤d\r",
		"\x1b[200~a\tb\x1b[31mc\x03d\x1b[201~\r": "a    b[31mcd\r",
		"x\x03y\r":                               "x\x15y\r",
		"\x1b[Aé\r":                              "\x1b[Aé\r",
		"\x03":                                   "\r",
	} {
		for _, in := range []io.Reader{strings.NewReader(keys), iotest.OneByteReader(strings.NewReader(keys))} {
			got, err := io.ReadAll(&chatKeys{in: in})
			if err != nil || string(got) != want {
				t.Errorf("%q: got %q, %v, want %q", keys, got, err, want)
			}
		}
	}
	k := &chatKeys{in: strings.NewReader("\x03\x03")}
	if io.Copy(io.Discard, k); k.interrupts != 2 {
		t.Errorf("Ctrl-C twice: counted %d", k.interrupts)
	}
	k = &chatKeys{in: strings.NewReader("\x03a\x03\x03")}
	if io.Copy(io.Discard, k); k.interrupts != 1 {
		t.Errorf("Ctrl-C around a text: counted %d", k.interrupts)
	}
}

// TestCompleteChat checks the completion of commands and tools.
func TestCompleteChat(t *testing.T) {
	tools := []string{"read_file", "read_files", "write_file"}
	for line, want := range map[string]string{"/t": "/tool ", "/": "/", "/tool r": "/tool read_file", "/tool w": "/tool write_file ", "/tool x": "", "hello": "", "/tool write_file --p": ""} {
		if got := commonPrefix(completeChat(line, tools)); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
