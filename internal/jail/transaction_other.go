//go:build !linux

package jail

import "errors"

// A work is where changes are kept; there is none on this system.
type work struct{}

var errNoLayers = errors.New("there are no layers on this system")

// Land returns an error: no command has run.
func (*Transaction) Land([]string) ([]string, error) { return nil, errNoLayers }

// Drop does nothing.
func (*Transaction) Drop() error { return nil }

// Hash returns nothing.
func (*Transaction) Hash(Change) string { return "" }

// Content returns an error: no command has run.
func (*Transaction) Content(Change, int64) (old, new []byte, err error) { return nil, nil, errNoLayers }
