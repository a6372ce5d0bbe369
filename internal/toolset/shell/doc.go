// Package shell is the shell tool: it runs one command line in the jail, where
// the command sees what the worker may read unasked and nothing else.
//
// A command is a transaction: what it has changed is a landing, which the gate
// decides about when the command has ended. Where there are no layers it writes to
// the directories themselves; there every call asks, about everything that it could
// change, unless all of that is a session's.
package shell
