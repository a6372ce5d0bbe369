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
	"strings"
	"sync"
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
	Key    string // the public key
	conn   *nats.Conn
	tell   func(text string)
	losses *losses
}

// Options are the options of a connection.
type Options struct {
	// OnChange, if set, gets a text when the connection is lost, when it is back, and when the
	// hub answers for a while that it cannot do something, such as with a full disk.
	OnChange func(text string)
}

// Connect connects to the hub of the credentials, and checks that it knows them.
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
	losses := &losses{next: make(chan struct{})}
	options := []nats.Option{
		nats.Name("golem " + string(c.Role)), nats.CustomInboxPrefix(InboxPrefix(key)), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(10 * time.Second),
		nats.ReconnectBufSize(-1), // a request that cannot be sent fails, and is tried again as a whole
		nats.Nkey(key, c.signNonce),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			losses.tell()
			if err != nil {
				told("the connection to the hub is lost; trying to connect again")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { told("connected to the hub again") }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if config, err := c.tls(); err != nil {
		return nil, err
	} else if config != nil {
		options = append(options, nats.Secure(config))
	}
	conn, err := nats.Connect(strings.Join(c.URLs, ","), options...)
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, errors.New("the hub does not know these credentials, or they were revoked; ask an administrator for new ones: golem hub invite")
	case err != nil:
		return nil, fmt.Errorf("the hub at %s does not answer: %w; check that golem hub runs there", strings.Join(c.URLs, ", "), err)
	}
	client := &Client{Credentials: c, Key: key, conn: conn, tell: told, losses: losses}
	if _, err := client.Hello(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
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

// askPatience is how long one answer may take. Requests that wait say for how long.
const askPatience = 30 * time.Second

// patientTries is how often the hub may answer that it cannot do something until the user hears of it.
const patientTries = 5

// ask asks the hub, and reads the answer into out. It tries again while the hub is away,
// until ctx ends: every method may be asked twice.
func (c *Client) ask(ctx context.Context, method string, in any, data []byte, out any) ([]byte, error) {
	message, err := Pack(in, nil, data)
	if err != nil {
		return nil, err
	}
	for tries := 1; ; tries++ {
		got, err := c.askOnce(ctx, method, message, out)
		var refused *Error
		if err == nil || errors.As(err, &refused) && refused.Code != CodeInternal {
			return got, err
		}
		if refused != nil && tries == patientTries {
			c.tell(refused.Text + "; trying again")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the hub did not answer (%s): %w", method, errors.Join(err, context.Cause(ctx)))
		case <-time.After(300 * time.Millisecond):
		}
		if c.conn.IsClosed() {
			return nil, err
		}
	}
}

// askOnce asks the hub one time. A lost connection ends it: no answer would come.
func (c *Client) askOnce(ctx context.Context, method string, message []byte, out any) ([]byte, error) {
	lost := c.losses.wait()
	answers := make(chan *nats.Msg, 1)
	inbox := c.conn.NewInbox()
	answer, err := c.conn.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer answer.Unsubscribe()
	if err := c.conn.PublishRequest(AskSubject(c.Key, method), inbox, message); err != nil {
		return nil, err
	}
	patience := time.NewTimer(askPatience)
	defer patience.Stop()
	select {
	case m := <-answers:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		return Unpack(m.Data, out)
	case <-lost:
		return nil, errors.New("the connection was lost")
	case <-patience.C:
		return nil, nats.ErrTimeout
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// losses tells those who wait that the connection was lost.
type losses struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next loss
}

func (l *losses) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

func (l *losses) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.next)
	l.next = make(chan struct{})
}

// A Greeting is what a hub says about itself and the user.
type Greeting struct {
	Hub   string    `json:"hub"`
	User  User      `json:"user"`
	Time  time.Time `json:"time"`
	Until int       `json:"deadline"` // seconds after which a silent node loses its job
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
