// Package sandbox shows a program the files it was given, and nothing else.
//
// A [Sandbox] is an immutable value: directories of the host mounted at virtual
// paths, and layers of limits on top. Every operation takes a virtual name,
// resolves it in one place, and either acts inside a mount or returns an
// [*Error] that says what is allowed. [Sandbox.Restrict] makes a lesser
// sandbox; no call makes a greater one.
//
//	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
//		{Target: "/in", Source: "./papers", Access: sandbox.ReadOnly},
//		{Target: "/out", Source: "./results", Access: sandbox.ReadWrite},
//	}})
//
// # Names
//
// A name is virtual and absolute: slash-separated, rooted at "/". Input is
// liberal: "/a/b", "a/b", and "name:b" for a mount at "/name" mean the same
// file where they can. Output is canonical: "/a/b". ".." is resolved
// lexically, and climbing above "/" is an error. NUL, invalid UTF-8, a
// component over 255 bytes and a name over 4,096 bytes are errors before any
// system call. Nothing is decoded or expanded: "%2e", "~", "$HOME" and a
// backslash are characters. A new file may not take a name that another
// system reads as a device or a drive ("NUL.txt", "C:x").
//
// # Mounts
//
// The mount with the longest target holds a name. What a backend holds below
// another mount's target is hidden. Directories above a mount are shown, on disk
// or not, so a listing of "/" leads to every mount. Where the host directories of
// two mounts overlap, a mount that stands at its own place inside the other
// keeps its access; elsewhere the stricter of the two holds on the shared
// part, by whichever name it is reached.
//
// # Links
//
// A symbolic link is followed while it stays inside its mount, and access is
// checked on the name it leads to. A link that leaves its mount, an absolute
// link, and a link into another mount are refused. What counts is the open
// itself, which meets no link on its way: names are never checked first and
// opened later. [Sandbox.Delete] and [Sandbox.Move] act on a link itself, and
// walks never follow one to a directory.
//
// # What it does not do
//
// A hard link is a file like any other when it is read; a write replaces the
// name and leaves the other name's content alone. Writes are atomic against
// readers and a killed process; against a power cut they are as safe as the
// host's file system makes a rename. Extended attributes and access lists are
// not carried over when a file is replaced. On Windows and in the browser, a move
// between two directories of one mount may be led astray inside that mount by a
// process that swaps directories for links at that moment, and between the check
// of a version and the write another process may write.
package sandbox
