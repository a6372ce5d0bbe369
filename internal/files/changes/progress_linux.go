package changes

import (
	"time"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// progressEvery is how often onProgress is called.
const progressEvery = 200 * time.Millisecond

// reportProgress calls onProgress until stop is called. Helpers write to files how much
// they have done.
func (t *Transaction) reportProgress() (stop func()) {
	if t.onProgress == nil {
		return func() {}
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			for i, l := range t.record.layers {
				if part, ok := overlay.ApplyProgress(l); ok {
					t.onProgress((float64(i) + part) / float64(len(t.record.layers)))
				}
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}
