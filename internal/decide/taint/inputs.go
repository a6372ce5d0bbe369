package taint

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of the search for an input with the same content.
const (
	maxInputs    = 20_000   // files
	maxInputSize = 64 << 20 // bytes of a file
)

// An InputFinder finds an input of a worker with the same content as a result. Such a
// result is a copy that the worker passed on.
type InputFinder struct {
	ctx     context.Context
	files   *sandbox.Sandbox // the worker's
	tracker *Tracker
	inputs  []string // mounts that workers only read
	once    sync.Once
	bySize  map[int64][]string // by their sizes
}

// NewInputFinder returns a finder for the files that a worker has read, and for those in
// the mounts inputs, which workers only read.
func NewInputFinder(ctx context.Context, files *sandbox.Sandbox, tracker *Tracker, inputs []string) *InputFinder {
	return &InputFinder{ctx: ctx, files: files, tracker: tracker, inputs: inputs}
}

// index collects the files that the worker read, and those in the mounts that it only
// reads.
func (p *InputFinder) index() {
	p.bySize = make(map[int64][]string)
	names := p.tracker.FilesRead()
	for _, target := range p.inputs {
		list, err := p.files.Walk(p.ctx, target, func(_ string, e sandbox.Entry) (keep, enter bool) { return !e.IsDir(), true },
			sandbox.Budget{Entries: maxInputs, Results: maxInputs})
		if err != nil {
			continue // the worker does not see it
		}
		for _, f := range list.Found {
			names = append(names, f.Path)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if info, err := p.files.Stat(name); err == nil && info.Mode().IsRegular() && info.Size() > 0 && info.Size() <= maxInputSize {
			p.bySize[info.Size()] = append(p.bySize[info.Size()], name)
		}
	}
}

// Find returns a file with this content, "" if there is none.
func (p *InputFinder) Find(size int64, content git.Hash) string {
	p.once.Do(p.index)
	for _, name := range p.bySize[size] {
		f, err := p.files.Open(strings.TrimPrefix(name, "/"))
		if err != nil {
			continue
		}
		hash := git.BlobHash(size, f)
		f.Close()
		if hash == content {
			return name
		}
	}
	return ""
}
