package overlay

import "strings"

// UnfinishedPrefix starts the names of directories that the jail has not completely copied
// yet. The lists of changes do not have them, so golem never applies them.
const UnfinishedPrefix = ".golem-tmp-move-"

// IsUnfinished reports whether a file has the name of an unfinished copy.
func IsUnfinished(base string) bool { return strings.HasPrefix(base, UnfinishedPrefix) }
