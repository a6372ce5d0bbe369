package changes

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// TestListing checks that a list of changes is read as it was written, with every field
// of a change. A list that was cut or changed is refused.
func TestListing(t *testing.T) {
	t.Parallel()
	l := overlay.Overlay{Store: t.TempDir()}
	var full overlay.PathChange
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == "-" {
			continue // it is for one process only
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name + "\n/ü")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(1 << 40)
		case reflect.Uint32:
			f.SetUint(1<<32 - 1)
		default:
			t.Fatalf("%s is a %s, which the list does not know", v.Type().Field(i).Name, f.Kind())
		}
	}
	for _, list := range [][]overlay.PathChange{{}, {full}, {{Path: "a"}, full, {}}} {
		if err := writeListing(l, "list", listingMark, list); err != nil {
			t.Fatal(err)
		}
		if got, err := readListing(l, "list"); err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("got %v %v, want %v", got, err, list)
		}
		data, err := os.ReadFile(filepath.Join(l.Store, "list"))
		if err != nil {
			t.Fatal(err)
		}
		for n := range data {
			if err := os.WriteFile(filepath.Join(l.Store, "list"), data[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := readListing(l, "list"); err == nil {
				t.Errorf("%d of %d bytes: read %v", n, len(data), got)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(l.Store, "list"), []byte{listingMark, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readListing(l, "list"); err == nil {
		t.Error("a list with more declared entries than bytes was accepted")
	}
}

// TestReadChanges checks that the changes of a record are read as they were written, and that
// no file means no changes.
func TestReadChanges(t *testing.T) {
	t.Parallel()
	l := overlay.Overlay{Store: t.TempDir()}
	want := []overlay.PathChange{{Path: "a", Op: overlay.Create, Kind: overlay.File, Size: 3}, {Path: "b", Op: overlay.Delete, OldKind: overlay.Dir}}
	if got, err := readChanges(l); got != nil || err != nil {
		t.Errorf("no list: got %v %v", got, err)
	}
	must(t, writeChanges(l, want))
	if got, err := readChanges(l); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
}
