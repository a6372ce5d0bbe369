package egress_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail/egress"
)

// TestOwnTransport checks that golem's own requests go to one host, and that they are
// recorded before they leave.
func TestOwnTransport(t *testing.T) {
	var steps []string
	full := false
	record := func(r egress.Event) error {
		if full {
			return io.ErrShortWrite
		}
		steps = append(steps, fmt.Sprintf("%v %s %s %q sent %d received %d", r.Step, r.Program, r.Host, r.Decision, r.Sent, r.Received))
		return nil
	}
	arrived := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(steps) != 1 {
			t.Errorf("the request arrived after %q", steps)
		}
		arrived++
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "an answer")
	}))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	program := func(net.Conn) string { return "golem" }
	transport, err := egress.NewOwnTransport(egress.Options{Program: program, Record: record, Now: time.Now}, to, "the user", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { transport.Close() })
	client := &http.Client{Transport: transport}
	answer, err := client.Post(server.URL+"/v1", "text/plain", strings.NewReader("a question"))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	answer.Body.Close()
	want := []string{fmt.Sprintf(`%v golem 127.0.0.1 "the user" sent 0 received 0`, egress.Opened), fmt.Sprintf(`%v golem 127.0.0.1 "the user" sent 10 received 9`, egress.Closed)}
	if fmt.Sprint(steps) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", steps, want)
	}
	if _, err := client.Get("http://other.example/"); err == nil || !strings.Contains(err.Error(), "golem sends it only to "+to.Host) {
		t.Errorf("another host: got %v", err)
	}
	full = true
	if _, err := client.Get(server.URL); err == nil || arrived != 1 {
		t.Errorf("a request that cannot be recorded: got %v, and %d requests", err, arrived)
	}
}

// TestOwnTransportAddresses checks that the host of golem's own requests may have a private
// address, and none of a metadata service, also not as the host itself.
func TestOwnTransportAddresses(t *testing.T) {
	for _, test := range []struct{ host, address, want string }{
		{"printer.example", "192.168.7.7", ""},
		{"box.example", "127.0.0.1", ""},
		{"127.0.0.1", "", ""},
		{"metadata.example", "169.254.169.254", "metadata service"},
		{"169.254.169.254", "", "metadata service"},
		{"[::ffff:169.254.169.254]", "", "metadata service"},
		{"[fd00:ec2::254]", "", "metadata service"},
	} {
		to := &url.URL{Scheme: "http", Host: test.host + ":1"}
		var refused string
		o := egress.Options{Now: time.Now,
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(test.address)}, nil
			},
			Dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errors.New("dialled") },
			Record: func(r egress.Event) error {
				if r.Step == egress.Refused {
					refused = r.Why
				}
				return nil
			}}
		transport, err := egress.NewOwnTransport(o, to, "the user", true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { transport.Close() })
		_, err = (&http.Client{Transport: transport}).Get(to.String())
		want := cmp.Or(test.want, "dialled")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(refused, test.want) {
			t.Errorf("%s at %s: got %v, refused %q, want %q", test.host, test.address, err, refused, want)
		}
	}
}

// TestHostsFile checks that golem finds localhost, and the names of this machine's hosts
// file, also those without a dot, which DNS may not know.
func TestHostsFile(t *testing.T) {
	want := map[string]string{"localhost": "127.0.0.1"}
	data, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 && strings.Contains(fields[0], ".") {
			for _, name := range fields[1:] {
				if want[name] == "" {
					want[name] = fields[0]
				}
			}
		}
	}
	for name, address := range want {
		got, err := egress.Resolve(t.Context(), name)
		if err != nil || !slices.ContainsFunc(got, func(a netip.Addr) bool { return a.Unmap().String() == address }) {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, address)
		}
	}
}
