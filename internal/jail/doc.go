// Package jail runs a command where it can do no harm: it sees the folders that
// a sandbox shows and a little of the system, reaches no network unless it may,
// has no privilege, no other process and no descriptor to hold on to, works
// within limits, and is gone with all that it started when the call ends.
//
// A Session is a place for commands with one Policy. On Linux it is a holder,
// which owns the user and network namespaces and runs nothing, and cells, each
// the first process of its own process, mount and ipc namespaces, which run one
// command at a time. Holder and cells are this program again, started by exec
// and never by a copy of a large process; who embeds the package calls Child
// first thing in main. The socket to the program that started them is their
// life line: when it closes, all of it ends.
package jail
