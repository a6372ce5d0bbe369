// Package egress is a network that reaches only the hosts of a list. It is the host's
// side: it opens no namespace and knows no jail. The caller gives it sockets on which the
// confined programs arrive, and a function that says where a program wanted to go.
//
//	program ── DNS ──▶ resolver: "api.example.com" is 198.18.1.0, a stand-in
//	program ── TCP to 198.18.1.0:443 ──▶ golem ── TCP to the real address ──▶ host
//
// A connection passes these steps:
//
//  1. Name. The resolver answers a name that may be used, or asked about, with a stand-in
//     address: one for each name. So the address that a program connects to gives the name
//     and the port, for every protocol. A name that nobody may use does not exist. An
//     address that is no stand-in needs a rule for that address.
//  2. Decision. The rules for name and port decide (policy.Hosts). Without a rule, Ask
//     decides: the connection waits a few seconds for an answer.
//  3. Wire. The TLS server name or the HTTP host must be the name. crypto/tls reads the
//     client's hello on a connection that records it, so golem passes on the same bytes.
//     net/http reads and writes every request of a plain HTTP connection, so golem and the
//     server cannot disagree about where a request ends. Other protocols pass only at
//     ports other than 80 and 443, which a rule must name.
//  4. Address. golem resolves the name, drops private, local and metadata addresses, and
//     dials one of the rest. The dialer checks the address again before it connects.
//  5. Copy and record. golem copies bytes both ways and reports each connection: host,
//     port, program, decision, bytes, duration.
//
// Rules with methods, paths, git or a credential need golem to read requests inside TLS.
// For these hosts golem ends TLS with certificates of an authority that lives as long as
// the network, in memory, and that is valid for these hosts only. All other TLS stays
// encrypted from end to end. Outside, golem verifies the host's real certificate.
//
// A program never gets the value of a credential. It gets a placeholder of the same shape,
// and golem sets the header itself, for the hosts of the rule. A host with a credential
// takes no other authentication: with a key of their own, others could turn an allowed
// host into a place for uploads.
//
// The package cannot stop a program from sending data to an allowed host, in the names of
// DNS questions, or by the timing of connections. It does not see what a program sends
// inside TLS that golem passes on.
package egress
