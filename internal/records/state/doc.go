// Package state keeps golem's data: plain files in a directory of the user, with locks,
// for many processes at once and without a daemon. A kill at any moment leaves the old
// data or the new data.
package state
