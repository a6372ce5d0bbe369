// Package foreigntools makes tools of the programs that worker files name: custom tools and
// MCP servers. It checks their files, and stores which tools a server listed first.
package foreigntools
