// Package project reads golem-forge.config.yaml, the file at the root of a program. The
// file says which files the program's workers see, and what they may do at most.
//
// There are three spellings for the directories of a sandbox, from three versions of the
// system: mounts, zones, and the paths of llm-do. The package tells them apart by their
// keys and turns each into one table of [Mount]. Other packages do not know which one was
// used.
//
// The file may come with a hostile repository, so the package guesses and ignores
// nothing. An unknown key, a value that does not fit and a contradiction are problems.
// The package reports all of them at once, each with its place and the allowed values.
// Reading the file changes nothing and starts nothing. It looks at directories of the
// host only to see whether they can be mounted.
package project
