// Package tool defines tools and the gate. A tool does not act: it returns a Plan, which
// lists the effects it would have. Only Gate.Do can run a plan, after the grant and, if
// the grant says so, the user have approved it. The plan runs with a sandbox that allows
// the declared effects and no others. Every call of a tool passes Gate.Do:
//
//	look up → admit → plan → decide → prepare → approve → record the intent →
//	execute → record the outcome → apply deferred changes
//
// A call that one of the steps before the execution refuses has no effect, and the journal
// gets the refusal.
package tool
