// Package patch holds the difference of two texts as hunks, which a person can choose,
// split and edit. It also writes changes of files as patches that git apply reads. It
// only computes with values: it opens no file and runs no git.
package patch
