package sandbox

// ByOpenat2 reports whether a backend resolves names by openat2.
func ByOpenat2(b Backend) bool {
	_, ok := b.(*tree)
	return ok
}
