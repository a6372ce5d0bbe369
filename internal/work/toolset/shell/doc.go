// Package shell holds the tools that run commands in the jail: shell runs one command
// line, exec runs a program for the user, and the service tools run commands that keep
// running. A command sees only what the worker may read without approval.
//
// A command is a transaction: the gate decides about its changes when the command has
// ended. If overlays are not available, the command writes to the directories themselves.
// Then every call asks for approval of everything that the command could change, unless
// the directories belong to a session.
package shell
