package scan

import (
	"context"
	"runtime"
	"sync"
)

// A Budget limits what all scans that share it may use at the same time. A scan that does
// not fit waits. Many Sets and goroutines may use one.
type Budget struct {
	mu    sync.Mutex
	room  int64 // bytes
	slots int
	queue []*turn // in the order of arrival
}

// A turn is a waiting scan.
type turn struct {
	need  int64
	ready chan struct{} // closed when the scan may start
}

// budgetBytes is the memory of one budget. One scan may have all of it.
const budgetBytes = 192 << 20

// NewBudget returns the budget of a process: one scan at a time for each processor, at
// least two, with a limited amount of memory in all.
func NewBudget() *Budget { return &Budget{room: budgetBytes, slots: max(2, runtime.GOMAXPROCS(0))} }

// take waits until there is room for a scan that needs a number of bytes. The caller
// calls release when the scan has ended.
func (b *Budget) take(ctx context.Context, need int64) (release func(), err error) {
	t := &turn{need: min(need, budgetBytes), ready: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, t)
	b.admit()
	b.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, other := range b.queue {
			if other == t {
				b.queue = append(b.queue[:i], b.queue[i+1:]...)
				b.admit() // the next ones may fit
				return nil, ended(ctx)
			}
		}
		b.leave(t) // it was admitted at the same moment
		return nil, ended(ctx)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leave(t)
	}, nil
}

// admit starts the next scans, as long as they fit. The caller holds mu.
func (b *Budget) admit() {
	for len(b.queue) > 0 && b.slots > 0 && b.queue[0].need <= b.room {
		t := b.queue[0]
		b.queue = b.queue[1:]
		b.room, b.slots = b.room-t.need, b.slots-1
		close(t.ready)
	}
}

func (b *Budget) leave(t *turn) {
	b.room, b.slots = b.room+t.need, b.slots+1
	b.admit()
}

// needs estimates the memory for a content: its bytes, the bytes inside of it, and copies
// of both.
func (l Limits) needs(size int64) int64 {
	inside := min(l.Ratio*size+freely, l.Expanded, 2*l.Size)
	return 2*min(size, l.Size) + inside
}
