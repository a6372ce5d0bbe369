// Package file is the file tools: to read, list, find and search, and to write,
// edit, move, copy and delete. Each is one constructor that returns a tool.Tool;
// Tools has them all.
//
// A planner only says which names a call would touch, links followed. What
// reads the files is the run, after the decision, with a sandbox in which
// nothing but these names exists. Whatever a tool shows is bounded, and where
// something was left out the text says so and how to continue.
package file
