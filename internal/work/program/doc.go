// Package program opens a project for a front: it loads the configuration and the
// workers, checks the user's trust in them, and connects the sandbox, the jail, the
// journal and the tools to gates.
package program
