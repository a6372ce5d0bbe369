// Package review finds what a person should look at first in a change: files that become
// code when they are trusted, modes, symlinks, and characters that the eye does not see
// in a text. It only computes with values: it reads no file and runs no git.
//
// A flag is only a hint: it does not stop a push. If a part of a change is too large to examine, that is a
// flag as well: without flags, everything was examined. The list of file names is long
// and never complete. Package review does not judge what a text says in plain words. That
// is up to the reader.
package review
