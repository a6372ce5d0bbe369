package serve

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// A method answers one kind of request, for some roles.
type method struct {
	roles []hub.Role
	do    func(s *Server, u hub.User, in input) (value any, data []byte, err error)
}

// everybody has all roles. people are all but nodes.
var (
	everybody = hub.Roles
	people    = []hub.Role{hub.Submit, hub.Approve, hub.Admin}
	makers    = []hub.Role{hub.Submit, hub.Approve}
	nodes     = []hub.Role{hub.Node}
	approvers = []hub.Role{hub.Approve}
	admins    = []hub.Role{hub.Admin}
)

// on returns a method for a kind of input.
func on[T any](roles []hub.Role, do func(s *Server, u hub.User, in T) (any, error)) method {
	return method{roles, func(s *Server, u hub.User, in input) (any, []byte, error) {
		var value T
		if err := read(in.value, &value); err != nil {
			return nil, nil, err
		}
		got, err := do(s, u, value)
		return got, nil, err
	}}
}

// methods are all requests that a hub answers. Nothing else has an effect on it.
func methods() map[string]method {
	return map[string]method{
		"hello": {everybody, (*Server).hello},
		"put":   {[]hub.Role{hub.Submit, hub.Approve, hub.Node}, func(s *Server, u hub.User, in input) (any, []byte, error) { return s.board.put(u, in) }},
		"get":   {everybody, func(s *Server, u hub.User, in input) (any, []byte, error) { return s.board.get(u, in) }},

		"invite": on(admins, func(s *Server, _ hub.User, in hub.Invitation) (any, error) { return nil, s.invite(in) }),
		"revoke": on(admins, func(s *Server, _ hub.User, in string) (any, error) { return value(s.revoke(in)) }),
		"users":  on(people, func(s *Server, _ hub.User, _ any) (any, error) { return s.listUsers(), nil }),

		"missing": on([]hub.Role{hub.Submit, hub.Approve, hub.Node}, func(s *Server, u hub.User, in hub.Lookup) (any, error) { return value(s.board.missing(u, in)) }),
		"submit":  on(makers, func(s *Server, u hub.User, in hub.Signed) (any, error) { return nil, s.board.submit(u, in) }),
		"jobs":    on(people, func(s *Server, u hub.User, in hub.Filter) (any, error) { return s.board.listJobs(u, in), nil }),
		"job":     on(people, func(s *Server, u hub.User, in string) (any, error) { return value(s.board.findJob(u, in)) }),
		"events":  on(people, func(s *Server, u hub.User, in hub.EventsQuery) (any, error) { return value(s.board.events(u, in)) }),
		"cancel":  on(people, func(s *Server, u hub.User, in string) (any, error) { return nil, s.board.cancel(u, in) }),
		"retry":   on(people, func(s *Server, u hub.User, in string) (any, error) { return nil, s.board.retry(u, in) }),
		"remove":  on(people, func(s *Server, u hub.User, in string) (any, error) { return nil, remover{s.board}.remove(u, in) }),
		"prune":   on(admins, func(s *Server, u hub.User, in hub.Prune) (any, error) { return value(remover{s.board}.prune(u, in)) }),
		"nodes":   on(people, func(s *Server, _ hub.User, _ any) (any, error) { return value(nodeList{s.board}.listNodes()) }),
		"decide":  on(approvers, func(s *Server, u hub.User, in decideInput) (any, error) { return nil, s.board.decide(u, in) }),

		"take": on(nodes, func(s *Server, u hub.User, in hub.Offer) (any, error) { return value(s.board.take(u, in)) }),
		"beat": on(nodes, func(s *Server, u hub.User, in hub.Attempt) (any, error) { return value(s.board.beat(u, in)) }),
		"revision": on(nodes, func(s *Server, u hub.User, in *hub.Revision) (any, error) {
			return value(revisions{s.board}.compare(u, in))
		}),
		"claim":      on(nodes, func(s *Server, u hub.User, in hub.Claim) (any, error) { return value(s.board.claim(u, in)) }),
		"checkpoint": on(nodes, func(s *Server, u hub.User, in hub.Checkpoint) (any, error) { return nil, s.board.checkpoint(u, in) }),
		"question":   on(nodes, func(s *Server, u hub.User, in hub.Question) (any, error) { return nil, s.board.question(u, in) }),
		"decisions": on(nodes, func(s *Server, u hub.User, in hub.DecisionsQuery) (any, error) {
			return value(s.board.decisions(u, in))
		}),
		"pause": on(nodes, func(s *Server, u hub.User, in hub.Attempt) (any, error) { return nil, s.board.pause(u, in) }),
		"end":   on(nodes, func(s *Server, u hub.User, in hub.End) (any, error) { return nil, s.board.endAttempt(u, in) }),
	}
}

// value returns a value of any type with its error.
func value[T any](v T, err error) (any, error) { return v, err }

// answer answers a request of a key.
func (s *Server) answer(key, name string, message []byte) (value any, data []byte, failure *hub.Error) {
	u, ok := s.index.user(key)
	if !ok {
		return nil, nil, &hub.Error{Code: hub.CodeRefused, Text: "the hub does not know this key any more; ask an administrator for new credentials"}
	}
	m, ok := methods()[name]
	if !ok {
		return nil, nil, &hub.Error{Code: hub.CodeInvalid, Text: fmt.Sprintf("the hub has no request %.40q; this golem may be newer than the hub", name)}
	}
	if !slices.Contains(m.roles, u.Role) {
		return nil, nil, &hub.Error{Code: hub.CodeRefused, Text: fmt.Sprintf("the role %s may not do this (%s); ask an administrator for credentials of another role", u.Role, name)}
	}
	in := input{}
	var err error
	if in.data, err = hub.Unpack(message, &in.value); err != nil {
		return nil, nil, &hub.Error{Code: hub.CodeInvalid, Text: "the hub cannot read the request; this golem may be newer than the hub"}
	}
	value, data, err = m.do(s, u, in)
	if err == nil {
		return value, data, nil
	}
	if errors.As(err, &failure) {
		return nil, nil, failure
	}
	s.tell("%s of %s: %v", name, u.Name, err)
	return nil, nil, &hub.Error{Code: hub.CodeInternal, Text: "the hub could not do it now: " + err.Error()}
}

// soon returns a channel that is ready after a short time.
func (s *Server) soon() <-chan time.Time { return time.After(time.Second) }

// hello says who the hub is, and proves it.
func (s *Server) hello(u hub.User, in input) (any, []byte, error) {
	var proof string
	if err := read(in.value, &proof); err != nil {
		return nil, nil, err
	}
	if len(proof) > 200 {
		return nil, nil, invalid("the request is too long")
	}
	signature, err := s.secret.sign([]byte("golem hub\n" + proof))
	return hub.Greeting{Hub: s.Key(), User: u, Time: s.options.Now(), Until: int(s.options.Deadline / time.Second), Warning: revisions{s.board}.warning()}, signature, err
}

func (s *Server) listUsers() []hub.User {
	list := s.index.allUsers()
	slices.SortFunc(list, func(a, b hub.User) int { return a.Invited.Compare(b.Invited) })
	return list
}
