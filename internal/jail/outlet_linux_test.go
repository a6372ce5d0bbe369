package jail_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
)

// A farServer is the other end of a network that leads to golem. It answers every name with its
// own stand-in address, and every connection with the address that the command connected to.
type farServer struct {
	t       testing.TB
	handler http.Handler
	program func(net.Conn) string

	mu             sync.Mutex
	names          []string // all that were asked for, in order
	opened, closed int      // how many networks were opened and closed
	sockets        []io.Closer
}

// destinationKey is the key of the context value with the destination of a connection.
type destinationKey struct{}

// programKey is the key of the context value with the program of a connection.
type programKey struct{}

// open implements Egress.Open.
func (f *farServer) open(program func(net.Conn) string) (jail.Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	f.program = program
	f.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/who" {
			fmt.Fprintln(w, r.Context().Value(programKey{}))
			return
		}
		fmt.Fprintf(w, "%s arrived from %s for %s\n", r.Host, strings.Split(r.RemoteAddr, ":")[0], r.Context().Value(destinationKey{}))
	})
	return f, nil
}

// keep remembers a socket that is served.
func (f *farServer) keep(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sockets = append(f.sockets, c)
}

// cut closes the sockets, as if golem had ended.
func (f *farServer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.sockets {
		c.Close()
	}
}

// Serve implements jail.Server.
func (f *farServer) Serve(l net.Listener, destination func(net.Conn) (netip.AddrPort, error)) error {
	f.keep(l)
	server := &http.Server{Handler: f.handler, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		to, err := destination(c)
		if err != nil {
			f.t.Errorf("destination: %v", err)
		}
		return context.WithValue(context.WithValue(ctx, programKey{}, f.program(c)), destinationKey{}, to)
	}}
	defer server.Close()
	return server.Serve(l)
}

// ServeDNS implements jail.Server.
func (f *farServer) ServeDNS(c net.PacketConn) error {
	f.keep(c)
	question := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(question)
		if err != nil {
			return err
		}
		if n > 12 {
			c.WriteTo(f.answer(question[:n]), from)
		}
	}
}

// ServeDNSStreams implements jail.Server.
func (f *farServer) ServeDNSStreams(l net.Listener) error {
	f.keep(l)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		var size uint16
		binary.Read(c, binary.BigEndian, &size)
		question := make([]byte, size)
		io.ReadFull(c, question)
		a := f.answer(question)
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
		c.Close()
	}
}

// Close implements jail.Server.
func (f *farServer) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

// answer answers a question for an A record with an address, and any other with none.
func (f *farServer) answer(question []byte) []byte {
	end := 12 + bytes.IndexByte(question[12:], 0) + 1
	var labels []string
	for at := 12; question[at] != 0; at += 1 + int(question[at]) {
		labels = append(labels, string(question[at+1:at+1+int(question[at])]))
	}
	name := strings.Join(labels, ".")
	reply := slices.Concat(question[:2], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:end+4])
	if binary.BigEndian.Uint16(question[end:]) == 1 {
		reply[7] = 1
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4)
		reply = append(reply, f.standIn(name).AsSlice()...)
	}
	return reply
}

// standIn returns the address of a name.
func (f *farServer) standIn(name string) netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.names, name)
	if i < 0 {
		i = len(f.names)
		f.names = append(f.names, name)
	}
	return netip.AddrFrom4([4]byte{198, 18, 1, byte(i)})
}

// programs checks that programs reach the far end by name, whatever resolver they have.
func (f *farServer) programs(y *attackEnv) {
	f.t.Helper()
	want := func(out, host string) {
		f.t.Helper()
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = host, "80"
		}
		if line := fmt.Sprintf("%s arrived from 198.18.0.1 for %s:%s\n", host, f.standIn(name), port); !strings.Contains(hideSource(out), line) {
			f.t.Errorf("got\n%s\nwant\n%s", out, line)
		}
	}
	want(y.sh(`curl -sS http://curl.example/`), "curl.example")
	want(y.sh(`curl -sS http://curl.example:9999/`), "curl.example:9999")
	want(y.sh(`wget -qO- http://wget.example/`), "wget.example")
	want(y.sh(`python3 -c 'import urllib.request as r; print(r.urlopen("http://python.example/").read().decode())'`), "python.example")
	want(y.sh(`exec 3<>/dev/tcp/bash.example/80; printf 'GET / HTTP/1.0\r\nHost: bash.example\r\n\r\n' >&3; cat <&3`), "bash.example")
	_, out := y.probe("get", "http://go.example/")
	want(out, "go.example")
	for _, network := range []string{"udp", "tcp"} { // a name server that the program chose itself
		_, out = y.probe("get", "http://"+network+".example/", network, "8.8.8.8:53")
		want(out, network+".example")
	}
}

// addresses returns the addresses of the sockets that are served by TCP.
func (f *farServer) addresses() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.sockets {
		if l, ok := c.(net.Listener); ok {
			list = append(list, l.Addr().String())
		}
	}
	return list
}

// leadOut gives an attackEnv a network that leads to a farServer.
func leadOut(t *testing.T, y *attackEnv, portsOnly bool) *farServer {
	f := &farServer{t: t}
	y.policy.Egress = &jail.Egress{Ports: []uint16{80, 443, 8443}, PortsOnly: portsOnly, Open: f.open}
	return f
}

// tryGet gets a URL with Go's own resolver.
func tryGet(args []string) {
	resolver := &net.Resolver{PreferGo: true}
	if len(args) > 1 { // a name server of its own choice
		resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, args[1], args[2])
		}
	}
	client := &http.Client{Timeout: hang, Transport: &http.Transport{DialContext: (&net.Dialer{Resolver: resolver}).DialContext}}
	r, err := client.Get(args[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Body.Close()
	io.Copy(os.Stdout, r.Body)
}

// tryUDP sends to an address and waits for an answer.
func tryUDP(args []string) {
	for _, to := range args {
		c, err := net.Dial("udp", to)
		if err == nil {
			c.SetDeadline(time.Now().Add(hang))
			c.Write([]byte("out"))
			_, err = c.Read(make([]byte, 10))
		}
		printResult("udp", err)
	}
}

// tryAskMuch asks a name server 2,000 questions before it reads an answer, as a program
// with many threads does, and prints how many answers came.
func tryAskMuch([]string) {
	var sockets []net.Conn
	for range 500 {
		c, err := net.Dial("udp", "192.0.2.53:53")
		if err != nil {
			printResult("dial", err)
			return
		}
		sockets = append(sockets, c)
	}
	for id := range 4 {
		for _, c := range sockets {
			c.Write([]byte("\x00" + string(rune(id)) + "\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04much\x07example\x00\x00\x01\x00\x01"))
		}
	}
	answers := 0
	for _, c := range sockets {
		c.SetReadDeadline(time.Now().Add(hang))
		for range 4 {
			if _, err := c.Read(make([]byte, 512)); err != nil {
				break
			}
			answers++
		}
	}
	fmt.Println(answers, "answers")
}

// tryBind listens on the addresses of the outlet.
func tryBind(args []string) {
	for _, at := range args {
		network, address, _ := strings.Cut(at, "/")
		var err error
		if network == "udp" {
			_, err = net.ListenPacket(network, address)
		} else {
			_, err = net.Listen(network, address)
		}
		printResult(at, err)
	}
}

// outletAttacks try to leave a network that leads to golem. They also show that ordinary
// programs can use it.
func outletAttacks() []attack {
	if levelHere() == jail.Landlock {
		return supervisedAttacks()
	}
	return []attack{
		{"S07 programs in a network that leads to golem", func(t *testing.T, y *attackEnv) {
			f := leadOut(t, y, false)
			f.programs(y)
			y.is(y.sh(`curl -sS http://203.0.113.7:8443/ http://1.1.1.1/`), "203.0.113.7:8443 arrived from 198.18.0.1 for 203.0.113.7:8443\n1.1.1.1 arrived from 198.18.0.1 for 1.1.1.1:80\n")
			if f.opened != 1 {
				t.Errorf("%d networks, want 1", f.opened)
			}
			y.is(y.sh(`cat /etc/resolv.conf; tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route`), "nameserver 198.18.0.1\n    lo\n")
		}},
		{"S07 ways out of a network that leads to golem", func(t *testing.T, y *attackEnv) {
			e := newListeners(t)
			f := leadOut(t, y, false)
			out := ""
			for _, a := range e.addresses {
				_, o := y.probe("dial", a[0], a[1])
				out += o
			}
			e.checkHeard(t, "")
			_, out = y.probe("udp", "203.0.113.7:443", "198.18.1.0:443", "198.18.0.1:1", "[2001:db8::1]:53", "[2001:db8::1]:443")
			y.is(out, "udp ECONNREFUSED\nudp ECONNREFUSED\nudp ECONNREFUSED\nudp ENETUNREACH\nudp ENETUNREACH\n")
			_, out = y.probe("dial", "tcp", "[2001:db8::1]:80")
			y.answers(out, 1, "ENETUNREACH")
			// Commands can use all ports of their loopback network, and none of the outlet.
			_, out = y.probe("bind", "tcp/127.0.0.1:8080", "tcp/0.0.0.0:8443", "tcp/198.18.0.1:1", "tcp/198.18.0.1:53", "udp/198.18.0.1:53", "tcp/0.0.0.0:53", "udp/0.0.0.0:53")
			y.is(out, "tcp/127.0.0.1:8080 done\ntcp/0.0.0.0:8443 done\ntcp/198.18.0.1:1 EACCES\ntcp/198.18.0.1:53 EACCES\nudp/198.18.0.1:53 EACCES\ntcp/0.0.0.0:53 EACCES\nudp/0.0.0.0:53 EACCES\n")
			// A server inside is reached at 127.0.0.1 only: at every other address golem answers.
			y.is(y.sh(`python3 -m http.server -b 0.0.0.0 8080 >/dev/null 2>&1 & for i in $(seq 500); do curl -s -o /dev/null http://127.0.0.1:8080/ && break; sleep 0.02; done
				curl -s -o /dev/null -w '%%{http_code}\n' http://localhost:8080/; curl -sS http://198.18.0.1:8080/`), "200\n198.18.0.1:8080 arrived from 198.18.0.1 for 198.18.0.1:8080\n")
			// A port of the host leads to golem, at 127.0.0.1 only.
			y.session.Close()
			y.session, y.policy.Egress.Host = nil, []uint16{7070}
			y.is(y.sh(`curl -sS http://127.0.0.1:7070/ http://localhost:7070/; curl -s http://127.0.0.2:7070/; echo $?; curl -s http://127.0.0.1:7071/; echo $?`),
				"127.0.0.1:7070 arrived from 127.0.0.1 for 127.0.0.1:7070\nlocalhost:7070 arrived from 127.0.0.1 for 127.0.0.1:7070\n7\n7\n")
			// The outlet itself is no destination that stands for a name.
			y.is(y.sh(`curl -sS http://198.18.0.1:1/`), "198.18.0.1:1 arrived from 198.18.0.1 for 198.18.0.1:1\n")
			// When golem no longer serves, nothing answers.
			f.cut()
			y.is(y.sh(`curl -s http://203.0.113.7/; echo $?; curl -s http://curl.example/; echo $?`), "7\n6\n")
			y.session.Close()
			y.session = nil
			if f.closed != 2 {
				t.Errorf("the end of two sessions closed the servers %d times, want once each", f.closed)
			}
		}},
		{"S07 a network with names only", func(t *testing.T, y *attackEnv) {
			f := leadOut(t, y, false)
			y.policy.Egress.NamesOnly = true
			y.is(y.sh(`curl -s http://curl.example/; echo $?; curl -s http://203.0.113.7/; echo $?; curl -s http://198.18.1.0:443/; echo $?`), "7\n7\n7\n")
			if names := f.names; !slices.Contains(names, "curl.example") {
				t.Errorf("golem knows the names %q", names)
			}
			if list := f.addresses(); !slices.Equal(list, []string{"198.18.0.1:53"}) {
				t.Errorf("golem listens on %q", list)
			}
			_, out := y.probe("udp", "203.0.113.7:443", "203.0.113.7:53", "[2001:db8::1]:53")
			y.is(out, "udp ENETUNREACH\nudp ENETUNREACH\nudp ENETUNREACH\n")
			_, out = y.probe("dial", "tcp", "203.0.113.7:80")
			y.answers(out, 1, "ENETUNREACH")
			_, out = y.probe("bind", "tcp/127.0.0.1:8080", "tcp/198.18.0.1:53", "udp/198.18.0.1:53")
			y.is(out, "tcp/127.0.0.1:8080 done\ntcp/198.18.0.1:53 EACCES\nudp/198.18.0.1:53 EACCES\n")
			f.cut()
			y.is(y.sh(`curl -s http://curl.example/; echo $?`), "6\n")
		}},
		{"S07 many questions at once in a network that leads to golem", func(t *testing.T, y *attackEnv) {
			leadOut(t, y, false)
			_, out := y.probe("ask much")
			y.is(out, "2000 answers\n")
		}},
		{"the program that made a connection", func(t *testing.T, y *attackEnv) {
			for _, portsOnly := range []bool{false, true} {
				leadOut(t, y, portsOnly)
				for _, c := range []struct{ line, want string }{
					{`curl -sS http://curl.example/who`, `^curl \(pid [0-9]+\)$`},
					{`sh -c 'sh -c "curl -sS http://curl.example/who; true"; true'`, `^curl \(pid [0-9]+\)$`},
					{`exec 3<>/dev/tcp/bash.example/80; printf 'GET /who HTTP/1.0\r\n\r\n' >&3; tail -n 1 <&3`, `^bash \(pid [0-9]+\)$`},
					{`cp "$(command -v curl)" 'cu (pid 1) rl' && exec -a golem ./'cu (pid 1) rl' -sS http://curl.example/who`, `^"cu \(pid 1\) rl" \(pid [0-9]+\)$`},
					{`python3 -c 'import socket, ctypes
ctypes.CDLL(None).prctl(4, 0)
s = socket.socket(socket.AF_INET6)
s.connect(("::ffff:203.0.113.7", 80))
s.send(b"GET /who HTTP/1.0\r\n\r\n")
print(s.makefile().read().splitlines()[-1])'`, `^python3[.0-9]* \(pid [0-9]+\)$`},
				} {
					if out := strings.TrimSpace(y.sh("%s", c.line)); !regexp.MustCompile(c.want).MatchString(out) && !y.gvisor {
						t.Errorf("%s: got %q, want %s", c.line, out, c.want)
					}
				}
				y.session.Close()
				y.session = nil
			}
		}},
		{"S07 a network that leads to golem without nftables", func(t *testing.T, y *attackEnv) {
			leadOut(t, y, true)
			y.is(y.sh(`curl -sS http://curl.example/ http://curl.example:8443/ http://203.0.113.7/`),
				"curl.example arrived from 198.18.0.1 for 198.18.1.0:80\ncurl.example:8443 arrived from 198.18.0.1 for 198.18.1.0:8443\n203.0.113.7 arrived from 198.18.0.1 for 203.0.113.7:80\n")
			y.is(y.sh(`curl -s http://curl.example:9999/; echo $?`), "7\n")
			_, out := y.probe("bind", "tcp/198.18.1.0:8443", "tcp/0.0.0.0:8443", "tcp/127.0.0.1:8080")
			y.is(out, "tcp/198.18.1.0:8443 EADDRINUSE\ntcp/0.0.0.0:8443 EADDRINUSE\ntcp/127.0.0.1:8080 done\n")
		}},
	}
}
