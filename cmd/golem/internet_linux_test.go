package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// internet starts a proxy that answers for every host, and makes it the user's proxy:
// golem reaches all hosts through it. It answers requests with their method, URL and
// body size. Its certificate is for example.com, and golem trusts it.
func internet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: internet")
	}
	answer := func(w http.ResponseWriter, scheme, host string, r *http.Request) {
		size, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "the internet got %s %s://%s%s and %d bytes\n", r.Method, scheme, host, r.URL.RequestURI(), size)
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, "https", r.Host, r) }))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // a connection may end before its first byte
	secure.StartTLS()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			host := r.URL.Host
			r.URL.Scheme, r.URL.Host = "", ""
			answer(w, "http", host, r)
			return
		}
		server, err := net.Dial("tcp", secure.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, read, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		var back sync.WaitGroup
		back.Go(func() { io.Copy(client, server); client.Close() })
		io.Copy(server, read)
		server.Close()
		back.Wait()
	}))
	ts.Defer(func() { proxy.CloseClientConnections(); proxy.Close(); secure.Close() })
	authority := ts.MkAbs("authority.pem")
	ts.Check(os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644))
	ts.Setenv("SSL_CERT_FILE", authority)
	ts.Setenv("HTTP_PROXY", proxy.URL)
	ts.Setenv("HTTPS_PROXY", proxy.URL)
}
