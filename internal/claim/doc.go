// Package claim tells whether the process that made a file or directory still needs it.
// Name makes names that say which process made them. Hold and Seize lock directories, for
// processes that cannot see each other. Without either, what a killed golem left could not
// be told from what another golem works with.
package claim
