package spending

import (
	"bytes"
	"encoding/json"
)

// A shape says which fields of a JSON document a skimmer keeps, by their exact names. The
// shape of a field without one is nil: the skimmer keeps its whole value. The elements of a
// list have the shape of the list.
type shape map[string]shape

// A skimmer reads a JSON document in pieces and keeps only the fields of a shape. It never
// holds more than that, however long the document and its texts are. A text in the document
// cannot stand for a field, because the skimmer knows where strings begin and end.
type skimmer struct {
	shape shape
	out   []byte  // the document with only the fields of the shape
	stack []frame // the objects and lists around the next byte that have a shape
	state func(*skimmer, []byte) []byte

	key     []byte // the name of a field, as it is written
	child   shape  // of the next value
	keeps   bool   // the next value is kept
	depth   int    // in a value without a shape of its own
	inText  bool
	escaped bool

	some   bool // a value has begun
	ended  bool // the document is complete
	broken bool // it is no JSON, or too large
	double bool // a field of the shape is there twice
}

// A frame is an object or a list of which a skimmer keeps something.
type frame struct {
	shape  shape
	isList bool
	names  []string // the fields so far
}

// Limits of a skimmed document.
const (
	maxKey   = 256
	maxDepth = 64
	maxKept  = 4 << 20
)

func newSkimmer(s shape) *skimmer {
	k := &skimmer{shape: s}
	k.reset()
	return k
}

func (k *skimmer) reset() {
	*k = skimmer{shape: k.shape, out: k.out[:0], stack: k.stack[:0], key: k.key[:0], state: (*skimmer).readValue, child: k.shape, keeps: true}
}

// add reads the next piece of the document.
func (k *skimmer) add(more []byte) {
	for len(more) > 0 && !k.broken {
		more = k.state(k, more)
	}
}

// document returns the kept fields. It returns false if the document is not complete, or no
// JSON, or has a field twice.
func (k *skimmer) document() ([]byte, bool) {
	return k.out, k.ended && !k.broken && !k.double && json.Valid(k.out)
}

func (k *skimmer) fail() []byte {
	k.broken = true
	return nil
}

func (k *skimmer) emit(b ...byte) {
	if len(k.out)+len(b) > maxKept {
		k.broken = true
		return
	}
	k.out = append(k.out, b...)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// readValue reads the beginning of a value.
func (k *skimmer) readValue(more []byte) []byte {
	c := more[0]
	top := len(k.stack) - 1
	switch {
	case isSpace(c):
		return more[1:]
	case c == ']' && top >= 0 && k.stack[top].isList: // an empty list
		return k.close(more)
	case c == ',' || c == ':' || c == '}' || c == ']':
		return k.fail()
	case k.keeps && k.child != nil && (c == '{' || c == '['):
		if len(k.stack) == maxDepth {
			return k.fail()
		}
		k.emit(c)
		k.some = true
		k.stack = append(k.stack, frame{shape: k.child, isList: c == '['})
		if k.state = (*skimmer).readValue; c == '{' {
			k.state = (*skimmer).readName
		}
		return more[1:]
	case k.keeps && k.child != nil: // a value of another type than the shape has
		k.emit([]byte("null")...)
		k.keeps = false
	}
	k.some, k.depth, k.inText, k.escaped = true, 0, false, false
	k.state = (*skimmer).readRest
	return more
}

// readRest reads a value that is kept as a whole, or left out.
func (k *skimmer) readRest(more []byte) []byte {
	if k.inText {
		return k.readText(more)
	}
	c := more[0]
	isEnd := c == ',' || c == '}' || c == ']' || isSpace(c)
	switch {
	case k.depth == 0 && isEnd: // after a number or a word
		k.endValue()
		return more
	case c == '"':
		k.inText = true
	case c == '{' || c == '[':
		k.depth++
	case c == '}' || c == ']':
		k.depth--
	}
	if k.keeps {
		k.emit(c)
	}
	if k.depth == 0 && (c == '}' || c == ']') {
		k.endValue()
	}
	return more[1:]
}

// readText reads a string, at least up to the next quote or backslash.
func (k *skimmer) readText(more []byte) []byte {
	n, ends := len(more), false
	if k.escaped {
		n, k.escaped = 1, false
	} else if i := bytes.IndexAny(more, `"\`); i >= 0 {
		n, ends, k.escaped = i+1, more[i] == '"', more[i] == '\\'
	}
	if k.keeps {
		k.emit(more[:n]...)
	}
	if ends {
		if k.inText = false; k.depth == 0 {
			k.endValue()
		}
	}
	return more[n:]
}

func (k *skimmer) endValue() {
	k.state = (*skimmer).readNext
	k.ended = len(k.stack) == 0
}

// readNext reads what comes after a value.
func (k *skimmer) readNext(more []byte) []byte {
	c, top := more[0], len(k.stack)-1
	switch {
	case isSpace(c):
		return more[1:]
	case top < 0: // text after the document
		return k.fail()
	case c == '}' || c == ']':
		return k.close(more)
	case c != ',':
		return k.fail()
	case k.stack[top].isList:
		k.emit(',')
		k.child, k.keeps, k.state = k.stack[top].shape, true, (*skimmer).readValue
	default:
		k.state = (*skimmer).readName
	}
	return more[1:]
}

// close reads the end of an object or a list with a shape.
func (k *skimmer) close(more []byte) []byte {
	top := len(k.stack) - 1
	if k.stack[top].isList != (more[0] == ']') {
		return k.fail()
	}
	k.emit(more[0])
	k.stack = k.stack[:top]
	k.endValue()
	return more[1:]
}

// readName reads the beginning of a field's name, or the end of an object.
func (k *skimmer) readName(more []byte) []byte {
	switch c := more[0]; {
	case isSpace(c):
	case c == '}':
		return k.close(more)
	case c != '"':
		return k.fail()
	default:
		k.key, k.escaped = append(k.key[:0], c), false
		k.state = (*skimmer).readKey
	}
	return more[1:]
}

// readKey reads a field's name.
func (k *skimmer) readKey(more []byte) []byte {
	c := more[0]
	if len(k.key) < maxKey {
		k.key = append(k.key, c)
	}
	switch {
	case k.escaped:
		k.escaped = false
	case c == '\\':
		k.escaped = true
	case c == '"':
		k.begin()
	}
	return more[1:]
}

// begin begins the field whose name was read.
func (k *skimmer) begin() {
	k.state = (*skimmer).readColon
	top := &k.stack[len(k.stack)-1]
	var name string
	known := json.Unmarshal(k.key, &name) == nil // a name that is too long fails
	if known {
		k.child, known = top.shape[name]
	}
	if k.keeps = known; !known {
		return
	}
	for _, one := range top.names {
		k.double = k.double || one == name
	}
	if len(top.names) > 0 {
		k.emit(',')
	}
	if !k.double {
		top.names = append(top.names, name)
	}
	k.emit(k.key...)
	k.emit(':')
}

func (k *skimmer) readColon(more []byte) []byte {
	switch c := more[0]; {
	case isSpace(c):
	case c != ':':
		return k.fail()
	default:
		k.state = (*skimmer).readValue
	}
	return more[1:]
}

// A framer takes the JSON documents out of the body of an answer: the events of a stream, or
// the one document.
type framer struct {
	skim *skimmer
	take func(*skimmer) // called with each document, complete or not

	begun, isStream bool
	name            []byte // of the field of a line
	inValue, isData bool
	first, some     bool // the next byte is the first of the value; the event has data
	carriage        bool // the last byte was a carriage return
}

// add reads the next piece of the body.
func (f *framer) add(more []byte) {
	for !f.begun {
		if len(more) == 0 {
			return
		}
		if c := more[0]; isSpace(c) || c == 0xef || c == 0xbb || c == 0xbf { // a byte order mark
			more = more[1:]
			continue
		}
		f.begun, f.isStream = true, more[0] != '{' && more[0] != '['
	}
	if !f.isStream {
		f.skim.add(more)
		return
	}
	for len(more) > 0 {
		more = f.readLine(more)
	}
}

// readLine reads a part of a line of a stream.
func (f *framer) readLine(more []byte) []byte {
	c := more[0]
	if f.carriage {
		if f.carriage = false; c == '\n' {
			return more[1:]
		}
	}
	if f.inValue {
		return f.readField(more)
	}
	switch {
	case c == '\r' || c == '\n':
		if f.carriage = c == '\r'; len(f.name) == 0 {
			f.endEvent()
		}
		f.name = f.name[:0]
	case c == ':':
		f.inValue, f.first, f.isData = true, true, string(f.name) == "data"
		if f.isData && f.some {
			f.skim.add([]byte("\n"))
		}
		f.some = f.some || f.isData
	case len(f.name) < len("data")+1:
		f.name = append(f.name, c)
	}
	return more[1:]
}

// readField reads a part of the value of a line.
func (f *framer) readField(more []byte) []byte {
	if f.first {
		if f.first = false; more[0] == ' ' {
			return more[1:]
		}
	}
	n := bytes.IndexAny(more, "\r\n")
	text := more
	if n >= 0 {
		text = more[:n]
	}
	if f.isData {
		f.skim.add(text)
	}
	if n < 0 {
		return nil
	}
	f.carriage = more[n] == '\r'
	f.inValue, f.name = false, f.name[:0]
	return more[n+1:]
}

// endEvent ends an event, or the document.
func (f *framer) endEvent() {
	if f.some || !f.isStream && f.skim.some {
		f.take(f.skim)
		f.skim.reset()
		f.some = false
	}
}
