package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/store"
	"github.com/golem-forge/golem/internal/records/state"
)

// Options are the options of a hub.
type Options struct {
	Data    string   // its directory
	Listen  string   // HOST:PORT for people and nodes
	Public  []string // the addresses in credentials; those of Listen if there are none
	TLS     *tls.Config
	CA      string   // the certificate that clients need to know, in PEM
	Storage string   // the URL of a NATS server with JetStream; "" for one inside the hub
	Cluster *Cluster // the other hubs, nil for none
	// Replicas are the servers of Storage that keep each stream; 0 for one.
	Replicas int
	// MaxJobs limits the jobs of one user that the hub keeps; 0 for any number.
	MaxJobs int
	// Restored says that the data came from an older backup: nothing continues without a person.
	Restored bool
	// Deadline is how long a node may be silent until its job is given to another one.
	Deadline time.Duration
	Now      func() time.Time
	Tell     func(text string) // prints what an operator should know
	onStep   onStep            // for tests
}

// A Cluster connects the storage of several hubs. They have the same secret.
type Cluster struct {
	Name   string   // of this hub in the cluster
	Listen string   // HOST:PORT for the other hubs
	Routes []string // HOST:PORT of the other hubs
}

// A Server is a hub that runs.
type Server struct {
	options Options
	secret  secret
	dir     *state.Dir
	release func() error // of the data directory
	storage *server.Server
	front   *server.Server
	kept    *nats.Conn // to the storage
	conn    *nats.Conn // to the front
	users   *store.Documents
	board   *board
	index   *index
	ctx     context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	slots   slots  // of requests in work
	seed    string // of the first administrator
}

// Start starts a hub. It returns when clients can connect.
func Start(o Options) (s *Server, err error) {
	s = &Server{options: o, index: newIndex()}
	s.ctx, s.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if s.dir, err = state.OpenNamed(o.Data, "data directory", "--data"); err != nil {
		return s, err
	}
	if err = s.takeData(); err != nil {
		return s, err
	}
	if s.secret, err = openSecret(s.dir); err != nil {
		return s, err
	}
	if err = s.openStorage(); err != nil {
		return s, err
	}
	if err = s.openStore(); err != nil {
		return s, err
	}
	if err = s.follow(); err != nil {
		return s, err
	}
	if o.Restored {
		if err = s.board.stopRestored(); err != nil {
			return s, err
		}
	}
	if err = s.patiently(func() error { return revisions{s.board}.begin(o.Restored) }); err != nil {
		return s, err
	}
	if err = s.inviteAdmin(); err != nil {
		return s, err
	}
	if err = s.openFront(); err != nil {
		return s, err
	}
	if err = s.writeAdmin(); err != nil {
		return s, err
	}
	s.work.Go(s.board.sweepAlways)
	return s, nil
}

// takeData makes this hub the only one of its directory.
func (s *Server) takeData() error {
	leases, err := s.dir.Leases()
	if err != nil {
		return err
	}
	now, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	if s.release, err = leases.Take(now, "hub", "a hub"); err != nil {
		return fmt.Errorf("another golem hub uses the directory %s; stop it, or name another one with --data: %w", s.options.Data, err)
	}
	return nil
}

// openStorage connects to JetStream. A server inside the hub syncs every write.
func (s *Server) openStorage() (err error) {
	if s.options.Storage != "" {
		s.kept, err = nats.Connect(s.options.Storage, nats.Name("golem hub"), nats.MaxReconnects(-1), nats.ReconnectWait(300*time.Millisecond), nats.ErrorHandler(ignoreErrors))
		if err != nil {
			return fmt.Errorf("the NATS server %s: %w; check that it runs", shownURL(s.options.Storage), err)
		}
		if most := s.kept.MaxPayload(); most < maxMessage {
			return fmt.Errorf("the NATS server %s takes messages of at most %d bytes; set max_payload: %d in its configuration", shownURL(s.options.Storage), most, maxMessage)
		}
		s.tell("using the NATS server %s (%s); golem cannot see whether it syncs every write: its configuration needs sync_interval: always in the section jetstream, on every server of the cluster", shownURL(s.options.Storage), s.kept.ConnectedServerVersion())
		return nil
	}
	o := &server.Options{ServerName: "golem-hub", DontListen: true, JetStream: true, StoreDir: filepath.Join(s.options.Data, "jetstream"), SyncAlways: true, NoSigs: true, NoLog: true, MaxPayload: maxMessage,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1}, // a server allows 1000 readers of a stream otherwise
		Username:        "hub", Password: s.secret.derive("storage")}
	if c := s.options.Cluster; c != nil {
		if err := s.clusterOptions(o, c); err != nil {
			return err
		}
	}
	if s.storage, err = startServer(o); err != nil {
		return err
	}
	s.kept, err = nats.Connect("", nats.InProcessServer(s.storage), nats.UserInfo("hub", o.Password), nats.MaxReconnects(-1), nats.ErrorHandler(ignoreErrors))
	return err
}

// ignoreErrors keeps the client from printing errors of a connection. Requests that fail report them.
func ignoreErrors(*nats.Conn, *nats.Subscription, error) {}

func (s *Server) clusterOptions(o *server.Options, c *Cluster) error {
	host, port, err := splitAddress(c.Listen)
	if err != nil {
		return err
	}
	encrypted, err := s.secret.routeTLS()
	if err != nil {
		return err
	}
	password := s.secret.derive("cluster")
	o.ServerName = c.Name
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT // a server of a cluster must listen
	o.Cluster = server.ClusterOpts{Name: "golem", Host: host, Port: port, Username: "hub", Password: password, TLSConfig: encrypted, TLSTimeout: 10}
	for _, route := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: route, User: url.UserPassword("hub", password)})
	}
	return nil
}

// startServer starts a NATS server in this process.
func startServer(o *server.Options) (*server.Server, error) {
	made, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	made.Start()
	if !made.ReadyForConnections(30 * time.Second) {
		made.Shutdown()
		return nil, errors.New("the NATS server in the hub does not start; look for a full disk, or for another program at its address")
	}
	return made, nil
}

// maxMessage limits the size of a message, with everything around a part of a content.
const maxMessage = 8 << 20

// openStore opens what the hub keeps. In a new cluster it waits for a leader.
func (s *Server) openStore() (err error) {
	replicas := max(s.options.Replicas, 1)
	if s.options.Cluster != nil {
		replicas = min(3, len(s.options.Cluster.Routes)+1)
	}
	kept, err := store.Open(s.kept, "golem-"+s.secret.name(), replicas)
	if err != nil {
		return err
	}
	s.board = &board{key: s.secret.public, deadline: s.options.Deadline, now: s.options.Now, tell: s.tell, ctx: s.ctx, store: kept, index: s.index, maxJobs: s.options.MaxJobs, onStep: s.options.onStep}
	open := func() (err error) {
		if s.users, err = s.board.store.Documents("users"); err != nil {
			return err
		}
		return s.board.open(s.secret)
	}
	return s.patiently(open)
}

// patiently tries again while the hubs of a cluster have no leader. A hub alone fails at once.
func (s *Server) patiently(do func() error) error {
	said := ""
	for {
		err := do()
		if err == nil || s.options.Cluster == nil {
			return err
		}
		if text := err.Error(); text != said {
			s.tell("waiting for the other hubs of the cluster: %s", text)
			said = text
		}
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Addresses returns where clients connect.
func (s *Server) Addresses() []string {
	if len(s.options.Public) > 0 {
		return s.options.Public
	}
	scheme := "nats"
	if s.options.TLS != nil {
		scheme = "tls"
	}
	host, _, _ := net.SplitHostPort(s.options.Listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	_, port, _ := net.SplitHostPort(s.front.Addr().String())
	return []string{scheme + "://" + net.JoinHostPort(host, port)}
}

// Key returns the public key of the hub.
func (s *Server) Key() string { return s.secret.public }

// Close stops the hub. What it has acknowledged is on disk.
func (s *Server) Close() {
	s.end()
	if s.front != nil {
		s.front.Shutdown()
	}
	s.work.Wait()
	if s.conn != nil {
		s.conn.Close()
	}
	if s.board != nil {
		s.board.store.Close()
	}
	if s.kept != nil {
		s.kept.Close()
	}
	if s.storage != nil {
		s.storage.Shutdown()
		s.storage.WaitForShutdown()
	}
	if s.front != nil {
		s.front.WaitForShutdown()
	}
	if s.release != nil {
		s.release()
	}
	if s.dir != nil {
		s.dir.Close()
	}
}

func (s *Server) tell(format string, args ...any) {
	if s.options.Tell != nil {
		s.options.Tell(fmt.Sprintf(format, args...))
	}
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		return "", 0, fmt.Errorf("%q is no address; an address is HOST:PORT", address)
	}
	return host, port, nil
}

// shownURL returns a URL without its password.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(unreadable address)"
	}
	return u.Redacted()
}

// credentials returns the credentials of a user.
func (s *Server) credentials(seed string, role hub.Role, name string) hub.Credentials {
	return hub.Credentials{Hub: s.Key(), URLs: s.Addresses(), Role: role, Name: name, Seed: seed, CA: s.options.CA}
}
