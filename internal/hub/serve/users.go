package serve

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nkeys"

	"github.com/golem-forge/golem/internal/hub"
)

// follow keeps the index up to date. It returns when the index has everything.
func (s *Server) follow() error {
	failed := make(chan error, 1)
	start := func(what string, run func(ready func()) error) <-chan struct{} {
		ready := make(chan struct{})
		tellReady := sync.OnceFunc(func() { close(ready) })
		s.work.Go(func() {
			for {
				err := run(tellReady)
				if s.ctx.Err() != nil {
					return
				}
				s.tell("following the %s: %v; trying again", what, err)
				select {
				case failed <- err:
				default:
				}
				select {
				case <-s.ctx.Done():
					return
				case <-s.soon():
				}
			}
		})
		return ready
	}
	users := start("users", func(ready func()) error {
		return s.users.Follow(s.ctx, ready, func(_ string, value []byte, revision uint64) error {
			var u hub.User
			if err := json.Unmarshal(value, &u); err != nil {
				return err
			}
			s.index.keepUser(u, revision)
			return nil
		})
	})
	jobs := start("jobs", func(ready func()) error {
		return s.board.jobs.Follow(s.ctx, ready, func(_ string, value []byte, revision uint64) error {
			var j hub.Job
			if err := json.Unmarshal(value, &j); err != nil {
				return err
			}
			s.index.keepJob(j, revision)
			return nil
		})
	})
	for users != nil || jobs != nil {
		select {
		case <-users:
			users = nil
		case <-jobs:
			jobs = nil
		case err := <-failed:
			if s.options.Cluster == nil && s.options.Storage == "" {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	return nil
}

// adminName is the file with the credentials of the first administrator.
const adminName = "admin.creds"

// inviteAdmin makes the first administrator, whose credentials are in the data directory.
func (s *Server) inviteAdmin() error {
	file := filepath.Join(s.options.Data, adminName)
	if c, err := hub.ReadCredentials(file); err == nil {
		if key, err := c.PublicKey(); err == nil {
			if _, ok := s.index.user(key); ok {
				return nil
			}
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	seed, public, err := hub.NewSeed()
	if err != nil {
		return err
	}
	u := hub.User{Key: public, Role: hub.Admin, Name: "admin", Invited: s.options.Now()}
	if err := s.patiently(func() error { return s.putUser(u) }); err != nil {
		return err
	}
	s.seed = seed
	return nil
}

// writeAdmin writes the credentials of the first administrator, once the addresses are known.
func (s *Server) writeAdmin() error {
	file := filepath.Join(s.options.Data, adminName)
	if s.seed == "" {
		c, err := hub.ReadCredentials(file)
		if err != nil {
			return err
		}
		s.seed = c.Seed
	}
	return s.credentials(s.seed, hub.Admin, "admin").Write(file)
}

func (s *Server) putUser(u hub.User) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	key := lowerKey(u.Key)
	_, revision, err := s.users.Get(key)
	if err == nil {
		revision, err = s.users.Put(key, data, revision)
	}
	if err == nil {
		s.index.keepUser(u, revision)
	}
	return err
}

var plainUser = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

func (s *Server) invite(i hub.Invitation) error {
	if _, err := hub.ParseRole(string(i.Role)); err != nil {
		return invalid("%v", err)
	}
	if !plainUser.MatchString(i.Name) {
		return invalid("%.40q is no name for a user; use letters, digits, and . _ @ -", i.Name)
	}
	if !nkeys.IsValidPublicUserKey(i.Key) {
		return invalid("%.60q is no key of a user", i.Key)
	}
	if _, known := s.index.user(i.Key); known {
		return nil // the same request came twice
	}
	return s.putUser(hub.User{Key: i.Key, Role: i.Role, Name: i.Name, Invited: s.options.Now()})
}

// revoke makes the hub refuse a key, or all keys of a name.
func (s *Server) revoke(keyOrName string) (n int, err error) {
	for _, u := range s.index.allUsers() {
		if u.Key != keyOrName && u.Name != keyOrName || u.Revoked {
			continue
		}
		u.Revoked = true
		if err := s.putUser(u); err != nil {
			return n, err
		}
		s.disconnect(u.Key)
		n++
	}
	if n == 0 {
		return 0, missing("nobody with the key or name %.60q; golem hub users lists them", keyOrName)
	}
	return n, nil
}

// lowerKey returns a key as the name of a document.
func lowerKey(key string) string { return strings.ToLower(key) }
