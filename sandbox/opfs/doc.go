// Package opfs keeps the files of a sandbox in a browser, in the origin private file system.
// It is for js/wasm, in a Worker: only there the browser has synchronous access handles.
//
// A [Workspace] is the directory /workspaces/{id} of the origin. One tab at a time holds it,
// by a Web Lock. [Workspace.Backend] returns a backend for the workspace or a directory in it.
//
// A file is stored under its own name, with the characters that some browser refuses as %XX.
// The browser keeps neither permission bits nor symlinks, so the stored name has those: "run.sh"
// with the mode 0755 is stored as "run.sh%=755", and a symlink as "name%@" with its target as
// the content.
//
// # Limits of the guarantees
//
// Other scripts of the same origin can change the files at any time, and are trusted. What they
// store under names that this package does not write is not shown. A write is atomic: if the
// tab is closed meanwhile, the file has the old or the new content. The rename of a directory
// is not one step for the browser: if the tab is closed meanwhile, the next Open completes it.
package opfs
