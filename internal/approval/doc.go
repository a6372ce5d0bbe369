// Package approval answers for the user. A Desk is the approver of a program:
// it knows the mode, what the user has let happen before and for how long, and
// whom to ask; where nobody can be asked at this moment it keeps the request,
// to be answered from any other place, and used once.
//
// A yes is for what was shown: for the exact call with its changes, or for a
// rule that the user has seen literally. Whatever is not clearly a yes is a no.
package approval
