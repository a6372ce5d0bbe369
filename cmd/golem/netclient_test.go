package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long netclient waits for an answer.
const patience = 30 * time.Second

// netClient is a program for the jail. It uses no variable and no file of the system, not
// even for names: it asks a name server of its own choice.
//
//	netclient get URL…          prints the answers
//	netclient many HOST COUNT   opens connections, and uses all of them at once
//	netclient names COUNT HOST  looks up names below a host, and counts their addresses
//	netclient half HOST         ends its half of a connection before it reads the answer
//	netclient relay HOST URL    gets a URL through a proxy of its own, which connects to HOST
//	netclient first URL         prints the time to the first byte over a new connection
//	netclient rate URL          prints the time for a gigabyte
//	netclient linger HOST EAR   when its connection ends, tries to reach a host and EAR forever
func netClient() {
	args := os.Args[2:]
	do := map[string]func([]string) error{"get": getAll, "many": openMany, "names": lookUpMany, "half": endHalf, "relay": relayInside, "first": timeFirst, "rate": timeRate, "linger": linger}[os.Args[1]]
	if err := do(args); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

var ownResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, "9.9.9.9:53")
}}

func dialOwn(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Resolver: ownResolver, Timeout: patience}).DialContext(ctx, network, address)
}

// ownClient uses no proxy, except to measure a sandbox that has no other network.
var ownClient = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dialOwn, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	Proxy: func(r *http.Request) (*url.URL, error) {
		if os.Getenv("NETCLIENT_PROXY") == "" {
			return nil, nil
		}
		return http.ProxyFromEnvironment(r)
	}}}

// timeFirst prints the median time of a request over a new connection.
func timeFirst(args []string) error {
	var all []time.Duration
	for range 101 {
		start := time.Now()
		r, err := ownClient.Get(args[0])
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
			return err
		}
		all = append(all, time.Since(start))
		r.Body.Close()
		ownClient.CloseIdleConnections()
	}
	slices.Sort(all)
	fmt.Println(all[len(all)/2])
	return nil
}

// timeRate prints how long a gigabyte takes.
func timeRate(args []string) error {
	start := time.Now()
	r, err := ownClient.Get(args[0] + "?size=1000000000")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10)); err != nil || n != 1_000_000_000 {
		return fmt.Errorf("%d bytes, %w", n, err)
	}
	fmt.Println(time.Since(start))
	return nil
}

func getAll(urls []string) error {
	for _, url := range urls {
		r, err := ownClient.Get(url)
		if err != nil {
			return err
		}
		io.Copy(os.Stdout, r.Body)
		r.Body.Close()
	}
	return nil
}

func openMany(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	at := args[0]
	if _, _, err := net.SplitHostPort(at); err != nil {
		at += ":80"
	}
	var open, done sync.WaitGroup
	open.Add(count)
	var answered atomic.Int64
	var failed sync.Map
	for range count {
		done.Go(func() {
			c, err := dialOwn(context.Background(), "tcp", at)
			open.Done()
			if err == nil {
				open.Wait() // all are open at the same time
				c.SetDeadline(time.Now().Add(patience))
				err = exchangeOn(c, args[0])
			}
			if err == nil {
				answered.Add(1)
			} else {
				failed.Store(err.Error(), true)
			}
		})
	}
	done.Wait()
	fmt.Printf("%d of %d connections\n", answered.Load(), count)
	failed.Range(func(why, _ any) bool { fmt.Println(why); return true })
	return nil
}

// exchangeOn sends a request and reads the answer.
func exchangeOn(c net.Conn, host string) error {
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if err == nil && !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
		err = fmt.Errorf("%.60q", b)
	}
	return err
}

func lookUpMany(args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var found sync.Map
	var workers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			for i := worker; i < count; i += 16 {
				all, _ := ownResolver.LookupNetIP(context.Background(), "ip4", fmt.Sprintf("n%d.%s.", i, args[1]))
				for _, a := range all {
					found.Store(a, true)
				}
			}
		})
	}
	workers.Wait()
	addresses := 0
	found.Range(func(any, any) bool { addresses++; return true })
	fmt.Printf("%d addresses\n", addresses)
	return nil
}

func endHalf(args []string) error {
	c, err := dialOwn(context.Background(), "tcp", args[0]+":80")
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(patience))
	io.WriteString(c, "GET /half HTTP/1.1\r\nHost: "+args[0]+"\r\nConnection: close\r\n\r\n")
	c.(*net.TCPConn).CloseWrite()
	_, err = io.Copy(os.Stdout, c)
	return err
}

func relayInside(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out, err := dialOwn(context.Background(), "tcp", args[0])
			if err != nil {
				c.Close()
				continue
			}
			go io.Copy(out, c)
			go func() { io.Copy(c, out); c.Close() }()
		}
	}()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("tcp", l.Addr().String())
	}}}
	r, err := client.Get(args[1])
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(os.Stdout, r.Body)
	return err
}

func linger(args []string) error {
	c, err := dialOwn(context.Background(), "tcp", args[0]+":80")
	if err != nil {
		return err
	}
	io.WriteString(c, "GET /hold HTTP/1.1\r\nHost: "+args[0]+"\r\n\r\n")
	for first := true; ; first = false {
		for _, network := range []string{"tcp", "udp"} {
			if out, err := net.DialTimeout(network, args[1], time.Second); err == nil {
				io.WriteString(out, "out")
				out.Close()
			}
		}
		ownClient.Get("http://evil.example/")
		if first {
			fmt.Println("connected")
			c.Read(make([]byte, 1)) // until golem is gone
		}
	}
}
