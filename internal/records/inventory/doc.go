// Package inventory knows what golem stores for all programs: where the state of each is,
// which version of golem wrote it, and how much it takes.
package inventory
