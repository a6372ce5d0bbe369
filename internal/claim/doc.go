// Package claim reports whether the process that made a file or directory still needs it.
// Name makes names that identify the process. Hold and Seize lock directories, for
// processes that cannot see each other. Without both, golem could not distinguish the
// remains of a killed golem from files that another golem uses.
package claim
