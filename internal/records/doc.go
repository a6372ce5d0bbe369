// Package records opens the journal and the approvals of a program together. It writes each
// answer of the user to the journal before the answer counts.
package records
