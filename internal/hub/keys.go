package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A Role says what the holder of a key may do.
type Role string

// The roles. Nobody has two: a node that could also approve would decide about itself.
const (
	Submit  Role = "submit"  // make jobs, and read one's own
	Node    Role = "node"    // take jobs and do them
	Approve Role = "approve" // read what waits, and decide; also make jobs
	Admin   Role = "admin"   // invite, revoke, read and cancel all jobs
)

// Roles are all roles, for messages.
var Roles = []Role{Submit, Node, Approve, Admin}

// ParseRole returns the role of a name.
func ParseRole(name string) (Role, error) {
	if slices.Contains(Roles, Role(name)) {
		return Role(name), nil
	}
	return "", fmt.Errorf("no role %q; the roles are submit, node, approve and admin", name)
}

// Credentials let a person or a node use a hub. The seed is secret.
type Credentials struct {
	Hub  string   `json:"hub"`  // the hub's own public key
	URLs []string `json:"urls"` // where it listens
	Role Role     `json:"role"`
	Name string   `json:"name"`
	Seed string   `json:"seed"`
	CA   string   `json:"ca,omitempty"` // the certificate that the hub's is signed by, if no system knows it
}

// NewSeed returns a new key: the secret seed, and the public key.
func NewSeed() (seed, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	defer pair.Wipe()
	secret, err := pair.Seed()
	if err != nil {
		return "", "", err
	}
	public, err = pair.PublicKey()
	return string(secret), public, err
}

// ReadCredentials reads a file that golem hub invite has made.
func ReadCredentials(file string) (c Credentials, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("the credentials for the hub: %w; an administrator makes them: golem hub invite --role ROLE > %s", err, file)
	}
	if err = json.Unmarshal(data, &c); err == nil {
		err = c.check()
	}
	if err != nil {
		return c, fmt.Errorf("%s holds no credentials for a hub: %w; an administrator makes them: golem hub invite --role ROLE > %s", file, err, file)
	}
	return c, nil
}

// Write writes the credentials to a file that only the user can read.
func (c Credentials) Write(file string) error {
	data, err := c.Text()
	if err != nil {
		return err
	}
	return durable.WriteFile(file, data, 0o600)
}

// Text returns the credentials as they are in a file.
func (c Credentials) Text() ([]byte, error) {
	data, err := json.MarshalIndent(c, "", "  ")
	return append(data, '\n'), err
}

func (c Credentials) check() error {
	if _, err := ParseRole(string(c.Role)); err != nil {
		return err
	}
	if len(c.URLs) == 0 {
		return errors.New("it names no address of the hub")
	}
	if !nkeys.IsValidPublicServerKey(c.Hub) {
		return errors.New("it does not name the hub's key")
	}
	for _, at := range c.URLs {
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return fmt.Errorf("%q is no address; an address is nats://HOST:PORT or tls://HOST:PORT", at)
		}
		if u.Scheme == "nats" && !IsLoopback(u.Hostname()) {
			return fmt.Errorf("%s is not encrypted; outside this machine an address begins with tls://", at)
		}
	}
	_, err := c.PublicKey()
	return err
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// PublicKey returns the public key of the credentials.
func (c Credentials) PublicKey() (string, error) {
	pair, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return "", errors.New("its seed is damaged")
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// Sign signs data with the key of the credentials.
func (c Credentials) Sign(data []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(data)
}

// Verify returns an error unless a public key has signed data.
func Verify(public string, data, signature []byte) error {
	if !nkeys.IsValidPublicUserKey(public) {
		return fmt.Errorf("%.60q is no key of a user", public)
	}
	pair, err := nkeys.FromPublicKey(public)
	if err == nil {
		err = pair.Verify(data, signature)
	}
	if err != nil {
		return fmt.Errorf("the signature is not of %s", Short(public))
	}
	return nil
}

// Short returns the first letters of a key, for messages.
func Short(key string) string { return key[:min(len(key), 12)] }

// isLabel reports whether a text is a label: a-z, 0-9, and - between them.
func isLabel(text string) bool {
	return isPlain(text, 1, 32, "-") && !strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-")
}

// isPlain reports whether a text consists of so many letters a-z, digits, and other characters.
func isPlain(text string, least, most int, other string) bool {
	return len(text) >= least && len(text) <= most && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(other, r)
	})
}

// maxLabels limits the labels of a node or a job.
const maxLabels = 5

// maxLabelBytes limits the length of all labels together: they name a part of the queue.
const maxLabelBytes = 100

// CheckLabels sorts labels, and returns an error for those that no hub takes.
func CheckLabels(labels []string) ([]string, error) {
	labels = slices.Clone(labels)
	slices.Sort(labels)
	labels = slices.Compact(labels)
	for _, l := range labels {
		if !isLabel(l) || l == "any" {
			return nil, fmt.Errorf("%.40q is no label; a label has a-z, 0-9 and -, such as gpu", l)
		}
	}
	if len(labels) > maxLabels {
		return nil, fmt.Errorf("%d labels (%s); at most %d are allowed", len(labels), strings.Join(labels, ", "), maxLabels)
	}
	if all := strings.Join(labels, "_"); len(all) > maxLabelBytes {
		return nil, fmt.Errorf("the labels have %d characters together; at most %d are allowed", len(all), maxLabelBytes)
	}
	return labels, nil
}
