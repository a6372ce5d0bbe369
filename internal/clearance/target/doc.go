// Package target knows the repositories that the user pushes results to: those of the
// project and of its workers. It protects them in mounts, and opens the store of
// staged commits.
package target
