// Package undo saves what the file tools replace or delete in directories that they write
// directly, so that the user can undo the last calls. Changes of commands and sessions are
// undone by package changes.
//
// A Step describes one call, and is saved before the call runs. It holds the old state of
// each name and the new one. To undo a step, golem compares each name with both. A name
// in the new state gets its old state back. A name in the old state needs nothing: the
// call, or an earlier undo, was interrupted. A name in any other state is a conflict, and
// then golem undoes nothing.
package undo
