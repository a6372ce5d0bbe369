// Package clearance is the step between the results of a worker and the repositories that
// the user trusts. Staging writes files as objects of a private repository and keeps a
// [StagedCommit] that names them. Reviews are computed from these objects, and a push
// sends exactly these objects.
//
// When a call returns, its result is on the disk and every process sees it. A push is
// recorded before it starts. If it is interrupted, golem asks the target whether it
// happened.
package clearance
