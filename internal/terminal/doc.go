// Package terminal connects the terminal that somebody sits at with the one that a
// program in the jail has.
//
// Programs that draw on the whole screen are shown as they are: what they print
// passes, except what would write to the clipboard or let the terminal type text
// of the program's choice. Keys reach the program alone. What it leaves set, however
// it ended, is put back, and answers of the terminal that come too late for it do not
// reach the shell as if they were typed.
package terminal
