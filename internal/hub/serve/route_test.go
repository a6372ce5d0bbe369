package serve

import (
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

// TestRoute checks that hubs with the same secret connect, and that others do not.
func TestRoute(t *testing.T) {
	config := func(master []byte) *tls.Config {
		c, err := secret{Master: master}.routeTLS()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, other := make([]byte, 32), make([]byte, 32)
	rand.Read(one)
	rand.Read(other)
	for name, row := range map[string]struct {
		client *tls.Config
		ok     bool
	}{
		"the same secret":        {config(one), true},
		"another secret":         {config(other), false},
		"no key":                 {&tls.Config{InsecureSkipVerify: true}, false},
		"a client that verifies": {&tls.Config{ServerName: "hub"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			a, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			b, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			a.SetDeadline(time.Now().Add(10 * time.Second))
			b.SetDeadline(time.Now().Add(10 * time.Second))
			failed := make(chan error, 1)
			go func() {
				client := tls.Client(a, row.client)
				_, err := client.Write([]byte("x"))
				if err == nil {
					_, err = io.ReadFull(client, make([]byte, 1))
				}
				a.Close()
				failed <- err
			}()
			hub := tls.Server(b, config(one))
			_, err = io.ReadFull(hub, make([]byte, 1))
			if err == nil {
				_, err = hub.Write([]byte("y"))
			}
			b.Close()
			if said := <-failed; (err == nil && said == nil) != row.ok {
				t.Errorf("the hub got %v and the client %v, want success: %t", err, said, row.ok)
			}
			if !row.ok && err == nil {
				t.Error("the hub read from a stranger")
			}
		})
	}
}
