// Package vendortest plays the servers of model vendors on the loopback interface, for tests.
// A server answers in the format of its vendor. It is strict: it refuses what the real one
// refuses, such as a call that comes back without the thought before it. Each answer begins
// with a thought, which the vendor wants back in its own way.
package vendortest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/golem-forge/golem/internal/work/model"
)

// A Vendor is a vendor with one of its models.
type Vendor struct {
	Name    string // for people
	Model   string // vendor:name
	BaseVar string // the variable for the address of its server
	KeyVar  string // the variable for its key; "" for none
	Header  string // the header in which the key comes
	Scheme  string // before the key in the header

	newProtocol func(*Server) protocol
	count       *atomic.Int64 // numbers answers and calls, so that no two servers have the same ones
}

// A protocol is the format of a vendor.
type protocol interface {
	// read checks a request as the vendor does, and converts it.
	read(path string, header http.Header, body object) (Seen, *refusal)
	// write streams an answer, which has a thought and calls with ids of the vendor.
	write(s *stream, a answer)
	// refuse returns the body of an error.
	refuse(r *refusal) any
}

// A Seen is a request as the server understood it.
type Seen struct {
	model.Request
	Thoughts int  // how many thoughts of earlier answers came back
	Marked   bool // the client marked what the server should keep
}

// A refusal is a reason to answer with an error.
type refusal struct {
	status               int
	message, param, code string
}

func refusef(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func unsupported(param, format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...), param, "unsupported_parameter"}
}

// An answer is an answer with what a server adds to it.
type answer struct {
	model.Answer
	number  int    // of the answer, from 1
	thought string // its thought
	sign    string // the signature of the thought
	calls   []call
	texts   []string
}

type call struct{ id, tool, args string }

// signed returns the answer with its thought and signature.
func (a answer) signed() answer {
	a.thought, a.sign = fmt.Sprintf("Thought %d.", a.number), fmt.Sprintf("sign%04d", a.number)
	return a
}

// A Server plays a vendor. It answers with the function that it was started with.
type Server struct {
	URL string

	server *httptest.Server
	vendor Vendor
	reply  func(model.Request) (model.Answer, error)

	mu     sync.Mutex
	made   map[int]bool      // the numbers of the answers
	calls  map[string]int    // the number of the answer, by the id of a call
	lists  map[string]string // what OpenRouter wants back, by signature
	seen   []Seen
	keys   []string
	faults []string
}

// Start starts a server of a vendor. reply gets the conversations; their parts are texts,
// calls, results and files. The server adds a thought to each answer. The caller closes it.
func (v Vendor) Start(reply func(model.Request) (model.Answer, error)) *Server {
	s := &Server{vendor: v, reply: reply, made: map[int]bool{}, calls: map[string]int{}, lists: map[string]string{}}
	p := v.newProtocol(s)
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(p, w, r) }))
	s.URL = s.server.URL
	return s
}

// Close stops the server.
func (s *Server) Close() { s.server.Close() }

// Seen returns the requests that the server accepted.
func (s *Server) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen{}, s.seen...)
}

// Keys returns the keys of all requests, with the names of their headers.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.keys...)
}

// Refused returns the reasons why the server refused requests.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.faults...)
}

func (s *Server) serve(p protocol, w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var body object
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := ""
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		if value := r.Header.Get(name); value != "" {
			key += name + ": " + value
		}
	}
	s.keys = append(s.keys, key)
	var seen Seen
	wrong := refusef("the body is no JSON: %v", err)
	if err == nil {
		seen, wrong = p.read(r.URL.Path+"?"+r.URL.RawQuery, r.Header, body)
	}
	var said model.Answer
	if wrong == nil {
		if said, err = s.reply(seen.Request); err != nil {
			wrong = refusef("%v", err)
		}
	}
	if wrong != nil {
		s.faults = append(s.faults, wrong.message)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(wrong.status)
		json.NewEncoder(w).Encode(p.refuse(wrong))
		return
	}
	s.seen = append(s.seen, seen)
	a := answer{Answer: said, number: int(s.vendor.count.Add(1))}.signed()
	s.made[a.number] = true
	for _, part := range said.Parts {
		switch {
		case part.Call != nil:
			id := fmt.Sprintf("c%08d", s.vendor.count.Add(1)) // nine characters, as Mistral demands
			s.calls[id] = a.number
			a.calls = append(a.calls, call{id, part.Call.Tool, part.Call.Args})
		case part.Text != "":
			a.texts = append(a.texts, part.Text)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	p.write(&stream{w}, a)
}

// answerWith returns the number of the server's answer with a thought and its signature, 0 if
// there is none.
func (s *Server) answerWith(thought, signature string) (number int) {
	fmt.Sscanf(signature, "sign%d", &number) // 0 for others
	if a := (answer{number: number}).signed(); !s.made[number] || a.sign != signature || thought != "" && a.thought != thought {
		return 0
	}
	return number
}

// A stream writes events.
type stream struct{ w http.ResponseWriter }

func (s *stream) event(name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // the servers send only what can be encoded
	}
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", text)
	s.w.(http.Flusher).Flush()
}

// An object is an object of JSON, a list one of its lists.
type (
	object = map[string]any
	list   = []any
)

// unknown returns a field of an object that is not among the known ones, "" if there is none.
func unknown(o object, known ...string) string {
	for name := range o {
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found {
			return name
		}
	}
	return ""
}

// Fields of an object, with zero values for what is not there.
func textOf(o object, name string) string    { s, _ := o[name].(string); return s }
func objectOf(o object, name string) object  { v, _ := o[name].(object); return v }
func numberOf(o object, name string) float64 { n, _ := o[name].(float64); return n }
func listOf(o object, name string) (all []object) {
	items, _ := o[name].(list)
	for _, item := range items {
		if one, ok := item.(object); ok {
			all = append(all, one)
		}
	}
	return all
}

// raw returns a value as JSON.
func raw(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, _ := json.Marshal(v) // it was JSON before
	return text
}

// temperatureOf returns a number of a request, nil if there is none.
func temperatureOf(o object) *float64 {
	if n, ok := o["temperature"].(float64); ok {
		return &n
	}
	return nil
}

// add adds parts to a conversation. Messages of one side in a row are one message.
func add(r *model.Request, role model.Role, parts ...model.Part) {
	if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == role {
		r.Messages[last].Parts = append(r.Messages[last].Parts, parts...)
		return
	}
	r.Messages = append(r.Messages, model.Message{Role: role, Parts: parts})
}

// inline returns the file of an address of the form data:TYPE;base64,DATA.
func inline(address string) model.Part {
	var media, data string
	for i := range address {
		if address[i] == ';' {
			media, data = address[len("data:"):i], address[i:]
			break
		}
	}
	return model.Part{File: &model.File{Type: media, Data: []byte(data)}}
}

// toolsOf converts tools.
func toolsOf(tools []object) (list []model.Tool) {
	for _, t := range tools {
		list = append(list, model.Tool{Name: textOf(t, "name"), Description: textOf(t, "description")})
	}
	return list
}
