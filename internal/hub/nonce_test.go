package hub

import (
	"strings"
	"testing"
)

// TestNonceIsNoDecision checks that a server cannot get a signature of a decision by asking for
// it as the proof of the key.
func TestNonceIsNoDecision(t *testing.T) {
	seed, key, err := NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	c := Credentials{Seed: seed}
	if _, err := c.signNonce([]byte("Zm9vYmFyMTIzNDU")); err != nil {
		t.Errorf("the nonce of a server: %v", err)
	}
	for _, text := range []string{"golem decision\n{\"by\":\"" + key + "\"}", "golem job\n{}", "", strings.Repeat("a", 200), "a b c d e f g"} {
		if _, err := c.signNonce([]byte(text)); err == nil {
			t.Errorf("it signs %q", text)
		}
	}
}
