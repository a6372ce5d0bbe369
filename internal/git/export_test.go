package git

import "time"

// Folder returns the private repository of a store.
func Folder(s *Store) string { return s.repository() }

// Hurry has a store wait less for remotes.
func Hurry(s *Store, patience time.Duration) { s.patience = patience }
