// Package project reads golem-forge.config.yaml, the file at the root of a
// program that says what exists for its workers and how far they may go.
//
// There are three ways to write the directories of a sandbox, from three ages of
// the system: mounts, zones, and the paths of llm-do. They are told apart by
// their keys and lowered into one table of [Mount]; nothing behind this package
// knows which was used.
//
// The file may come with a hostile repository. Nothing in it is guessed at or
// passed over: a key that is not known, a value that does not fit, two things
// that contradict each other are all problems, told at once, each with its
// place and what is allowed. Reading it changes nothing and starts nothing; it
// looks at the host's directories only to see whether they can be mounted.
package project
