// Package settle holds the tools that apply and discard the changes of a session, and
// that undo the last change. They show and approve; packages session, changes and undo
// do the work.
package settle
