package git

import (
	"errors"
	"time"
)

// Directory returns the private repository of a store.
func Folder(s *Store) string { return s.repository() }

// Hurry has a store wait less for remotes.
func Hurry(s *Store, patience time.Duration) { s.patience = patience }

// Said returns the failure of a git that said this.
func Said(text string) error {
	return &Failure{Command: "fetch", Said: text, cause: errors.New("exit")}
}

var Owned = owned
