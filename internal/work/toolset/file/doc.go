// Package file holds the file tools: they read, list, find, search, write, edit, move, copy
// and delete files. Each has one constructor that returns a tool.Tool. Tools returns them
// all.
//
// A plan only says which names a call would touch, with symlinks followed. The run reads
// the files, after the decision, in a sandbox that shows only these names. The size of a
// result is limited. If something is missing, the text says so and how to continue.
package file
