// Package parcel describes a directory as a list of its entries, with contents by hash, so
// that another machine can make the same directory. A Reader lists a directory, and Write
// makes one.
//
// A parcel keeps what the state of a session needs: permission bits, modification times,
// symlinks, empty directories, the marks by which overlayfs records a deleted file and a
// replaced directory. It does not keep owners, set-ID bits, other extended attributes,
// sockets, pipes and devices. Hard links become separate files.
package parcel
