package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Subjects. A client may publish only below its own ask subject, and receive only below its
// own inbox.

// AskSubject returns the subject of a request of a user.
func AskSubject(key, method string) string { return "golem.ask." + key + "." + method }

// InboxPrefix returns the first part of the subjects of answers to a user.
func InboxPrefix(key string) string { return "_INBOX_" + key }

// MaxPart limits the data in one request or answer.
const MaxPart = 2 << 20

// An Error is what a hub answers if it refuses.
type Error struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func (e *Error) Error() string { return e.Text }

// The codes of errors that clients handle.
const (
	CodeRefused  = "refused"  // the role does not permit it
	CodeInvalid  = "invalid"  // the request is wrong
	CodeMissing  = "missing"  // there is no such thing
	CodeStale    = "stale"    // another attempt works on the job now
	CodeDoubt    = "doubt"    // an earlier attempt began this call
	CodeDecided  = "decided"  // there is a decision already
	CodeInternal = "internal" // the hub could not do it now
)

// IsCode reports whether a hub answered with a code.
func IsCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// An envelope is a message to or from a hub: a value as JSON, and data.
type envelope struct {
	Error *Error          `json:"error,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Pack returns the message with a value or an error, and data.
func Pack(value any, failure *Error, data []byte) ([]byte, error) {
	var e envelope
	e.Error = failure
	if value != nil {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		e.Value = text
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(append(binary.AppendUvarint(nil, uint64(len(text))), text...), data...), nil
}

// Unpack reads a message into a value, and returns its data, or the error in it.
func Unpack(message []byte, value any) (data []byte, err error) {
	n, used := binary.Uvarint(message)
	if used <= 0 || n > uint64(len(message)-used) {
		return nil, errors.New("the message cannot be read")
	}
	text, data := message[used:used+int(n)], message[used+int(n):]
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, errors.New("the message cannot be read")
	}
	if e.Error != nil {
		return nil, e.Error
	}
	if value != nil && len(e.Value) > 0 {
		if err := json.Unmarshal(e.Value, value); err != nil {
			return nil, fmt.Errorf("the message cannot be read: %w", err)
		}
	}
	return data, nil
}

// A Client is a connection to a hub. It reconnects by itself.
type Client struct {
	Credentials
	Key      string // the public key
	conn     *nats.Conn
	tell     func(text string)
	patience time.Duration
	losses   *losses
	answers  *answers
	heavy    chan struct{} // has a place for each heavy request that may be on its way
	isSilent atomic.Bool   // the user knows that the hub does not answer
}

// Options are the options of a connection.
type Options struct {
	// OnChange, if set, gets a text when the hub does not answer, when the connection is lost, when
	// it is back, when the hub has a warning for everybody, and when it answers for a while that it
	// cannot do something, such as with a full disk. Some of the text is the hub's.
	OnChange func(text string)
	// Once makes Connect fail if the hub does not answer at once: the caller tries again itself.
	Once bool
	// Patience is how long a request waits for a hub that does not answer at all; 0 for as long as
	// its context.
	Patience time.Duration
}

// Connect connects to the hub of the credentials, and checks that it knows them. It tries again
// while the hub is away, until ctx ends, unless the options say Once.
func Connect(ctx context.Context, c Credentials, o Options) (*Client, error) {
	key, err := c.PublicKey()
	if err != nil {
		return nil, err
	}
	told := func(text string) {
		if o.OnChange != nil {
			o.OnChange(text)
		}
	}
	losses := newLosses()
	options := []nats.Option{
		nats.Name("golem " + string(c.Role)), nats.CustomInboxPrefix(InboxPrefix(key)), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(connectPatience),
		nats.ReconnectBufSize(-1), // a request that cannot be sent fails, and is tried again as a whole
		nats.Nkey(key, c.signNonce),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			losses.tell(errLost)
			if err != nil {
				told("the connection to the hub is lost; trying to connect again")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			losses.allow()
			told("connected to the hub again")
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			// Without its subscription the client would wait for every answer in vain.
			if errors.Is(err, nats.ErrMaxSubscriptionsExceeded) || errors.Is(err, nats.ErrPermissionViolation) {
				losses.refuse(&Error{Code: CodeRefused, Text: fmt.Sprintf("the hub refuses to answer on this connection: %v; check that golem and golem-hub have the same version", err)})
			}
		}),
	}
	if config, err := c.tls(); err != nil {
		return nil, err
	} else if config != nil {
		options = append(options, nats.Secure(config))
	}
	conn, err := dial(ctx, c, o.Once, options, told)
	if err != nil {
		return nil, err
	}
	client := &Client{Credentials: c, Key: key, conn: conn, tell: told, patience: o.Patience, losses: losses, heavy: make(chan struct{}, maxHeavy)}
	client.answers = &answers{prefix: conn.NewInbox() + ".", waiting: make(map[string]chan *nats.Msg)}
	var greeting Greeting
	if _, err = conn.Subscribe(client.answers.prefix+"*", client.answers.receive); err == nil {
		greeting, err = client.Hello(ctx)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	if greeting.Warning != "" {
		told(greeting.Warning)
	}
	return client, nil
}

// connectPatience is how long one server of a hub may take until another one is tried. A server
// that is stopped accepts the connection and says nothing.
const connectPatience = 3 * time.Second

// dial connects to a server of the hub. It tries once, or until ctx ends.
func dial(ctx context.Context, c Credentials, once bool, options []nats.Option, tell func(string)) (*nats.Conn, error) {
	at := strings.Join(c.URLs, ", ")
	for first := true; ; first = false {
		conn, err := nats.Connect(strings.Join(c.URLs, ","), options...)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, nats.ErrAuthorization):
			return nil, errors.New("the hub does not know these credentials, or they were revoked; ask an administrator for new ones: golem hub invite")
		case isCertificate(err):
			return nil, fmt.Errorf("the hub at %s has a certificate that the credentials do not name: %w; check the address, or ask an administrator for new credentials", at, err)
		}
		failed := fmt.Errorf("the hub at %s does not answer: %w; check that golem hub runs there", at, err)
		if once || ctx.Err() != nil {
			return nil, failed
		}
		if first {
			tell(fmt.Sprintf("the hub at %s does not answer: %v; trying again", at, err))
		}
		select {
		case <-ctx.Done():
			return nil, failed
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// isCertificate reports whether a connection failed because of the certificate of the server.
func isCertificate(err error) bool {
	var unverified *tls.CertificateVerificationError
	return errors.As(err, &unverified)
}

var plainNonce = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_+/=-]{8,64}$`) })

// signNonce signs the text with which a server asks for a proof of the key. The server chooses
// the text, so it must be one that is no job and no decision.
func (c Credentials) signNonce(nonce []byte) ([]byte, error) {
	if !plainNonce().Match(nonce) {
		return nil, errors.New("the server asks for a signature of something else than a number; check the address of the hub")
	}
	return c.Sign(nonce)
}

// tls returns the settings of the encryption, nil for none.
func (c Credentials) tls() (*tls.Config, error) {
	encrypted := false
	for _, u := range c.URLs {
		encrypted = encrypted || strings.HasPrefix(u, "tls://")
	}
	if !encrypted {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if c.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return nil, errors.New("the certificate in the credentials cannot be read; ask for new credentials")
		}
	}
	return config, nil
}

// IsConnected reports whether there is a connection now.
func (c *Client) IsConnected() bool { return c.conn.IsConnected() }

// Close ends the connection.
func (c *Client) Close() { c.conn.Close() }

const (
	// askPatience is how long one answer may take. Requests that wait say for how long.
	askPatience = 30 * time.Second
	// silence is how long the hub may take to answer until the user hears of it.
	silence = 3 * time.Second
	// patientTries is how often the hub may answer that it cannot do something until the user hears of it.
	patientTries = 5
	// maxHeavy limits the heavy requests on their way. The hub keeps answers that the client has not
	// read yet in memory, and drops a client that has too many of them.
	maxHeavy = 4
)

// isHeavy reports whether the messages of a method are long: parts of contents, and lists.
func isHeavy(method string) bool { return method == "put" || method == "get" || method == "jobs" }

// isWaiting reports whether the hub may wait before it answers a method.
func isWaiting(method string) bool {
	return method == "take" || method == "decisions" || method == "events"
}

// ask asks the hub, and reads the answer into out. It tries again while the hub is away,
// until ctx or the client's patience ends: every method may be asked twice.
func (c *Client) ask(ctx context.Context, method string, in any, data []byte, out any) ([]byte, error) {
	message, err := Pack(in, nil, data)
	if err != nil {
		return nil, err
	}
	patience := &time.Timer{}
	if c.patience > 0 && !isWaiting(method) {
		patience = time.NewTimer(c.patience)
		defer patience.Stop()
	}
	for refusals := 0; ; {
		got, err := c.askOnce(ctx, method, message, out)
		var refused *Error
		if err == nil || errors.As(err, &refused) && refused.Code != CodeInternal {
			return got, err
		}
		if refused != nil { // tries that got no answer do not count
			if refusals++; refusals == patientTries {
				c.tell("the hub could not do it (" + method + "): " + refused.Text + "; trying again")
			}
		}
		if refused != nil && patience.C != nil {
			patience.Reset(c.patience)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the hub did not answer (%s): %w", method, errors.Join(err, context.Cause(ctx)))
		case <-patience.C:
			return nil, fmt.Errorf("the hub at %s did not answer (%s) for %s: %w; check that golem hub runs there, and most hubs of a cluster", strings.Join(c.URLs, ", "), method, c.patience, err)
		case <-time.After(300 * time.Millisecond):
		}
		if c.conn.IsClosed() {
			return nil, err
		}
	}
}

// errLost says that a connection was lost while a request was on its way.
var errLost = errors.New("the connection was lost")

// askOnce asks the hub one time. A lost connection ends it: no answer would come.
func (c *Client) askOnce(ctx context.Context, method string, message []byte, out any) ([]byte, error) {
	if isHeavy(method) {
		select {
		case c.heavy <- struct{}{}:
			defer func() { <-c.heavy }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	lost := c.losses.wait()
	inbox, answer, forget := c.answers.expect()
	defer forget()
	if err := c.conn.PublishRequest(AskSubject(c.Key, method), inbox, message); err != nil {
		return nil, err
	}
	patience := time.NewTimer(askPatience)
	defer patience.Stop()
	slow := &time.Timer{}
	if !isWaiting(method) {
		slow = time.NewTimer(silence)
		defer slow.Stop()
	}
	for {
		select {
		case m := <-answer:
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, nats.ErrNoResponders
			}
			if !isWaiting(method) && c.isSilent.Swap(false) {
				c.tell("the hub answers again")
			}
			return Unpack(m.Data, out)
		case <-slow.C:
			if !c.isSilent.Swap(true) { // one line is enough for all requests
				c.tell("the hub does not answer yet (" + method + "); waiting for it")
			}
		case <-lost.Done():
			return nil, context.Cause(lost)
		case <-patience.C:
			return nil, nats.ErrTimeout
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// answers brings each answer to the request that waits for it. All come to one subscription: a
// hub limits how many a connection may have.
type answers struct {
	prefix  string // of the inboxes, with a dot
	mu      sync.Mutex
	last    uint64 // the number of the last request
	waiting map[string]chan *nats.Msg
}

// expect returns an inbox for one answer.
func (a *answers) expect() (inbox string, answer <-chan *nats.Msg, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	inbox, made := a.prefix+strconv.FormatUint(a.last, 10), make(chan *nats.Msg, 1)
	a.waiting[inbox] = made
	return inbox, made, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, inbox)
	}
}

// receive takes an answer. Nobody may wait for it any more.
func (a *answers) receive(m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case a.waiting[m.Subject] <- m:
	default:
	}
}

// losses tells those who wait that the connection was lost, or that the hub refuses to answer on it.
type losses struct {
	mu      sync.Mutex
	next    context.Context // ends at the next loss, with its cause
	lose    context.CancelCauseFunc
	refused bool // nothing is answered until the client has connected again
}

func newLosses() *losses {
	l := &losses{}
	l.next, l.lose = context.WithCancelCause(context.Background())
	return l
}

// wait returns a context that ends at the next loss.
func (l *losses) wait() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// tell ends what waits for an answer.
func (l *losses) tell(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(cause)
	if !l.refused {
		l.next, l.lose = context.WithCancelCause(context.Background())
	}
}

// refuse ends what waits for an answer, and every later request.
func (l *losses) refuse(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = true
	l.lose(cause)
}

// allow lets requests wait for answers again.
func (l *losses) allow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused {
		l.refused = false
		l.next, l.lose = context.WithCancelCause(context.Background())
	}
}

// A Greeting is what a hub says about itself and the user.
type Greeting struct {
	Hub   string    `json:"hub"`
	User  User      `json:"user"`
	Time  time.Time `json:"time"`
	Until int       `json:"deadline"` // seconds after which a silent node loses its job
	// Warning is what everybody should know who uses the hub, such as that its data is older than it was.
	Warning string `json:"warning,omitempty"`
}

// Hello asks the hub who it is. It fails if it is another hub than the credentials name.
func (c *Client) Hello(ctx context.Context) (g Greeting, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	proof := make([]byte, 0, 64)
	proof = append(proof, nats.NewInbox()...)
	signature, err := c.ask(ctx, "hello", string(proof), nil, &g)
	if err != nil {
		return g, err
	}
	pair, err := nkeys.FromPublicKey(c.Hub)
	if err == nil {
		err = pair.Verify(append([]byte("golem hub\n"), proof...), signature)
	}
	if err != nil || g.Hub != c.Hub {
		return g, errors.New("another hub answers at this address; ask an administrator for new credentials")
	}
	return g, nil
}
