package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// frame returns a frame of a websocket server. Fragments other than the first have kind 0.
func frame(first byte, content string) string {
	head := []byte{first, byte(len(content))}
	switch n := len(content); {
	case n > 65535:
		head[1] = 127
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	case n > 125:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(n))
	}
	return string(head) + content
}

const (
	wsText, wsBinary, wsClose, wsPing, wsFinal = 0x01, 0x02, 0x08, 0x09, 0x80
)

// fragments returns a text message in frames of n bytes, with something between them.
func fragments(message string, n int, between string) string {
	var b strings.Builder
	kind := byte(wsText)
	for len(message) > n {
		b.WriteString(frame(kind, message[:n]) + between)
		message, kind = message[n:], 0
	}
	return b.String() + frame(kind|wsFinal, message)
}

type rwc struct {
	io.Reader
	io.Writer
	io.Closer
}

// TestSocket checks that no secret passes in the messages of a websocket, in whatever frames
// it comes, that everything else passes as it is, and that golem refuses frames that it cannot
// read.
func TestSocket(t *testing.T) {
	const key, fake = "sk-proj-REALKEY-aB3dE5fG7hJ9kL1mN2pQ4rS6zA2cE4", "sk-proj-0000000000000000000000000000000000000000"
	const plain, plainFake = "Zq7Lw2Pf9XbK4mVtR8cYh3NdJs6G", "xxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	finders := []*finder{newFinder(key, fake[:len(key)]), newFinder(plain, plainFake)}
	long := strings.Repeat("long ", 20000)
	same := func(text string) string { return text }
	hidden := func(text string) string {
		return strings.NewReplacer(key, fake[:len(key)], plain, plainFake).Replace(text)
	}
	read := func(raw string, split bool) (string, string, error) {
		var from io.Reader = strings.NewReader(raw)
		if split {
			from = iotest.OneByteReader(from)
		}
		reports := ""
		got, err := io.ReadAll(newSocket(rwc{from, nil, nil}, finders, func(why string) { reports += why }))
		return string(got), reports, err
	}
	for name, row := range map[string]struct{ raw, want string }{
		"one frame":               {frame(wsText|wsFinal, "a "+key+" b"), hidden(frame(wsText|wsFinal, "a "+key+" b"))},
		"a binary frame":          {frame(wsBinary|wsFinal, "a "+key), hidden(frame(wsBinary|wsFinal, "a "+key))},
		"a long frame":            {frame(wsText|wsFinal, long+key+long), hidden(frame(wsText|wsFinal, long+key+long))},
		"a frame of medium size":  {frame(wsText|wsFinal, long[:200]+key), hidden(frame(wsText|wsFinal, long[:200]+key))},
		"fragments of 5":          {fragments("a "+key+" b", 5, ""), fragments("a "+hidden(key)+" b", 5, "")},
		"fragments of 1":          {fragments(key, 1, ""), fragments(hidden(key), 1, "")},
		"pings between fragments": {fragments(key, 3, frame(wsPing|wsFinal, "p")), fragments(hidden(key), 3, frame(wsPing|wsFinal, "p"))},
		"empty fragments":         {fragments(key, 3, frame(0, "")), fragments(hidden(key), 3, frame(0, ""))},
		"a ping with the key":     {frame(wsPing|wsFinal, key), hidden(frame(wsPing|wsFinal, key))},
		"a reason to close":       {frame(wsClose|wsFinal, "\x03\xe8"+plain), hidden(frame(wsClose|wsFinal, "\x03\xe8"+plain))},
		"no secret":               {fragments(long, 5000, frame(wsPing|wsFinal, "")) + frame(wsClose|wsFinal, ""), same(fragments(long, 5000, frame(wsPing|wsFinal, "")) + frame(wsClose|wsFinal, ""))},
		"a part of a frame":       {frame(wsText|wsFinal, long)[:1000], frame(wsText|wsFinal, long)[:1000]},
	} {
		for _, split := range []bool{false, true} {
			if split && len(row.raw) > len(long) {
				continue // slow
			}
			got, reports, err := read(row.raw, split)
			if err != nil || got != row.want || reports != "" {
				t.Errorf("%s: got %q, %v, %q, want %q", name, cut(got), err, reports, cut(row.want))
			}
		}
	}
	// A secret without a public prefix passes up to the length at which it counts, as in chunks.
	for name, raw := range map[string]string{"fragments": fragments(plain, 5, ""), "messages": frame(wsText|wsFinal, plain[:5]) + frame(wsText|wsFinal, plain[5:10]) + frame(wsText|wsFinal, plain[10:15]) + frame(wsText|wsFinal, plain[15:])} {
		got, _, err := read(raw, false)
		payload := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return -1
			}
			return r
		}, strings.ToValidUTF8(got, ""))
		if err != nil || len(got) != len(raw) || strings.Contains(payload, plain[8:13]) || !strings.HasSuffix(payload, "xxxxxxxxxx") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for name, raw := range map[string]string{
		"compressed":             frame(wsText|wsFinal|0x40, "x"),
		"another reserved bit":   frame(wsText|wsFinal|0x10, "x"),
		"an unknown kind":        frame(3|wsFinal, "x"),
		"an unknown control":     frame(11|wsFinal, "x"),
		"masked":                 string([]byte{wsText | wsFinal, 0x81, 1, 2, 3, 4, 'x' ^ 1}),
		"a control in parts":     frame(wsPing, "x"),
		"a long control":         frame(wsPing|wsFinal, long[:126]),
		"compressed, after text": frame(wsText|wsFinal, "ok") + frame(wsText|wsFinal|0x40, "x"),
	} {
		got, reports, err := read(raw, false)
		if err == nil || errors.Is(err, io.EOF) || !strings.Contains(reports, "the server sent") || strings.Contains(got, "x") {
			t.Errorf("%s: got %q, %v, %q", name, got, err, reports)
		}
	}
}

func cut(text string) string { return text[:min(len(text), 300)] }

// TestSocketHandshake checks that golem refuses a websocket with an extension: it has offered
// none.
func TestSocketHandshake(t *testing.T) {
	find := func() *finder { return newFinder("Zq7Lw2Pf9XbK4mVtR8cYh3NdJs6G", "xxxxxxxxxxxxxxxxxxxxxxxxxxxx") }
	s := &secret{name: "c", finder: find, folded: find}
	for extension, want := range map[string]bool{"": true, "permessage-deflate": false} {
		r, _ := http.NewRequest("GET", "http://example.com/", nil)
		answer := &http.Response{StatusCode: 101, Header: http.Header{}, Body: rwc{&bytes.Buffer{}, nil, io.NopCloser(nil)}, Request: withSecrets(r, use{hide: []*secret{s}})}
		if extension != "" {
			answer.Header.Set("Sec-WebSocket-Extensions", extension)
		}
		if err := checkAnswer(answer); (err == nil) != want {
			t.Errorf("%q: got %v", extension, err)
		}
	}
}
