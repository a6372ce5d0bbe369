// Package terminal connects the user's terminal with the terminal of a program in the
// jail.
//
// Full-screen programs work unchanged. Their output passes, except sequences that write
// to the clipboard, reach files or the desktop, or make the terminal type text that the
// program chose. Keys reach only the program. When the program ends, however it ends,
// golem resets what it left set in the terminal. Late answers of the terminal do not
// reach the shell as if they were typed.
package terminal
