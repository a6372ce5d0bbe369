package git

import (
	"errors"
	"time"
)

// RepositoryDir returns the private repository of a store.
func RepositoryDir(s *ObjectStore) string { return s.repository() }

// Hurry makes a store wait less for remotes.
func Hurry(s *ObjectStore, patience time.Duration) { s.patience = patience }

// Said returns the failure of a git that printed a text to stderr.
func Said(text string) error {
	return &failure{Command: "fetch", Said: text, cause: errors.New("exit")}
}

var Owned = isOwned

// Trailed returns a message with a trailer.
func Trailed(message, trailer string) string { return withTrailer(message, trailer) }
