// Package changes holds the changes of commands and sessions until they are applied
// to the directories of the host, or discarded. The transaction that was applied last can
// be undone. Package overlay does the work for one directory; a Transaction covers all
// directories of a command.
//
// A command writes to overlays that a Recorder prepares for package jail. Finish turns
// its changes into a Transaction. A session works in Overlays, or in copies, which last
// longer than a command. Overlays.Begin turns some of its changes into a Transaction. A
// Transaction is applied as a whole. If golem is killed while it applies one, Recover in
// the next golem completes it or undoes it.
//
// A command may leave directories that the user cannot enter, but a jail.Helper can. So a
// helper does the work on overlays, if one can be started. A program that uses this
// package must call Child first in main.
package changes
