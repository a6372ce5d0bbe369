package session

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// TestReceive checks that a session which another machine made on a copy works on a copy here too:
// this machine may be unable to mount an overlay as well.
func TestReceive(t *testing.T) {
	for name, isCopy := range map[string]bool{"copy": true, "overlay": false} {
		there, here := newStore(t), newStore(t)
		for _, s := range []*Sessions{there, here} {
			s.Project = &project.Project{Mounts: []project.Mount{{Target: "/", Source: sandbox.Host(t.TempDir()), Mode: project.Overlay}}}
		}
		one := there.start(t, Options{Copy: isCopy})
		var overlays *changes.Overlays
		var err error
		if isCopy {
			overlays, _, err = changes.OpenCopies(sandbox.Host(one.dir), there.OverlayMounts(), changes.CopyOptions{})
		} else {
			overlays, err = changes.Open(sandbox.Host(one.dir), there.OverlayMounts(), false)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := overlays.Close(); err != nil {
			t.Fatal(err)
		}
		contents := make(map[string][]byte)
		reader := parcel.Reader{Put: func(_ context.Context, hash string, _ int64, content io.Reader) (err error) {
			contents[hash], err = io.ReadAll(content)
			return err
		}}
		tree, err := reader.Read(t.Context(), one.dir)
		if err != nil {
			t.Fatal(err)
		}
		write := func(dir string, tree parcel.Tree) error {
			return parcel.Write(t.Context(), dir, tree, parcel.Limits{}, func(_ context.Context, hash string) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(contents[hash])), nil
			})
		}
		if err := Receive(*here, one.ID, "a job", tree, nil, write, func(string, string) bool { return true }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _, err := here.begin(Options{ID: one.ID}, !isCopy); err != nil || got.Copy != isCopy {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
