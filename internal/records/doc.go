// Package records holds the journal and the approvals of a program. Each answer of the user
// is in the journal before it counts.
package records
