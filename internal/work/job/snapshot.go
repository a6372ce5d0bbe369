package job

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A Snapshot is a program with its state. Another machine can continue its run from it.
type Snapshot struct {
	Program parcel.Tree `json:"program"`
	State   parcel.Tree `json:"state"`
}

// A Snapshotter makes snapshots of a program, again and again. It remembers files that have
// not changed. One goroutine at a time may use it.
type Snapshotter struct {
	program        *program.Program
	files, records parcel.Reader
}

// NewSnapshotter returns a Snapshotter of a program. put and known are those of a parcel.Reader. It is an
// error if the program has a mount outside its own directory, because a snapshot does not
// contain it.
func NewSnapshotter(p *program.Program, put func(ctx context.Context, hash string, size int64, content io.Reader) error, known func(hash string) bool) (*Snapshotter, error) {
	for _, m := range p.Project.Mounts {
		if rel, err := filepath.Rel(realPath(string(p.Root())), m.RealHostDir()); err != nil || !filepath.IsLocal(rel) {
			return nil, &sandbox.Error{Op: "mount", Path: m.Target, Code: sandbox.ErrInvalid, Hint: "its source is outside the directory of the program, so the run cannot move to another machine; copy it into the directory"}
		}
	}
	one := parcel.Reader{Put: put, Known: known, Now: p.Storage.Sessions.Now}
	s := &Snapshotter{program: p, files: one, records: one}
	s.records.Skip = func(name string) bool { return session.PartOf(name) == session.Machine }
	return s, nil
}

// Take makes a snapshot. It is complete at a checkpoint of the run, and between two runs.
func (s *Snapshotter) Take(ctx context.Context) (made Snapshot, err error) {
	if made.Program, err = s.files.Read(ctx, string(s.program.Root())); err != nil {
		return made, fmt.Errorf("the program: %w", err)
	}
	if !s.program.Storage.Exists() {
		return made, nil
	}
	if made.State, err = s.records.Read(ctx, s.program.Storage.Sessions.State); err != nil {
		return made, fmt.Errorf("the state: %w", err)
	}
	return made, nil
}

// check returns an error if the state has something that golem would follow out of it. A
// snapshot may come from a machine that lies.
func (s Snapshot) check() error {
	for _, e := range s.State {
		switch part := session.PartOf(e.Name); {
		case part == session.Machine:
			return fmt.Errorf("the state: %.200q belongs to one machine; take the snapshot again", e.Name)
		case part == session.Record && e.Kind != parcel.Dir && e.Kind != parcel.File:
			return fmt.Errorf("the state: %.200q is a %s; only files and directories are allowed there", e.Name, e.Kind)
		case part == session.Record && e.Mode&0o022 != 0 && !strings.Contains(e.Name, "/"):
			return fmt.Errorf("the state: others may write to %.200q; take the snapshot again", e.Name)
		}
	}
	return nil
}

// realPath returns a path without symlinks, or the path itself if that fails.
func realPath(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}
