// Package clearance is the gate between what a worker made and what the user
// trusts. What is staged becomes objects of a private repository, and a
// [StagedCommit] that names them; what is shown is computed from these objects;
// and what is pushed is these objects and no others.
//
// Everything is on the disk when a call returns, and seen by every process. A
// push is written down before it is made: when it is cut off, the target itself
// is asked whether it was made.
package clearance
