package undo

import (
	"context"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
)

// Open returns the history of the changes that file tools made to files directly. dir is
// the program's state directory.
func Open(dir string) *History {
	return &History{Dir: filepath.Join(dir, "undo"), Lock: func() (func() error, error) {
		folder, err := state.Open(dir)
		if err != nil {
			return nil, err
		}
		defer folder.Close()
		ctx, cancel := context.WithTimeout(context.Background(), lockWait)
		defer cancel()
		return folder.Lock(ctx, "undo", "golem")
	}}
}

// lockWait is how long a call waits for another one that saves a step.
const lockWait = 10 * time.Second
