// Package session keeps the sessions of a program. A session is work on overlays over the
// mounts of the program, or on copies of them: changes stay there until the user applies
// or discards them. A Store lists the sessions and opens a Workspace on one; a Workspace
// shows the files to a gate and runs its commands. Package changes applies the
// changes.
package session
