// Package export holds the tools by which the user hands results on without git: into
// a directory, to a service, into the clipboard. They are the user's alone and always ask.
// What was shown is what is handed on: a file that has changed since is a conflict.
package export
