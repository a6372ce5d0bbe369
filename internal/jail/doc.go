// Package jail runs commands under confinement by the operating system. A command sees the
// directories that a sandbox.Sandbox shows and a part of the system. It has no network
// unless the policy allows it, no privileges, no access to other processes, and no open
// files except its streams. Limits hold for it, and when the call ends, the command and
// all processes that it started have ended.
//
// A Session runs commands with one Policy. On Linux it consists of a holder and of cells.
// The holder owns the user and network namespaces and runs no commands. Each cell is the
// first process of its own PID, mount and IPC namespaces and runs one command at a time.
// Holder and cells are this program again, started with exec: a program that uses the
// package must call Child at the start of main. A socket connects them to the program
// that started them. When it closes, they end.
package jail
