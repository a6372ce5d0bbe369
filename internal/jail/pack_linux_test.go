package jail

import (
	"reflect"
	"testing"
)

// fill sets every field that a message carries to a value that no other field has.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(*next%2 == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt((*next - 20) << (*next % 40))
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*next))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(*next % 256))
	case reflect.String:
		v.SetString("text \x00\xff " + string(rune('a'+*next%26)))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i), next)
			}
		}
	default:
		t.Fatalf("a message has a %s", v.Kind())
	}
}

// TestPack checks that a message arrives with all its fields, empty or not. A damaged
// message is an error.
func TestPack(t *testing.T) {
	for _, kind := range []reflect.Type{reflect.TypeFor[report](), reflect.TypeFor[ask](), reflect.TypeFor[plan](), reflect.TypeFor[order](), reflect.TypeFor[verdict]()} {
		// Each bool is true in one of the rounds, and all fields are zero in the first.
		for round := range int64(3) {
			sent, got := reflect.New(kind), reflect.New(kind)
			if next := round; round > 0 {
				fill(t, sent.Elem(), &next)
			}
			data, err := encode(sent.Elem().Interface())
			if err == nil {
				err = decode(data, got.Interface())
			}
			if err != nil || !reflect.DeepEqual(got.Interface(), sent.Interface()) {
				t.Errorf("%s arrives as\n%+v, %v, want\n%+v", kind, got.Elem(), err, sent.Elem())
			}
			if data[0] != packMark {
				t.Errorf("%s is not packed", kind)
			}
			for n := range data {
				if decode(data[:n], reflect.New(kind).Interface()) == nil {
					t.Errorf("%s: %d of %d bytes are a message", kind, n, len(data))
				}
			}
			if decode(append(data, 0), reflect.New(kind).Interface()) == nil {
				t.Errorf("%s: bytes after the message are ignored", kind)
			}
		}
	}
	if err := decode([]byte(`{"Pid":1}`), new(report)); err == nil {
		t.Error("a report in JSON is a packed message")
	}
}

// FuzzPack reads any bytes as messages: they are an error, or a message.
func FuzzPack(f *testing.F) {
	for _, message := range []any{report{"x", 1}, ask{Request: []byte("{}")}, plan{Steps: []step{{Do: bind, Names: []string{"x"}}}}, order{Args: []string{"a"}, Names: []int{1}}, verdict{Hit: []Limit{TimeLimit}}} {
		data, err := encode(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, message := range []any{new(report), new(ask), new(plan), new(order), new(verdict)} {
			if decode(data, message) != nil {
				continue
			}
			again, err := encode(reflect.ValueOf(message).Elem().Interface())
			other := reflect.New(reflect.TypeOf(message).Elem()).Interface()
			if err != nil || decode(again, other) != nil || !reflect.DeepEqual(message, other) {
				t.Errorf("%+v is sent as %+v, %v", message, other, err)
			}
		}
	})
}
