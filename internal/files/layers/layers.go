// Package layers stacks frozen layers below the upperdir of a session's overlay.
//
// A frozen layer is an upperdir that nothing writes to any more. Freezing moves the upperdir
// of a session to a layer, and begins a new one above it. The session shows the same files
// before, between and after these steps, so a crash loses nothing. Layers never change, so
// any number of stacks can have them.
package layers
