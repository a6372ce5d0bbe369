package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Store keeps data in the streams of a JetStream server. Stores with the same prefix on
// the same server, in any process, are the same store.
type Store struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	prefix   string // of streams and subjects
	replicas int
	alive    *nats.Subscription // answers whether this store is still open
	holder   string             // the name of this store in its leases
	ended    context.Context
	end      context.CancelFunc
}

// patience is how long one operation on the server may take. A refused subject looks like a
// server that does not answer, so nothing waits without an end.
const patience = 20 * time.Second

// MaxValue limits the size of a record, a value and a document.
const MaxValue = 4 << 20

// leastMajor and leastMinor are the oldest version of a server that this package uses. Older
// servers do not sync every write.
const leastMajor, leastMinor = 2, 10

// Open opens the store of a prefix, made of a-z, 0-9, - and _. Each stream is kept on so
// many servers of a cluster. Close does not close the connection.
func Open(conn *nats.Conn, prefix string, replicas int) (*Store, error) {
	if !plainName(prefix) {
		return nil, nameError("store", prefix)
	}
	if err := checkVersion(conn.ConnectedServerVersion()); err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		return nil, err
	}
	s := &Store{conn: conn, js: js, prefix: prefix, replicas: max(replicas, 1), holder: nats.NewInbox()[len("_INBOX."):]}
	s.ended, s.end = context.WithCancel(context.Background())
	s.alive, err = conn.Subscribe(s.aliveSubject(s.holder), func(m *nats.Msg) { m.Respond(nil) })
	if err == nil {
		err = conn.FlushTimeout(patience)
	}
	if err != nil {
		return nil, fmt.Errorf("the NATS server does not answer: %w", err)
	}
	return s, nil
}

// checkVersion returns an error for a server that does not keep what it has acknowledged.
func checkVersion(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d.", &major, &minor); err != nil {
		return fmt.Errorf("the NATS server has the version %q; at least %d.%d is needed", version, leastMajor, leastMinor)
	}
	if major < leastMajor || major == leastMajor && minor < leastMinor {
		return fmt.Errorf("the NATS server has the version %s, which cannot sync every write to disk; install at least %d.%d, with sync_interval: always", version, leastMajor, leastMinor)
	}
	return nil
}

// Close ends what the store waits for, and its leases.
func (s *Store) Close() error {
	s.end()
	return s.alive.Unsubscribe()
}

// within returns a context for one operation.
func (s *Store) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ended, patience)
}

// A stream is a JetStream stream with subjects below its own.
type stream struct {
	*Store
	jetstream.Stream
	base string // its subjects begin with this
}

// openStream opens a stream, and makes it if it is missing. Its settings come from shape.
func (s *Store) openStream(kind, name string, shape jetstream.StreamConfig) (*stream, error) {
	if !plainName(name) {
		return nil, nameError(kind, name)
	}
	shape.Name = strings.Join([]string{s.prefix, kind, name}, "-")
	base := strings.Join([]string{s.prefix, kind, name}, ".")
	shape.Subjects = []string{base + ".>"}
	shape.Storage, shape.Replicas = jetstream.FileStorage, s.replicas
	shape.Discard = jetstream.DiscardNew // a full stream refuses, and loses nothing
	shape.AllowDirect = s.replicas == 1  // fast reads; another replica may not have the newest message
	ctx, cancel := s.within()
	defer cancel()
	made, err := s.makeStream(ctx, shape)
	for err != nil && ctx.Err() == nil && (errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, context.DeadlineExceeded)) { // another process made it at this moment, or a cluster has no leader yet
		made, err = s.makeStream(ctx, shape)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", shape.Name, err)
	}
	return &stream{s, made, base}, nil
}

// makeStream tries once to make a stream. A cluster without a leader does not answer, and later
// does not remember the question.
func (s *Store) makeStream(ctx context.Context, shape jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return s.js.CreateOrUpdateStream(ctx, shape)
}

// last returns the newest message of a subject, and false if there is none.
func (s *stream) last(subject string) (*jetstream.RawStreamMsg, bool, error) {
	ctx, cancel := s.within()
	defer cancel()
	m, err := s.GetLastMsgForSubject(ctx, s.base+"."+subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, false, nil
	}
	return m, err == nil, err
}

// add adds a message to a subject.
func (s *stream) add(subject string, header nats.Header, data []byte, options ...jetstream.PublishOpt) (sequence uint64, err error) {
	ctx, cancel := s.within()
	defer cancel()
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: s.base + "." + subject, Header: header, Data: data}, options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// readersEnd is how long the server keeps a reader of a stream whose process has died.
const readersEnd = 30 * time.Second

// forgetReader removes a reader of the stream from the server, which allows only so many at once.
func (s *stream) forgetReader(reader jetstream.Consumer) {
	if about := reader.CachedInfo(); about != nil {
		ctx, cancel := s.within()
		defer cancel()
		s.DeleteConsumer(ctx, about.Name) // if it fails, the server removes it later
	}
}

// isCode reports whether an error of the server has a code.
func isCode(err error, codes ...jetstream.ErrorCode) bool {
	var e *jetstream.APIError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.ErrorCode == code {
			return true
		}
	}
	return false
}

// The codes of the server for a message that was not the next one, and for a subject that
// has its message.
const (
	codeWrongLast    = jetstream.JSErrCodeStreamWrongLastSequence
	codeWrongLastSub = jetstream.ErrorCode(10164) // the same, while an earlier message is still on its way in a cluster
	codeStoreFailed  = jetstream.ErrorCode(10077) // stream store failed: the subject has its message
)

var plain = regexp.MustCompile(`^[a-z0-9_-]{1,100}$`)

func plainName(name string) bool { return plain.MatchString(name) }

func nameError(kind, name string) error {
	return fmt.Errorf("%s %.40q: no name for it; use a-z, 0-9, - and _", kind, name)
}

// hexHash returns the hexadecimal SHA-256 of a text.
func hexHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
