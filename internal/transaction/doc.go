// Package transaction holds what commands and sessions have changed until somebody decides
// about it: a change is applied to the directories of the host, or discarded, and what was
// applied last can be undone.
//
// A command writes to overlays that a Recorder prepares for package jail. Finish makes a
// Transaction of what it changed. A session works in Overlays, or in copies, which last
// longer than a command; some of its changes become a Transaction by Overlays.Begin. A
// Transaction is applied as a whole: if golem is killed meanwhile, the next golem completes
// it, or takes it back, by Recover.
//
// A command may leave directories that the user cannot enter. So work on overlays is done
// in a jail.Helper, which can, if one can be started. A program that uses this package
// calls Child first thing in main.
package transaction
