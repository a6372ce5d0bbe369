// Package approval decides for the user which calls are approved, and what a person is
// shown before. A Desk is the approver of a program. It knows the approval mode, the
// user's earlier approvals with their scope, and whom to ask. If nobody can be asked now,
// the Desk keeps the request. It can be approved later from any other process, and the
// approval is used once.
//
// An approval covers exactly what was shown: one call with its changes, or a rule that
// the user has read word for word. Any answer that is not clearly a yes is a no.
//
// A ChangeSet sorts the changes of a transaction: those to apply, those to skip, and
// those that refuse the whole.
package approval
