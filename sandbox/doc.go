// Package sandbox gives a program access to chosen files, and to no others.
//
// A [Sandbox] is an immutable value. It has mounts, which are directories of the host at
// virtual paths, and layers of limits on top of them. Every operation takes a virtual
// name. One resolver turns the name into a file. The operation then acts inside a mount,
// or returns an [*Error] that says what is allowed. [Sandbox.Restrict] returns a sandbox
// with less access. No method returns a sandbox with more.
//
//	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
//		{Target: "/in", Source: "./papers", Access: sandbox.ReadOnly},
//		{Target: "/out", Source: "./results", Access: sandbox.ReadWrite},
//	}})
//
// # Names
//
// A name is virtual and absolute: it is separated by slashes and starts at "/". The
// operations also accept "a/b" for "/a/b", and "name:b" for "/name/b" if a mount is at
// "/name". Results and errors have the canonical form "/a/b". ".." is resolved lexically,
// and a name that climbs above "/" is an error. NUL, invalid UTF-8, a component over 255
// bytes and a name over 4,096 bytes are errors before any system call. Nothing is decoded
// or expanded: "%2e", "~", "$HOME" and a backslash are plain characters. A new file
// cannot have a name that another system reads as a device or a drive ("NUL.txt", "C:x").
//
// # Mounts
//
// The mount with the longest target holds a name. It hides the files that another backend
// has below its target. Directories above a mount are always shown, even if they do not
// exist on disk, so a listing of "/" leads to every mount. The host directories of two
// mounts may overlap. A mount whose target is the same path that its directory has in the
// other mount keeps its own access. Otherwise the lower access of the two applies to the
// shared files, under both names.
//
// # Symlinks
//
// The resolver follows a symlink while it stays inside its mount, and checks access on
// the name that the symlink leads to. It refuses a symlink that leaves its mount, an
// absolute symlink, and a symlink into another mount. A name is never checked first and
// opened later: the step that opens the file refuses symlinks itself.
// [Sandbox.Delete] and [Sandbox.Move] act on a symlink itself. Walks never follow a
// symlink to a directory.
//
// # Limits of the guarantees
//
// Reading a hard link reads the file. A write replaces the name, so the content under the
// file's other names stays the same. A write is atomic for readers and if the process is
// killed. After a power cut it is as safe as a rename on the host's file system. Extended
// attributes and access control lists are lost when a file is replaced. On Windows and in
// the browser there are two races. If another process replaces directories by symlinks
// during a move between two directories of one mount, the move may reach another
// directory inside that mount. Another process may also write between the check of a
// version and the write.
package sandbox
