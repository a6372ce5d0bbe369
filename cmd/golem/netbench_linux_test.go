package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
)

// BenchmarkNetwork prints what a list of hosts costs a program in the jail, compared with
// the whole network and with sandbox-runtime's proxy. `make bench` runs it. The server is
// at an address of this machine that is not loopback, and lists name the address.
func BenchmarkNetwork(b *testing.B) {
	golem := os.Getenv("GOLEM_BENCH_BINARY")
	if golem == "" {
		b.Skip("only make bench sets the path of golem")
	}
	w := newBenchNet(b, golem)
	t := benchtable.Peers(os.Stdout)
	for _, each := range []struct {
		what, url string
		ways      []way
		most      float64 // seconds more than --net on
	}{
		{"first byte, HTTP", w.plain, []way{w.list, w.srt}, 1e-3},
		{"first byte, TLS passed on", w.secure, []way{w.list, w.srt}, 1e-3},
		{"first byte, TLS ended", w.secure, []way{w.ended}, 4e-3},
	} {
		on, times := w.fastest(each.ways, "first", each.url)
		for i, by := range each.ways {
			if by.run == nil {
				continue
			}
			if i == 0 {
				more := times[0] - on
				t.Row(each.what, "+"+benchtable.Duration(max(more, 0)), benchtable.Duration(on)+" --net on", fmt.Sprintf("%.2f×", times[0]/on), "+"+benchtable.Duration(each.most), t.Judge(more <= each.most))
				continue
			}
			t.Row(each.what, benchtable.Duration(times[0]), benchtable.Duration(times[i])+" "+by.name, fmt.Sprintf("%.2f×", times[0]/times[i]), "", "")
		}
	}
	for _, each := range []struct {
		what  string
		ways  []way
		least float64 // share of the rate with --net on
	}{
		{"1 GB, TLS passed on", []way{w.list, w.srt}, 0.75},
		{"1 GB, TLS ended", []way{w.ended}, 0.35},
	} {
		on, times := w.fastest(each.ways, "rate", w.secure)
		for i, by := range each.ways {
			if by.run == nil {
				continue
			}
			ours := fmt.Sprintf("%.2f GB/s", 1/times[0])
			if i == 0 {
				share := on / times[0]
				t.Row(each.what, ours, fmt.Sprintf("%.2f GB/s --net on", 1/on), fmt.Sprintf("%.2f×", share), fmt.Sprintf("%.2f×", each.least), t.Judge(share >= each.least))
				continue
			}
			t.Row(each.what, ours, fmt.Sprintf("%.2f GB/s %s", 1/times[i], by.name), fmt.Sprintf("%.2f×", times[i]/times[0]), "", "")
		}
	}
	for i, by := range []way{w.list, w.on} {
		out := w.output(by, "many", strings.TrimSuffix(strings.TrimPrefix(w.plain, "http://"), "/"), "1000")
		count, _, _ := strings.Cut(out, " ")
		if i == 0 {
			t.Row("1,000 connections at once", count, "", "", "1000", t.Judge(count == "1000"))
			continue
		}
		t.Row("1,000 connections at once, "+by.name, count, "", "", "", "")
	}
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

// A way is how a program in a jail reaches the server.
type way struct {
	name  string
	run   func(args ...string) *exec.Cmd // runs netclient; nil if the jail is missing here
	tries int                            // how often a run may fail before the benchmark does; 0 is once
}

// A benchNet is a server and the ways to reach it.
type benchNet struct {
	b             *testing.B
	plain, secure string // URLs
	on, list      way
	ended, srt    way
}

func newBenchNet(b *testing.B, golem string) *benchNet {
	w := &benchNet{b: b}
	address := ownAddress(b)
	certificate := selfSigned(b, address)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
		w.Header().Set("Content-Length", strconv.FormatInt(max(size, 1), 10))
		block := make([]byte, 256<<10)
		for size = max(size, 1); size > 0; size -= int64(len(block)) {
			if _, err := w.Write(block[:min(size, int64(len(block)))]); err != nil {
				return
			}
		}
	})
	start := func(secure bool) (url string) {
		l, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
		if err != nil {
			b.Fatal(err)
		}
		s := httptest.NewUnstartedServer(handler)
		s.Listener.Close()
		s.Listener = l
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure {
			s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
			s.StartTLS()
		} else {
			s.Start()
		}
		b.Cleanup(s.Close)
		return s.URL + "/"
	}
	w.plain, w.secure = start(false), start(true)
	authority := filepath.Join(b.TempDir(), "authority.pem")
	w.write(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
	hosts := strings.TrimSuffix(strings.TrimPrefix(w.plain, "http://"), "/") + "," + strings.TrimSuffix(strings.TrimPrefix(w.secure, "https://"), "/")
	by := func(dir string, flags ...string) func(...string) *exec.Cmd {
		state := b.TempDir()
		return func(args ...string) *exec.Cmd {
			cmd := exec.Command(golem, append(append(append([]string{"exec"}, flags...), "--", "netclient"), args...)...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state, "SSL_CERT_FILE="+authority)
			return cmd
		}
	}
	w.on = way{name: "--net on", run: by(b.TempDir(), "--net", "on")}
	w.list = way{name: "golem", run: by(b.TempDir(), "--net", hosts)}
	limited := b.TempDir()
	w.write(filepath.Join(limited, "golem-forge.config.yaml"), []byte("sandbox: {root: ., mode: overlay}\nnetwork:\n  allow:\n    - {host: \""+
		strings.TrimSuffix(strings.TrimPrefix(w.secure, "https://"), "/")+"\", methods: [GET]}\n"))
	w.ended = way{name: "golem", run: by(limited)}
	trust := w.ended.run()
	trust.Args = []string{golem, "trust", "--yes"}
	if out, err := trust.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	w.srt = w.runtime(b, address)
	return w
}

// srtTries is how often a run with sandbox-runtime may fail: its proxy sometimes refuses a
// connection.
const srtTries = 5

// runtime returns the way through sandbox-runtime. Its proxy is in variables, which
// netclient uses there.
func (w *benchNet) runtime(b *testing.B, address net.IP) way {
	program := filepath.Join(os.Getenv("JAIL_BENCH_PEERS"), ".bin/srt")
	settings := filepath.Join(b.TempDir(), "settings.json")
	data, err := json.Marshal(map[string]any{"network": map[string]any{"allowedDomains": []string{address.String()}, "deniedDomains": []string{}},
		"filesystem": map[string]any{"denyRead": []string{}, "allowWrite": []string{}, "denyWrite": []string{}}})
	if err != nil {
		b.Fatal(err)
	}
	w.write(settings, data)
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{"--settings", settings, "netclient"}, args...)...)
		cmd.Env = append(os.Environ(), "NETCLIENT_PROXY=1")
		return cmd
	}
	for try := 1; ; try++ {
		out, err := run("first", w.plain).CombinedOutput()
		if err == nil {
			break
		}
		if try == srtTries || errors.Is(err, fs.ErrNotExist) {
			fmt.Printf("without sandbox-runtime, which is not there or does not work here: %v %.200s\n", err, out)
			return way{}
		}
	}
	return way{"srt", run, srtTries}
}

func (w *benchNet) write(name string, data []byte) {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		w.b.Fatal(err)
	}
}

// output runs netclient by a way, and returns its output. It reports runs that failed and
// tries again as often as the way allows.
func (w *benchNet) output(by way, args ...string) string {
	for try := 1; ; try++ {
		cmd := by.run(args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		switch {
		case err == nil:
			return string(out)
		case try >= by.tries:
			w.b.Fatalf("%s %v: %v\n%s%s", by.name, args, err, out, errs.Bytes())
		}
		fmt.Printf("%s failed, and runs again: %v %.200s\n", by.name, err, bytes.TrimSpace(slices.Concat(out, errs.Bytes())))
	}
}

// fastest returns the least times that netclient measured, with --net on and by each way.
// They take turns, so that anything that slows the machine slows all of them.
func (w *benchNet) fastest(ways []way, args ...string) (on float64, times []float64) {
	const rounds = 5
	all := append([]way{w.on}, ways...)
	least := make([]float64, len(all))
	for range rounds {
		for i, by := range all {
			if by.run == nil {
				continue
			}
			took, err := time.ParseDuration(strings.TrimSpace(w.output(by, args...)))
			if err != nil {
				w.b.Fatal(err)
			}
			if s := took.Seconds(); least[i] == 0 || s < least[i] {
				least[i] = s
			}
		}
	}
	return least[0], least[1:]
}

// ownAddress returns an address of this machine that is not loopback.
func ownAddress(b *testing.B) net.IP {
	all, err := net.InterfaceAddrs()
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP
		}
	}
	b.Skip("this machine has only a loopback address")
	return nil
}

// selfSigned returns a certificate for an address.
func selfSigned(b *testing.B, address net.IP) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{address},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		b.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
