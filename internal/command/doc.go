// Package command looks at a command line of bash without running it. [Parse]
// takes it apart into the commands that it runs, each with its words; [Rules]
// hold these against the rules of a grant, one by one, and the line is allowed
// only if each of them is.
//
// A rule matches words, never the beginning of a text. Programs that only run
// another one (env, timeout, xargs, sh -c, find -exec) are looked through: what
// counts is what they run. What is not understood is said to be so, with the
// reason, and no rule lets it pass but one for everything.
//
// This saves questions. It is not the boundary: a program that may be run does
// what it likes, within the jail.
//
// The package is pure. It reads no file and starts nothing.
package command
