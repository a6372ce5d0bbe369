// Package jail runs commands under confinement by the operating system. A command sees the
// directories that a sandbox.Sandbox shows and a part of the system. It has no network
// unless the policy allows it, no privileges, no access to other processes, and no open
// files except its streams. Limits hold for it, and when the call ends, the command and
// all processes that it started have ended.
//
// A Jail runs commands with one Policy. This is what it consists of on Linux:
//
//	golem ── Jail ── supervisor    answers connect calls of commands (level landlock)
//	  │        └──── outlet        serves the network that leads to golem
//	  │ socket (wire)
//	  ▼
//	holder                         own user and network namespace; runs no commands
//	  │ starts                     (a Helper is a holder that also works on files)
//	  ▼
//	cell                           own PID, mount and IPC namespace; one command at a time
//	  ├── broker, mover            answer socket and rename calls, which the kernel sends
//	  ▼                            to the cell (seccomp)
//	command                        confined: mounts, Landlock, seccomp, limits
//
// Holder and cells are this program again, started with exec: a program that uses the
// package must call Child at the start of main. A socket connects them to the program
// that started them. When it closes, they end. At the level landlock, without namespaces,
// golem starts the command itself (bare_linux.go).
//
// Read start_linux.go first: it starts the holder and the cells, and runs a command.
package jail
