// Package inbox collects everything that waits for the user: calls that wait for approval,
// sessions with changes, staged commits and paused runs, in one directory or in all that
// golem knows. It holds the data that fronts show, and no text of theirs.
package inbox
