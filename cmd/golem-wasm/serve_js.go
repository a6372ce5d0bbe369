package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall/js"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// serve gives the Worker one function, and answers until the Worker ends.
//
//	golemCall(request: string, content?: Uint8Array): Promise<[answer: string, content?: Uint8Array]>
//
// The request and the answer are JSON, so that a value of a wrong type is an error of the
// decoder. The promise is never rejected.
func serve() {
	s := &server{boxes: map[int]*box{}, branches: map[int]*branch{}}
	js.Global().Set("golemCall", js.FuncOf(func(_ js.Value, args []js.Value) any {
		promise := js.Global().Get("Promise").Call("withResolvers")
		var request string
		if len(args) > 0 && args[0].Type() == js.TypeString {
			request = args[0].String()
		}
		var content []byte
		if len(args) > 1 && args[1].InstanceOf(js.Global().Get("Uint8Array")) {
			content = make([]byte, args[1].Length())
			js.CopyBytesToGo(content, args[1])
		}
		go func() {
			text, out := s.answer(request, content)
			answer := []any{text}
			if out != nil {
				array := js.Global().Get("Uint8Array").New(len(out))
				js.CopyBytesToJS(array, out)
				answer = append(answer, array)
			}
			promise.Call("resolve", js.ValueOf(answer))
		}()
		return promise.Get("promise")
	}))
	js.Global().Call("golemReady")
	select {}
}

// A request names a method of a sandbox.
type request struct {
	Sandbox int             `json:"sandbox"`
	Method  string          `json:"method"`
	Args    json.RawMessage `json:"args"`
}

// An answer has a value or an error.
type answer struct {
	Value any      `json:"value"`
	Error *failure `json:"error,omitempty"`
}

// A failure is an error for the page.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Path    string `json:"path,omitempty"`
}

// answer answers a request. A panic is a bug in golem, and ends only this call.
func (s *server) answer(text string, content []byte) (out string, data []byte) {
	var a answer
	func() {
		defer func() {
			if v := recover(); v != nil {
				a, data = answer{Error: &failure{Code: string(sandbox.ErrInternal), Message: fmt.Sprint("golem failed: ", v)}}, nil
			}
		}()
		var err error
		if a.Value, data, err = s.call(context.Background(), text, content); err != nil {
			a, data = answer{Error: failureOf(err)}, nil
		}
	}()
	encoded, err := json.Marshal(a)
	if err != nil {
		encoded, data = []byte(`{"error":{"code":"internal","message":"golem cannot write its answer"}}`), nil
	}
	return string(encoded), data
}

func failureOf(err error) *failure {
	f := &failure{Code: string(sandbox.CodeOf(err)), Message: err.Error()}
	if known := (*sandbox.Error)(nil); errors.As(err, &known) {
		f.Path = known.Path
	}
	return f
}

// call finds the sandbox and the method of a request.
func (s *server) call(ctx context.Context, text string, content []byte) (any, []byte, error) {
	r, err := decode[request]([]byte(text))
	if err != nil {
		return nil, nil, err
	}
	// A page that has no number writes NaN, which is null in JSON, and must not get a default.
	// The arguments of a model are checked with its tool.
	if r.Method != "call" && hasNull(r.Args) {
		return nil, nil, invalid(r.Method, "an argument is null or not a number; leave out what you do not want to set")
	}
	if r.Method == "open" {
		value, err := s.open(ctx, r.Args)
		return value, nil, err
	}
	b := s.box(r.Sandbox)
	if b == nil {
		return nil, nil, invalid(r.Method, "this sandbox is closed; open it with createBrowserSandbox")
	}
	method, ok := methods[r.Method]
	if !ok {
		return nil, nil, invalid(r.Method, "there is no such method")
	}
	return method(ctx, b, r.Args, content)
}

// decode decodes JSON strictly: an unknown key or a value of another type is an error.
func decode[A any](raw []byte) (A, error) {
	var value, zero A
	if err := decodeInto(raw, &value); err != nil {
		return zero, err
	}
	return value, nil
}

// decodeInto is decode without type parameters, so that the program has it once.
func decodeInto(raw []byte, value any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(value)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("something follows the value")
		}
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return invalid("arguments", fmt.Sprintf("%s is a %s and must be a %s", wrong.Field, wrong.Value, wrong.Type))
	}
	if err != nil {
		return invalid("arguments", err.Error())
	}
	return nil
}

// hasNull reports whether valid JSON has a null anywhere.
func hasNull(raw []byte) bool {
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		switch token, err := d.Token(); {
		case err != nil:
			return false
		case token == nil:
			return true
		}
	}
}

// invalid returns the error for a wrong argument of the page.
func invalid(op, hint string) error {
	return &sandbox.Error{Op: op, Code: gate.ErrArguments, Hint: hint}
}
