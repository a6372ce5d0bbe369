// Package profile holds the settings for foreign agents. It finds an agent's program and
// the files the program consists of, and lists the few files, variables and credentials
// of the user that the agent gets in the jail.
package profile
