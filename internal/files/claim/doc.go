// Package claim finds files and directories that a killed golem left behind.
// Name makes names that say which process made them. Hold and Seize lock directories, for
// processes that cannot see each other. With both, golem can remove what a killed golem
// left without touching what a running one uses.
package claim
