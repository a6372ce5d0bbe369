package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
)

// An Event is one event of a stream.
type Event struct {
	Name string // "" if the server does not name its events
	Data []byte // valid until the next event
}

// A Call is a request to a path below the address of a server.
type Call struct {
	Path   string // with no slash at its beginning
	Query  string
	Header map[string]string
	Body   any // sent as JSON
	// Split returns the events of an answer that the server sent as one JSON document in place
	// of a stream, none if the document is no answer.
	Split func(document []byte) []Event
}

// Stream makes a call and passes the events of the answer to take, until take says that the
// answer is complete. It returns io.EOF if the stream ends before. Other errors are those of
// take, or what the caller gets.
func (c *Client) Stream(ctx context.Context, call Call, take func(Event) (done bool, err error)) error {
	body, err := json.Marshal(call.Body)
	if err != nil {
		return c.fail(model.Bad, "the request cannot be sent: "+err.Error(), "check the schemas of the tools")
	}
	u := *c.Base
	u.Path, u.RawQuery = u.Path+call.Path, call.Query
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return c.fail(model.Bad, err.Error(), "check the name of the model and the address "+c.address())
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("User-Agent", "golem")
	for name, value := range call.Header {
		r.Header.Set(name, value)
	}
	response, err := c.do(r)
	if err != nil {
		return c.Fault(ctx, err)
	}
	defer response.Body.Close()
	if !isStream(response) {
		return c.document(ctx, response, call, take)
	}
	return c.Events(ctx, response.Body, take)
}

// document passes the events of an answer that came as a JSON document to take. Some servers
// send a stream with the content type of a document.
func (c *Client) document(ctx context.Context, response *http.Response, call Call, take func(Event) (done bool, err error)) error {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return c.Fault(ctx, err)
	}
	if start := bytes.TrimSpace(text); bytes.HasPrefix(start, []byte("data:")) || bytes.HasPrefix(start, []byte("event:")) {
		return c.Events(ctx, bytes.NewReader(text), take)
	}
	var events []Event
	if call.Split != nil && complained(text).Message == "" {
		events = call.Split(text)
	}
	if len(events) == 0 {
		return c.refused(response, text[:min(len(text), maxRefusal)])
	}
	for _, e := range events {
		switch done, err := take(e); {
		case err != nil:
			return c.Fault(ctx, err)
		case done:
			return nil
		}
	}
	return io.EOF
}

// Events passes the events of a stream to take, as [Client.Stream] does.
func (c *Client) Events(ctx context.Context, stream io.Reader, take func(Event) (done bool, err error)) error {
	err := readEvents(stream, take)
	if err == nil || err == io.EOF {
		return err
	}
	return c.Fault(ctx, err)
}

// maxEvent limits the bytes of an event.
const maxEvent = 16 << 20

// readEvents passes the events of a stream to take. An event is complete at the empty line
// after it, so a stream that breaks off never ends in half an event. It returns nil if take
// is done, and io.EOF at the end of the stream.
func readEvents(r io.Reader, take func(Event) (done bool, err error)) error {
	in := bufio.NewReaderSize(r, 16<<10)
	var data []byte
	name, some := "", false
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		if line = append(line, piece...); len(line)+len(data) > maxEvent {
			return errLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return err
		}
		field := bytes.TrimRight(line, "\r\n")
		switch key, value, _ := bytes.Cut(field, []byte(":")); {
		case len(field) == 0:
			if some && len(data) > 0 { // servers send events without data to keep a connection open
				if done, err := take(Event{name, data}); done || err != nil {
					return err
				}
			}
			name, data, some = "", data[:0], false
		case string(key) == "data":
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		case string(key) == "event":
			name = strings.TrimPrefix(string(value), " ")
		}
		line = line[:0]
	}
}

// A Count is a number of tokens. Reading one never fails: a server that reports nonsense has
// still answered.
type Count int64

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(text []byte) error {
	const most = 1 << 40
	number, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil || !(number > 0) {
		number = 0
	}
	*c = Count(min(number, most))
	return nil
}

// An Amount is money in millionths, which JSON has as a number of whole units. Reading one never
// fails: what is no positive number is zero.
type Amount int64

// UnmarshalJSON implements json.Unmarshaler.
func (a *Amount) UnmarshalJSON(text []byte) error {
	const most = 1 << 40
	number, err := strconv.ParseFloat(string(text), 64)
	if number *= 1e6; err != nil || !(number > 0) {
		number = 0
	}
	*a = Amount(math.Ceil(min(number, most)))
	return nil
}

// A Text is a string in JSON. Reading one never fails: null and other values are empty.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*t = Text(s)
	}
	return nil
}

// Args returns the arguments of a call, or a piece of them, from the JSON that the server
// sent: a string, or an object from servers that do not quote it. If it is not valid Unicode,
// the result ends in a byte that no decoder of arguments accepts, so golem refuses the call
// instead of making a different one.
func Args(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	text := string(raw)
	if raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return text + "\xff"
	}
	if filecontent.CheckJSON(raw) != nil {
		return text + "\xff"
	}
	return text
}

// The limits of an answer. A model writes less than a megabyte in its longest answers.
const (
	maxKept  = 16 << 20
	maxCalls = 4096
)

// A Listener passes the pieces of an answer on, and limits what golem keeps of it.
type Listener struct {
	Client *Client
	Tell   func(model.Piece) // may be nil

	bytes, calls int
}

// Say passes on a piece. It returns an error if the answer is too large.
func (l *Listener) Say(p model.Piece) error {
	if l.Tell != nil && p != (model.Piece{}) {
		l.Tell(p)
	}
	return l.Keep(len(p.Text)+len(p.Thinking), 0)
}

// Keep counts bytes and calls of an answer. It returns an error if there are too many.
func (l *Listener) Keep(bytes, calls int) error {
	l.bytes, l.calls = l.bytes+bytes, l.calls+calls
	switch {
	case l.bytes > maxKept:
		return errLong
	case l.calls > maxCalls:
		return l.Client.fail(model.Bad, fmt.Sprintf("the answer from %s has more than %d calls", l.Client.Base.Host, maxCalls), "try another model, or ask for less at once")
	}
	return nil
}

// Refuse returns the error for a file that a model does not accept. accepted has the types
// that it accepts besides text.
func (c *Client) Refuse(f model.File, accepted []string) error {
	return c.fail(model.Bad, "it does not accept the file "+visible.Name(f.Name)+" of the type "+visible.Name(f.Type), "it accepts "+model.ListFileTypes(accepted))
}
