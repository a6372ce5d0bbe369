// Package export holds the tools with which the user takes results out without git: into
// a directory, to a service, into the clipboard. Only the user can call them, except that
// the configuration can let models send to a service. They always ask for approval. They hand on exactly what was shown: a file that has changed
// since is a conflict.
package export
