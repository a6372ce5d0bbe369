package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// TestLongHeads checks that the heads of answers cost golem little memory, however long they
// are: one long header, many short ones, headers before and after the answer. The host
// never ends some of them.
func TestLongHeads(t *testing.T) {
	many := func(count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "%x:\r\n", i)
		}
		return b.String()
	}
	const start, rest = "HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n\r\nok"
	heads := []struct {
		name, text string
		code       int // 0 for an answer that does not end
	}{
		{"a usual one", start + rest, 200},
		{"a long header", start + "X: " + strings.Repeat("x", 9<<20) + "\r\n" + rest, 502},
		{"many headers", start + many(1_000_000) + rest, 502},
		{"too many short headers", start + many(2000) + rest, 403},
		{"a long hint", "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 1<<20) + "\r\n\r\n" + start + rest, 502},
		{"a head without an end", start + many(9000), 0},
		{"a usual one after the others", start + rest, 200},
	}
	w := newWorld(t, policy.HostRule{Host: "example.com"})
	l := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				requests := bufio.NewReader(c)
				for { // golem sends several requests by one connection
					r, err := http.ReadRequest(requests)
					if err != nil {
						return
					}
					i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
					if err != nil {
						t.Errorf("the server got a request for %s", r.URL)
						return
					}
					io.WriteString(c, heads[i].text)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); w.network.Close(); serving.Wait() })
	w.host("example.com", 80, l.Addr())
	w.open()
	for i, head := range heads {
		if head.code != 0 {
			if code, body, err := get(w.client(nil), fmt.Sprintf("http://example.com/%d", i)); err != nil || code != head.code {
				t.Errorf("%s: got %d, %q, %v, want %d", head.name, code, body, err, head.code)
			}
			continue
		}
		const count = 300
		before := heap()
		var all []net.Conn
		for range count {
			c := w.mustDial("example.com", 80)
			fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: example.com\r\n\r\n", i)
			all = append(all, c)
		}
		w.await("too many unfinished heads", func(r egress.Event) bool { return strings.Contains(r.Why, "too many unfinished messages") })
		time.Sleep(500 * time.Millisecond)
		if grown, unfinished := heap()-before, w.network.Unfinished(); grown > 200<<20 || unfinished > 32<<20 {
			t.Errorf("%d of %s took %d MB, %d MB of them counted", count, head.name, grown>>20, unfinished>>20)
		}
		for _, c := range all {
			c.Close()
		}
	}
	w.network.Close()
	for range 300 { // the last requests end
		if w.network.Unfinished() == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if left := w.network.Unfinished(); left != 0 {
		t.Errorf("golem still counts %d bytes", left)
	}
	if r := w.awaitStep(egress.Noticed, "example.com"); !strings.Contains(r.Why, "headers of the answer") && !strings.Contains(r.Why, "unfinished") {
		t.Errorf("got %+v", r)
	}
}

// TestLongHeads2 checks the same for HTTP/2, and for headers after the answer.
func TestLongHeads2(t *testing.T) {
	w := newWorld(t, policy.HostRule{Host: "example.com", Methods: []string{"GET"}})
	w.openWithTLS(w.site("example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			out.Header().Set("X", strings.Repeat("x", 1<<20))
		case "/many":
			for i := range 100_000 {
				out.Header().Set(fmt.Sprintf("x%d", i), "")
			}
		case "/trailer":
			io.WriteString(out, "ok")
			out.Header().Set(http.TrailerPrefix+"X", strings.Repeat("x", 1<<20))
		}
	})))
	for _, path := range []string{"/long", "/many"} {
		if code, body, err := get(w.client(w.trustAuthority()), "https://example.com"+path); err != nil || code != http.StatusBadGateway {
			t.Errorf("%s: got %d, %.100q, %v", path, code, body, err)
		}
	}
	if _, body, err := get(w.client(w.trustAuthority()), "https://example.com/trailer"); err == nil {
		t.Errorf("a long trailer: got %.100q", body)
	}
}
