package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
)

func client(t *testing.T, base string) *Client {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(Server{Model: "v:m", Base: u, Header: "X-Api-Key", Key: "secret-key", KeyFrom: "V_KEY"})
}

// TestKeyStays: the key goes only to the server, whatever a request says.
func TestKeyStays(t *testing.T) {
	var sent []string
	handle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"))
	})
	one, other := httptest.NewServer(handle), httptest.NewServer(handle)
	t.Cleanup(one.Close)
	t.Cleanup(other.Close)
	c := client(t, one.URL)
	for _, to := range []string{one.URL, other.URL, strings.Replace(one.URL, "127.0.0.1", "localhost", 1)} {
		r, err := http.NewRequest("POST", to, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret-key")
		response, err := c.do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if got := fmt.Sprintf("%q", sent); got != `["secret-key" "" ""]` {
		t.Errorf("sent %s", got)
	}
}

// TestEndless: the client stops reading an answer that does not end.
func TestEndless(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for lines := bytes.Repeat([]byte("data: x\n\n"), 10_000); r.Context().Err() == nil; {
			if _, err := w.Write(lines); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	c := client(t, s.URL)
	r, _ := http.NewRequest("POST", s.URL, nil)
	response, err := c.do(r)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if n > maxAnswer || !errors.Is(err, errLong) {
		t.Errorf("read %d, %v", n, err)
	}
	if e := c.Fault(context.Background(), err).(*model.Error); e.Class != model.Bad || !strings.Contains(e.What, "is larger than golem accepts") {
		t.Errorf("got %v", e)
	}
}

// TestFaults covers failures that the loopback interface cannot produce.
func TestFaults(t *testing.T) {
	c := client(t, "https://host.example/v1/")
	for _, test := range []struct {
		err   error
		class model.Class
		want  string
	}{
		{&url.Error{Op: "Post", URL: "https://host.example/?k=secret-key", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "host.example"}}}, model.Unreached, "the name host.example is not found"},
		{&url.Error{Op: "Post", URL: "https://x/?k=secret-key", Err: errors.New("odd: secret-key \x1b[2J sk-abcdefgh")}, model.Broken, `the connection to host.example: odd: [key] \x1b[2J [key]`},
		{fmt.Errorf("a: %w", &model.Error{Class: model.TooLong, What: "own"}), model.TooLong, "own"},
	} {
		e, ok := c.Fault(context.Background(), test.err).(*model.Error)
		if !ok || e.Class != test.class || !strings.Contains(e.What, test.want) || strings.Contains(e.Error(), "secret-key") {
			t.Errorf("%v: got %v", test.err, e)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	if err := c.Fault(ctx, errors.New("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if c.First != 5*time.Minute || c.Idle != 2*time.Minute {
		t.Errorf("got %s, %s", c.First, c.Idle)
	}
}

// TestAmount: money that cannot be true counts as nothing, or is limited.
func TestAmount(t *testing.T) {
	for text, want := range map[string]Amount{
		"0.00095": 950, "1e-7": 1, "2": 2_000_000, "0": 0, "-1": 0, "null": 0, `"3"`: 0, "{}": 0, "[1]": 0, "1e300": 1 << 40,
	} {
		var got struct{ Cost Amount }
		if err := json.Unmarshal([]byte(`{"cost":`+text+`}`), &got); err != nil || got.Cost != want {
			t.Errorf("%s: got %d, %v, want %d", text, got.Cost, err, want)
		}
	}
}

// TestEncodedKey: an error of the server shows no part of the key, however the server writes
// it.
func TestEncodedKey(t *testing.T) {
	const key = "sk-proj-Zq81/kPw03LmXc7Rt5Yb"
	said := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "no: " + said}})
	}))
	t.Cleanup(s.Close)
	c := client(t, s.URL)
	c.Key = key
	for _, said = range []string{
		key, key[:20], key[16:], base64.StdEncoding.EncodeToString([]byte("X:" + key)), hex.EncodeToString([]byte(key)), strings.ReplaceAll(key, "/", `\/`),
	} {
		r, _ := http.NewRequest("POST", s.URL, nil)
		_, err := c.do(r)
		var e *model.Error
		if !errors.As(err, &e) || !strings.Contains(e.What, "answers 400: no: ") {
			t.Fatalf("%s: got %v", said, err)
		}
		if _, shown, _ := strings.Cut(e.What, "no: "); shown == said || strings.Contains(shown, key[16:24]) || strings.Contains(shown, said[len(said)/2:]) {
			t.Errorf("%s: got %s", said, shown)
		}
	}
}
