package jail

// A coming is a holder that is being started, or why it is not.
type coming struct {
	holder *Session
	err    error
}

// Expect starts the holder that Folder will need, and returns at once: it starts while the
// caller prepares other things.
func (k *Kept) Expect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holder != nil || k.coming != nil || len(k.layers) == 0 || k.layers[0].IsCopy {
		return
	}
	k.coming = make(chan coming, 1)
	go func(started chan<- coming) {
		holder, err := startKeeper(keepingOf(k.network), Policy{}, k.now)
		started <- coming{holder, err}
	}(k.coming)
}

// newHolder returns the holder that Expect has started, or a new one.
func (k *Kept) newHolder() (*Session, error) {
	if k.coming == nil {
		return startKeeper(keepingOf(k.network), Policy{}, k.now)
	}
	got := <-k.coming
	k.coming = nil
	return got.holder, got.err
}
