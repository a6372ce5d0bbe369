// Package git has the tools with which a worker stages results, and with which the user
// reviews and pushes them. Staging reads files through the sandbox. Package clearance
// stores staged commits. Only the user can push.
package git
