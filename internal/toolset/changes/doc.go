// Package changes holds the tools that apply and discard the changes of a session, and
// that undo the last change.
package changes
