package hub

import (
	"strings"
	"testing"
)

// TestForgedDecision checks that a decision counts for exactly the request that an approver of the
// job has signed. Nodes check it, because they do not trust the hub.
func TestForgedDecision(t *testing.T) {
	person := func() (Credentials, string) {
		seed, key, err := NewSeed()
		if err != nil {
			t.Fatal(err)
		}
		return Credentials{Seed: seed}, key
	}
	approver, key := person()
	stranger, other := person()
	spec := Spec{ID: "job12345", Hub: "hub", Approvers: []string{key}}
	request := Request{ID: "r1", Hash: HashOf([]byte("the call"))}
	good := Decision{Hub: "hub", Job: "job12345", Request: "r1", Hash: request.Hash, By: key, Reply: Reply{Yes: true}}
	signed := func(c Credentials, change func(*Decision)) Signed {
		d := good
		change(&d)
		s, err := SignDecision(c, d)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	same := func(*Decision) {}
	if d, err := OpenDecision(signed(approver, same), spec, request); err != nil || !d.Reply.Yes {
		t.Fatalf("got %+v, %v", d, err)
	}
	turned := signed(approver, func(d *Decision) { d.Reply.Yes = false })
	turned.Text = []byte(strings.Replace(string(turned.Text), `"yes":false`, `"yes":true`, 1))
	asJob, err := sign(approver, "golem job", good)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Signed{
		"by a stranger":             signed(stranger, func(d *Decision) { d.By = other }),
		"by a stranger, as another": signed(stranger, same),
		"another job":               signed(approver, func(d *Decision) { d.Job = "job99999" }),
		"another request":           signed(approver, func(d *Decision) { d.Request = "r2" }),
		"another call":              signed(approver, func(d *Decision) { d.Hash = HashOf([]byte("another call")) }),
		"another hub":               signed(approver, func(d *Decision) { d.Hub = "other" }),
		"turned into a yes":         turned,
		"signed as a job":           asJob,
		"no signature":              {Text: signed(approver, same).Text},
		"nothing":                   {},
	} {
		if d, err := OpenDecision(s, spec, request); err == nil || d.Reply.Yes {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
	}
}
