// Package evaluation runs the cases of a program: inputs with the answers and changes that
// the user expects.
//
// Each case is a run in a session of its own. The session has an overlay over every
// writable mount, so a case changes no file of the user, and no case sees the changes of
// another. Nobody is asked: a case names the tools whose calls it approves, and golem
// declines all other calls that need approval.
package evaluation
