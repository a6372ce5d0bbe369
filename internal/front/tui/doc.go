// Package tui shows the changes of sessions, and everything else that waits for the user,
// full screen at a terminal. It decides nothing itself. It measures which lines were on the
// screen, and package approval decides whether that is enough for an approval.
//
// All text of files, models and tools passes package visible. A pane left of another one
// has only characters whose width all terminals agree on, so no name can move what is right
// of it.
package tui
