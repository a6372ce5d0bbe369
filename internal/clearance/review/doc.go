// Package review says what a person should look at first in a change: files that
// become code when they are trusted, modes, links, and what an eye does not see in
// a text. It looks at values and does nothing: no file is read, and no git is run.
//
// A flag holds nothing back. What is not looked at, because there is too much of
// it, is a flag as well: the silence of this package always means that it looked.
// Its list of files is long and will never be whole, and a text that says in plain
// words what it should not is the reader's to find.
package review
