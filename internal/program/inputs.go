package program

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/sandbox"
)

// How much is looked at to find out whether a content was passed through.
const (
	maxInputs    = 20_000   // names
	maxInputSize = 64 << 20 // bytes of a file
)

// A passed knows which files a worker could read: a result with the same content as one
// of them was not made, it was passed through.
type inputFinder struct {
	ctx     context.Context
	files   *sandbox.Sandbox // the worker's
	tracker *taint.Tracker
	inputs  []string // mounts that are only read
	once    sync.Once
	bySize  map[int64][]string // by their sizes
}

func newInputFinder(ctx context.Context, files *sandbox.Sandbox, taken *taint.Tracker, inputs []string) *inputFinder {
	return &inputFinder{ctx: ctx, files: files, tracker: taken, inputs: inputs}
}

// index finds the files: what was read, and what is in the mounts that are only read.
func (p *inputFinder) index() {
	p.bySize = make(map[int64][]string)
	names := p.tracker.FilesRead()
	for _, target := range p.inputs {
		list, err := p.files.Walk(p.ctx, target, func(_ string, e sandbox.Entry) (keep, enter bool) { return !e.IsDir(), true },
			sandbox.Budget{Entries: maxInputs, Results: maxInputs})
		if err != nil {
			continue // it is not shown to this worker
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

// find returns a file with this content, "" if there is none.
func (p *inputFinder) find(size int64, content git.Hash) string {
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
