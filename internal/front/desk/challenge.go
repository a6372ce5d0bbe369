package desk

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"
)

// challengeLives is how long a device may take to sign a challenge.
const challengeLives = time.Minute

// challenges are texts that a device signs to log in, each once. golem keeps none before a device
// has signed it, so nobody can crowd out those of others by asking for many.
type challenges struct {
	now func() time.Time
	key []byte // of this process

	mu   sync.Mutex
	used map[string]time.Time // until when each would count
}

func newChallenges(now func() time.Time) *challenges {
	return &challenges{now: now, key: []byte(rand.Text()), used: make(map[string]time.Time)}
}

// add returns a new challenge: when it ends, a random text and the signature of golem.
func (c *challenges) add() string {
	text := strconv.FormatInt(c.now().Add(challengeLives).UnixNano(), 10) + "." + rand.Text()
	return text + "." + c.sign(text)
}

func (c *challenges) sign(text string) string {
	sum := hmac.New(sha256.New, c.key)
	sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil))
}

// check returns until when a challenge counts. ok is false for a text that golem did not make, or
// made too long ago.
func (c *challenges) check(challenge string) (until time.Time, ok bool) {
	i := strings.LastIndexByte(challenge, '.')
	if i < 0 || !equal(challenge[i+1:], c.sign(challenge[:i])) {
		return until, false
	}
	end, _, _ := strings.Cut(challenge, ".")
	nanos, err := strconv.ParseInt(end, 10, 64)
	until = time.Unix(0, nanos)
	return until, err == nil && c.now().Before(until)
}

// use uses up a challenge that a device has signed. It reports whether that was the first time.
func (c *challenges) use(challenge string, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for text, end := range c.used {
		if !c.now().Before(end) {
			delete(c.used, text)
		}
	}
	_, is := c.used[challenge]
	c.used[challenge] = until
	return !is
}
