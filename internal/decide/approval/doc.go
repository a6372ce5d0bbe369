// Package approval decides which calls are approved, and what a person sees before
// approving one.
//
// An Approver answers the requests of a program. It knows the approval mode, the user's
// earlier approvals with their scope, and whom to ask. If nobody can be asked now, the
// Approver stores the request. It can be approved later from any other process, and the
// approval is used once. An approval covers one call with exactly its changes, or a rule
// that the user has chosen. Anything but a clear approval declines.
//
// A ChangeSet sorts the changes of a transaction: those to apply and those to skip. Some
// changes make golem refuse the whole transaction.
package approval
