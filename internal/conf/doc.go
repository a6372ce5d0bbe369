// Package conf reads the YAML of people and of projects that may be hostile,
// strictly: every value knows where it was written, every key must be known,
// and everything that is wrong is told at once, with its place, the nearest
// known key and what is allowed. Nothing is ever ignored.
//
// A file becomes a tree of [Node]. Flags and environment variables are set into
// the same tree, so that they are checked like the file and remember that they
// came from elsewhere. A [Key] describes what may stand where: as data, from
// which the checks, the printed configuration and the documentation are made.
package conf
