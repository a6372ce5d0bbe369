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

// until returns until when a challenge counts. It is the zero time for a text that golem did not
// make.
func (c *challenges) until(challenge string) time.Time {
	i := strings.LastIndexByte(challenge, '.')
	if i < 0 || !equal(challenge[i+1:], c.sign(challenge[:i])) {
		return time.Time{}
	}
	end, _, _ := strings.Cut(challenge, ".")
	nanos, err := strconv.ParseInt(end, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// use reports whether a challenge that a device has signed counts. It does so once.
func (c *challenges) use(challenge string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for text, until := range c.used {
		if !c.now().Before(until) {
			delete(c.used, text)
		}
	}
	until := c.until(challenge)
	if _, is := c.used[challenge]; is || !c.now().Before(until) {
		return false
	}
	c.used[challenge] = until
	return true
}
