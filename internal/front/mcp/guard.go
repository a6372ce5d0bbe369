package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/people/visible"
)

// maxField limits the bytes of a URI, a name, a cursor or a log level in a request.
const maxField = 4 << 10

// guard is the outermost handler of every request on both transports. The library copies
// fields of a request into its errors. If such an error is not JSON, the library closes
// the connection on streams. Over HTTP it never answers the request. So guard checks the
// fields first, repairs the errors that come back, and answers a panic with an error.
func (s *server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if why := recover(); why != nil {
				fmt.Fprintf(s.options.Errs, "golem: %s: panic: %s\n%s", visible.Line(method, maxName), visible.Line(fmt.Sprint(why), maxName), debug.Stack())
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error; the user sees the reason in the output of golem mcp"}
			}
		}()
		if err := checkFields(method, r.GetParams()); err != nil {
			return nil, err
		}
		if result, err = next(ctx, method, r); err != nil {
			return nil, makeEncodable(err)
		}
		return result, nil
	}
}

// A field is a string of a request that the library may repeat in an error.
type field struct{ name, value string }

// fieldsOf returns the fields of a request's parameters. Those of tools/call are not among
// them: the gate answers a tool name it does not know, and initialize repeats nothing.
func fieldsOf(params mcp.Params) (list []field) {
	switch p := params.(type) {
	case *mcp.CallToolParamsRaw, *mcp.InitializeParams:
		return nil
	case *mcp.SubscriptionsListenParams:
		if p.Notifications != nil {
			for _, uri := range p.Notifications.ResourceSubscriptions {
				list = append(list, field{"notifications.resourceSubscriptions", uri})
			}
		}
	case *mcp.GetPromptParams:
		for name := range p.Arguments {
			list = append(list, field{"arguments", name})
		}
	case *mcp.CompleteParams:
		list = append(list, field{"argument.name", p.Argument.Name})
		if p.Ref != nil {
			list = append(list, field{"ref.name", p.Ref.Name}, field{"ref.uri", p.Ref.URI})
		}
	}
	v := reflect.ValueOf(params)
	if v.Kind() != reflect.Pointer || v.IsNil() { // the parameters may be missing
		return list
	}
	for _, name := range []string{"URI", "Name", "Level", "Cursor"} {
		if f := v.Elem().FieldByName(name); f.IsValid() {
			list = append(list, field{strings.ToLower(name), f.String()})
		}
	}
	return list
}

// checkFields refuses a field that is too long or holds a character that is not printable.
func checkFields(method string, params mcp.Params) error {
	for _, f := range fieldsOf(params) {
		why := ""
		switch {
		case len(f.value) > maxField:
			why = fmt.Sprintf("is longer than %d bytes", maxField)
		case !isPrintable(f.value):
			why = "contains a character that cannot be printed"
		default:
			continue
		}
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: %s %s", method, f.name, why)}
	}
	return nil
}

// makeEncodable returns an error that has a JSON form: it drops data that is not JSON.
func makeEncodable(err error) error {
	var known *jsonrpc.Error
	if !errors.As(err, &known) || len(known.Data) == 0 || json.Valid(known.Data) {
		return err
	}
	return &jsonrpc.Error{Code: known.Code, Message: err.Error()}
}
