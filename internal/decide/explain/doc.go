// Package explain answers whether a worker may read, write or delete a file, or run a
// command, and says what decides it: mounts, symlinks, the file itself, rules, trust. It
// asks a real sandbox whose backends check an operation without doing it.
package explain
