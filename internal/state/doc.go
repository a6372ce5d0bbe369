// Package state is the one place where things are kept: plain files in a directory
// of the user's own, with locks, for many processes at once and without a
// daemon. A kill at any moment leaves what was there before or what came after.
package state
