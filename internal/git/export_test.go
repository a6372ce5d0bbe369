package git

// Folder returns the private repository of a store.
func Folder(s *Store) string { return s.repository() }
