// Package scanners opens the scanners that a project lists: external ones run in a jail, and
// verdicts are cached.
package scanners
