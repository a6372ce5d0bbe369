// Package detached keeps the terminal of a program that runs in the background.
//
// A golem in the background has a terminal that nobody sees. Its Host reads that terminal,
// keeps the end of the output, and serves it at a socket. A person's terminal connects to
// the socket, shows the output and sends keys, until the person leaves. The program never
// waits for such a terminal: one that does not read misses output, and is drawn again.
//
// The files are in a directory of the session, which only the user may enter: the record,
// the socket, and the last output in two files of limited size. The Host holds a lock on
// the directory. The kernel releases it when that golem ends in any way.
package detached
