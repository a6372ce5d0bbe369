// Package policy describes what a worker may do, as one value: a [Grant]. It holds files,
// approvals, tools, workers, hosts, credentials, limits, depth and attachments. Grants
// are ordered:
//
//	a.Meet(b)     the greatest grant that is within both
//	a.Within(b)   every way in which a exceeds b; none, if a ≤ b
//	g.Decide(e)   may these effects happen: blocked < ask < preApproved
//
// The grant of a child is the meet of what it declares and what its parent has. The
// declaration must be within the parent's grant: to ask for more is an error. Approvals
// and numeric limits are the exception: there the lower value holds without an error.
//
// If no rule matches an effect, its approval is unset, and the default of the verb holds.
// Such a default does not restrict children: a child may be preApproved for an effect for
// which its parent asks only by default. A rule that says ask or blocked restricts all
// children.
//
// The package is pure. It reads no files and no clock, and starts nothing.
package policy
