// Package policy says what a worker may do, as one value: a [Grant]. It holds
// files, consent, tools, workers, hosts, credentials, limits, depth and
// attachments, and it is ordered:
//
//	a.Meet(b)     the greatest grant that is within both
//	a.Within(b)   every way in which a goes beyond b; none, if a ≤ b
//	g.Decide(e)   may these effects happen: blocked < ask < preApproved
//
// A child's grant is the meet of what it declares with what its parent has, and
// only if the declaration is within the parent's: to ask for more is an error.
// Consent and numeric limits are the exception: there the lower holds, silently.
//
// Consent has a top above preApproved: unwritten. There the default of the verb
// holds, which is no ceiling. So a child may be preApproved where its parent
// only asks by default, and never where anybody above it wrote ask or blocked.
//
// The package is pure. It reads no file, no clock, and starts nothing.
package policy
