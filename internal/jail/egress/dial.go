package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// dialTime is how long golem tries to reach a host, with all its addresses.
const dialTime = 20 * time.Second

// dialHost connects to a host. The caller releases the connection. If the user has a
// proxy, the proxy resolves the name.
func (n *Network) dialHost(ctx context.Context, host string, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	proxy, err := n.proxyFor(&url.URL{Scheme: "https", Host: at})
	if err != nil {
		return nil, err
	}
	var c net.Conn
	if proxy != nil {
		c, err = n.dialTunnel(ctx, proxy, at)
	} else {
		c, err = n.dialDirect(ctx, host, port)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s: %w", at, err)
	}
	if !n.keep(c) {
		return nil, refusal("too many connections")
	}
	return c, nil
}

// dialDirect resolves a name, checks the addresses, and dials them in turn.
func (n *Network) dialDirect(ctx context.Context, host string, port uint16) (net.Conn, error) {
	all := make([]netip.Addr, 1)
	var err error
	if all[0], err = netip.ParseAddr(host); err != nil {
		if all, err = n.o.Resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	good, err := n.checkAddresses(host, port, all)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, hostKey{}, host)
	var failed []error
	for i, to := range good {
		// One address that does not answer must not use up the time of the others.
		ctx, cancel := context.WithTimeout(ctx, dialTime/time.Duration(min(4, len(good)-i)))
		c, err := n.o.Dial(ctx, to)
		cancel()
		if err == nil {
			return c, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// resolve returns the addresses of a name: those of the user's hosts file, or else those of
// DNS. The search list of DNS must not change the name, so golem asks DNS for the name with a
// final dot. The hosts file has names without one.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	offline := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("only the hosts file")
	}}
	if all, err := offline.LookupNetIP(ctx, "ip", name); err == nil && len(all) > 0 {
		return all, nil
	}
	if name == "localhost" { // DNS need not know it
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// proxyFor returns the user's proxy for a URL, nil for none.
func (n *Network) proxyFor(u *url.URL) (*url.URL, error) {
	if n.o.Proxy == nil {
		return nil, nil
	}
	return n.o.Proxy(u)
}

// dialTunnel connects to a host by the CONNECT method of a proxy.
func (n *Network) dialTunnel(ctx context.Context, proxy *url.URL, at string) (net.Conn, error) {
	c, err := n.dialProxy(ctx, proxy)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: at}, Host: at, Header: http.Header{}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		basic := &http.Request{Header: http.Header{}}
		basic.SetBasicAuth(u.Username(), password)
		request.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	}
	if err := request.Write(c); err != nil {
		c.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	r := bufio.NewReader(io.LimitReader(c, maxHeader))
	response, err := http.ReadResponse(r, request)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	if response.StatusCode != http.StatusOK {
		c.Close()
		return nil, fmt.Errorf("proxy %s: %s", proxy.Host, response.Status)
	}
	if r.Buffered() > 0 {
		early, _ := r.Peek(r.Buffered())
		return &tape{Conn: c, bytes: early}, nil
	}
	return c, nil
}

// dialProxy connects to the user's own proxy, which may have any address.
func (n *Network) dialProxy(ctx context.Context, proxy *url.URL) (net.Conn, error) {
	port := proxy.Port()
	switch {
	case proxy.Scheme != "http" && proxy.Scheme != "https":
		return nil, fmt.Errorf("proxy %s: golem uses proxies with http:// and https:// only", proxy.Redacted())
	case port == "" && proxy.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	at := net.JoinHostPort(proxy.Hostname(), port)
	if proxy.Scheme == "https" {
		return (&tls.Dialer{Config: &tls.Config{RootCAs: n.o.Roots, ServerName: proxy.Hostname()}}).DialContext(ctx, "tcp", at)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", at)
}
