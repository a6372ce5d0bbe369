package jail

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// An Egress gives commands a network of their own that leads only to golem: they have
// the loopback interface, and every other TCP connection and every question to a name
// server arrives at a Server. No packet leaves the network.
type Egress struct {
	// Ports are the ports that golem accepts connections on if the kernel has no nftables.
	// With nftables it accepts them on all.
	Ports []uint16
	// Host are ports of 127.0.0.1 that lead to golem, and so to the host. On all other ports
	// of that address, commands reach each other.
	Host []uint16
	// PortsOnly uses no nftables, as on a kernel without it.
	PortsOnly bool
	// NamesOnly leads only questions to name servers to golem. No address has a route, so
	// connections fail as without an Egress. If the network cannot be made, and at the level
	// landlock, commands have no Egress.
	NamesOnly bool
	// Certificates are those of all authorities that commands trust, in PEM; nil for those
	// of the host. They replace the system's list, and variables name them for programs
	// that have a list of their own.
	Certificates []byte
	// Authority is the one among them that the host does not have, in a file for
	// SSL_CERT_DIR: OpenSSL finds a certificate in a directory by a hash in its name.
	Authority File
	// JavaStore, if set, returns the certificates as a key store for Java, which replaces
	// those of the host; nil for none.
	JavaStore func() []byte
	// Environment, if set, returns the environment of a command, given the one that it would
	// have: with placeholders for secrets that golem adds to requests. It is called after
	// Open.
	Environment func(env []string) []string
	// Open returns the server of a network. Jails that share a network share its server,
	// and Open is called once. The jail closes the server before the network ends.
	// Program names the program and process at the other end of a connection, "" if golem
	// cannot tell.
	Open func(program func(net.Conn) string) (Server, error)
	// Count, if set, begins to count what golem refuses for commands, until the function
	// that it returns is called.
	Count func() func() Refused
	// Suggest, if set, returns what the user can add to the hosts of a command, as --net
	// writes it, so that it reaches these. It returns nil if a host cannot be added. Denied is
	// the policy that forbids some of the hosts, "" for none.
	Suggest func(ctx context.Context, command, hosts []string) (add []string, denied string)
}

// Refused is what golem refused while a command ran.
type Refused struct {
	Hosts []string // names, or addresses with their ports, in the order of their first refusal
	Times int      // how often commands asked for them
	More  bool     // there were other hosts, too
	Add   []string // what Suggest returned, for a command that failed

	Denied string // the policy that forbids some of the hosts, "" for none
}

// String describes the hosts: "asked for a.example 3 times". It names no path of the host.
func (r Refused) String() string {
	if r.Denied != "" {
		r.Denied = ""
		return r.String() + "; a policy of this machine or user does not allow that"
	}
	const most = 3
	var names []string
	for _, host := range r.Hosts[:min(len(r.Hosts), most)] {
		names = append(names, sandbox.Shown(host))
	}
	text, times := "asked for "+strings.Join(names, ", "), ""
	if r.Times > 1 {
		times = fmt.Sprintf(" %d times", r.Times)
	}
	switch n := len(r.Hosts); {
	case r.More:
		return fmt.Sprintf("asked for more than %d hosts%s, first for %s", n, times, strings.Join(names, ", "))
	case n > most:
		return fmt.Sprintf("asked for %d hosts%s: %s and %d more", n, times, strings.Join(names, ", "), n-most)
	case n > 1:
		return fmt.Sprintf("asked for %d hosts%s: %s", n, times, strings.Join(names, ", "))
	}
	return text + times
}

// A Server serves a network of commands. Package egress has one. Its Serve methods return
// when their socket or the server is closed. Only this process holds the sockets.
type Server interface {
	// ServeDNS answers questions to name servers by UDP, and ServeDNSStreams by TCP.
	ServeDNS(net.PacketConn) error
	ServeDNSStreams(net.Listener) error
	// Serve serves all other connections. The function returns the address and port that
	// a command connected to.
	Serve(net.Listener, func(net.Conn) (netip.AddrPort, error)) error
	Close() error
}

// outletAddress is the address of the loopback interface, besides 127.0.0.1, in a network
// that leads to golem. Connections have it as their source, and golem listens on it. The
// range is reserved for tests of networks, so no real host has it. Package egress answers
// names with other addresses of the range.
const outletAddress = "198.18.0.1"

// resolvConf is the /etc/resolv.conf of commands whose network leads to golem.
const resolvConf = "nameserver " + outletAddress + "\n"

// The certificates of an Egress for commands, and the files of systems that they replace.
const (
	certificateFile = "/etc/golem/certificates.pem"
	certificateDir  = "/etc/golem/certificates"
	javaFile        = "/etc/golem/java.p12"
)

// SystemCertificates returns the files in which systems keep the certificates of
// authorities.
func SystemCertificates() []string {
	return []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}
}

// javaStores returns the files of the host in which Java keeps the certificates of
// authorities.
func javaStores() []string {
	list := []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts", "/etc/pki/java/cacerts"}
	for _, pattern := range []string{"/usr/lib/jvm/*/lib/security/cacerts", "/usr/lib/jvm/*/jre/lib/security/cacerts", "/opt/*/lib/security/cacerts"} {
		names, _ := filepath.Glob(pattern) // the patterns are valid
		list = append(list, names...)
	}
	return slices.DeleteFunc(list, func(name string) bool {
		info, err := os.Lstat(name)
		return err != nil || !info.Mode().IsRegular() // the file that a symlink leads to has its own name
	})
}

// CertificateVariables returns the variables by which programs find a file with
// the certificates of authorities, or a directory with them.
func CertificateVariables() []string {
	return []string{"SSL_CERT_FILE", certificateDirVariable, "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "npm_config_cafile", "AWS_CA_BUNDLE", "DENO_CERT"}
}

// certificateDirVariable names a directory, unlike the other variables.
const certificateDirVariable = "SSL_CERT_DIR"
