// Package tool is the door. A tool does not act: it returns a Plan, which says
// what effects it would have, and only Gate.Do can run it, after the grant and,
// where the grant says so, the user have decided, with a sandbox that can do
// what was declared and nothing else. Every call passes there, whoever makes it.
//
//	look up → mode → decode → plan → decide → ask → journal → run → journal
//
// A call of which any step says no has no effect, and is journaled all the same.
package tool
