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
// [Parse] reads one file strictly. It reports everything that is wrong at once, each
// problem with its line, and ignores nothing. [Worker.Grant] compares what the file asks
// for with what the parent has. The result lies within the parent's grant, and every
// request beyond it is a problem at its line. [Discover] finds the workers of a program.
// [Schema] describes every key.
package worker
