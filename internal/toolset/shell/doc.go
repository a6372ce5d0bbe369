// Package shell is the shell tool: it runs one command line in the jail, where
// the command sees what the worker may read unasked and nothing else.
//
// In this version a command writes to the folders themselves, and what it will
// write is not known before it runs. So every call asks: the effects are the
// command, and a change of everything that it could change. Rules for commands
// can block one; none can let one pass unasked before a command is a transaction
// that can be looked at first.
package shell
