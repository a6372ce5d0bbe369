package opfs

import (
	"io/fs"
	"syscall/js"

	"github.com/golem-forge/golem/sandbox"
)

// await waits for a promise, and returns its value or its reason as an error.
func await(promise js.Value) (js.Value, error) {
	type outcome struct {
		value js.Value
		err   error
	}
	done := make(chan outcome, 1)
	settle := func(failed bool) js.Func {
		return js.FuncOf(func(_ js.Value, args []js.Value) any {
			switch {
			case failed:
				done <- outcome{err: errorOf(args[0])}
			case len(args) > 0:
				done <- outcome{value: args[0]}
			default:
				done <- outcome{}
			}
			return nil
		})
	}
	resolved, rejected := settle(false), settle(true)
	defer resolved.Release()
	defer rejected.Release()
	promise.Call("then", resolved, rejected)
	o := <-done
	return o.value, o.err
}

// ask calls a method that returns a promise, and waits for it.
func ask(object js.Value, method string, args ...any) (js.Value, error) {
	promise, err := call(object, method, args...)
	if err != nil {
		return js.Value{}, err
	}
	return await(promise)
}

// call calls a method, and returns what it throws as an error.
func call(object js.Value, method string, args ...any) (v js.Value, err error) {
	defer func() {
		switch thrown := recover().(type) {
		case nil:
		case js.Error:
			err = errorOf(thrown.Value)
		default:
			panic(thrown)
		}
	}()
	return object.Call(method, args...), nil
}

// errorOf returns the error for an exception of the browser. Its text may be anything, so it
// is dropped.
func errorOf(exception js.Value) error {
	name := ""
	if exception.Type() == js.TypeObject {
		name = exception.Get("name").String()
	}
	switch name {
	case "NotFoundError":
		return fs.ErrNotExist
	case "TypeMismatchError":
		return sandbox.ErrNotDir
	case "InvalidModificationError":
		return sandbox.ErrNotEmpty
	case "NoModificationAllowedError":
		return &sandbox.Error{Code: sandbox.ErrConflict, Hint: "another script of this site has the file open; try again"}
	case "QuotaExceededError":
		return errFull()
	case "TypeError":
		return &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "the browser rejects it"}
	case "NotAllowedError", "SecurityError":
		return &sandbox.Error{Code: sandbox.ErrOutside, Hint: "the browser lets this page store no files; leave the private mode, or allow site data"}
	case "InvalidStateError", "NotReadableError", "AbortError":
		return &sandbox.Error{Code: sandbox.ErrConflict, Hint: "another script of this site changed the file meanwhile; try again"}
	}
	return &sandbox.Error{Code: sandbox.ErrInternal, Hint: "the browser failed: " + sandbox.Shown(name)}
}

// errFull is the error for a full store.
func errFull() error {
	return &sandbox.Error{Code: sandbox.ErrLimit, Hint: "the browser gives this site no more space; nothing was changed; delete files, or free space on the disk"}
}
