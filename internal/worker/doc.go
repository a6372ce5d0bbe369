// Package worker reads worker files into values.
//
// A worker is a prompt with tools, and its file says what it needs:
//
//	---
//	name: reviewer
//	sandbox: {restrict: /src, readonly: true}
//	toolsets: [filesystem]
//	---
//	You review code. …
//
// [Parse] reads one file, strictly: everything that is wrong is told at once,
// each with its line, and nothing is ignored. [Worker.Grant] holds what the file
// asks for against what the parent has: what comes out lies within the parent's
// grant, and every wish beyond it is a problem at the line that makes it.
// [Discover] finds the workers of a program. [Schema] describes every key.
package worker
