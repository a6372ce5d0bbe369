// Package explain answers whether a file may be read, written or deleted, and says what
// decides it: mounts, links, the file itself. It asks a real sandbox, of folders that are
// looked at and never changed.
package explain
