package serve

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/golem-forge/golem/internal/hub"
)

// openFront starts the server for people and nodes. It has no JetStream: whatever subjects a
// client invents, they lead nowhere.
func (s *Server) openFront() error {
	host, port, err := splitAddress(s.options.Listen)
	if err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	own, public, err := hub.NewSeed()
	if err != nil {
		return err
	}
	o := &server.Options{ServerName: "golem-front", Host: host, Port: port, NoSigs: true, NoLog: true, MaxPayload: maxMessage, AlwaysEnableNonce: true, MaxSubs: maxSlotsEach, MaxControlLine: 1024,
		TLSConfig: s.options.TLS, TLSTimeout: 5, AuthTimeout: 10, WriteDeadline: 30 * time.Second, NoSystemAccount: true}
	o.CustomClientAuthentication = &guard{s, public}
	if s.front, err = startServer(o); err != nil {
		return fmt.Errorf("listen at %s: %w", s.options.Listen, err)
	}
	pair, err := nkeys.FromSeed([]byte(own))
	if err != nil {
		return err
	}
	s.conn, err = nats.Connect("", nats.InProcessServer(s.front), nats.Nkey(public, pair.Sign), nats.MaxReconnects(-1), nats.ErrorHandler(ignoreErrors))
	if err != nil {
		return err
	}
	_, err = s.conn.Subscribe("golem.ask.*.*", s.receive)
	if err == nil {
		err = s.conn.Flush()
	}
	return err
}

// A guard lets in each client that proves to have a key that the hub knows.
type guard struct {
	server *Server
	own    string // the key of the hub's own connection
}

// Check implements server.Authentication.
func (g *guard) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	pair, err := nkeys.FromPublicKey(o.Nkey)
	if err != nil || !nkeys.IsValidPublicUserKey(o.Nkey) {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(o.Sig)
	if err != nil {
		if signature, err = base64.StdEncoding.DecodeString(o.Sig); err != nil {
			return false
		}
	}
	if pair.Verify(c.GetNonce(), signature) != nil {
		return false
	}
	if o.Nkey == g.own {
		c.RegisterUser(&server.User{Username: o.Nkey})
		return true
	}
	if _, ok := g.server.index.user(o.Nkey); !ok {
		return false
	}
	c.RegisterUser(&server.User{Username: o.Nkey, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{hub.AskSubject(o.Nkey, "*")}},
		Subscribe: &server.SubjectPermission{Allow: []string{hub.InboxPrefix(o.Nkey) + ".>"}},
	}})
	return true
}

// disconnect ends the connections of a key.
func (s *Server) disconnect(key string) {
	list, err := s.front.Connz(&server.ConnzOptions{Username: true, Limit: 100_000})
	if err != nil {
		return
	}
	for _, c := range list.Conns {
		if c.AuthorizedUser == key {
			s.front.DisconnectClientByID(c.Cid)
		}
	}
}

// receive answers a request. The subject says who asks: the front lets nobody publish with
// another key. The answer goes only to the inbox of that key.
func (s *Server) receive(m *nats.Msg) {
	parts := strings.Split(m.Subject, ".")
	if len(parts) != 4 || !strings.HasPrefix(m.Reply, hub.InboxPrefix(parts[2])+".") {
		return
	}
	leave, ok := s.slots.enter(parts[2], 1+len(m.Data)/slotBytes)
	if !ok { // the client asks again
		message, _ := hub.Pack(nil, &hub.Error{Code: hub.CodeInternal, Text: "too many requests at once; ask again later"}, nil)
		s.conn.Publish(m.Reply, message)
		return
	}
	s.work.Go(func() {
		defer leave()
		value, data, failure := s.answer(parts[2], parts[3], m.Data)
		message, err := hub.Pack(value, failure, data)
		if err != nil || len(message) > maxMessage {
			message, _ = hub.Pack(nil, &hub.Error{Code: hub.CodeInvalid, Text: "the answer is too large"}, nil)
		}
		s.conn.Publish(m.Reply, message)
	})
}

// Slots limit the requests in work: of all clients, and of each one, so that none can keep the
// others out. A long request takes several: one for each slotBytes.
type slots struct {
	mu   sync.Mutex
	used int
	each map[string]int
}

// The limits. A node may have a thousand jobs, each with a request that waits. The first versions of
// golem have a subscription for each.
const (
	maxSlots     = 20_000
	maxSlotsEach = 1_500
	slotBytes    = 64 << 10
)

// enter takes slots for a request of a key, and returns how to leave them. It returns false if
// there are not enough.
func (s *slots) enter(key string, n int) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > maxSlots || s.each[key]+n > maxSlotsEach {
		return nil, false
	}
	if s.each == nil {
		s.each = make(map[string]int)
	}
	s.used += n
	s.each[key] += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used -= n
		if s.each[key] -= n; s.each[key] == 0 {
			delete(s.each, key)
		}
	}, true
}
