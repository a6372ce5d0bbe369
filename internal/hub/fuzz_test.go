package hub

import (
	"bytes"
	"testing"
)

// FuzzMessage reads messages, jobs and decisions that somebody forged. Only those count that a
// key has signed.
func FuzzMessage(f *testing.F) {
	seed, key, err := NewSeed()
	if err != nil {
		f.Fatal(err)
	}
	c := Credentials{Seed: seed}
	spec := Spec{ID: "job12345", Hub: "h", User: key, Files: HashOf(nil), Trust: HashOf(nil), Approvers: []string{key}}
	request := Request{ID: "r1", Hash: HashOf(nil)}
	job, err := SignSpec(c, spec)
	if err != nil {
		f.Fatal(err)
	}
	decision, err := SignDecision(c, Decision{Hub: "h", Job: spec.ID, Request: "r1", Hash: request.Hash, By: key})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []Signed{job, decision} {
		message, err := Pack(s, nil, s.Text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message, s.Text, s.Signature)
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01{}"), []byte("{}"), []byte{})
	f.Fuzz(func(t *testing.T, message, text, signature []byte) {
		var got Signed
		if data, err := Unpack(message, &got); err == nil {
			again, err := Pack(got, nil, data)
			if err != nil {
				t.Fatal(err)
			}
			var same Signed
			if more, err := Unpack(again, &same); err != nil || !bytes.Equal(more, data) || !bytes.Equal(same.Text, got.Text) {
				t.Fatalf("got %q, %v", more, err)
			}
		}
		s := Signed{text, signature}
		if opened, err := OpenSpec(s); err == nil && opened.User == key && !bytes.Equal(text, job.Text) {
			t.Fatalf("%s counts as a job of somebody who has not signed it", text)
		}
		if _, err := OpenDecision(s, spec, request); err == nil && !bytes.Equal(text, decision.Text) {
			t.Fatalf("%s counts as a decision of somebody who has not signed it", text)
		}
	})
}
