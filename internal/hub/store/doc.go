// Package store keeps the contracts of package state on NATS JetStream: logs, decisions
// that are made once, leases and contents. It also has what only a hub needs: fences that
// nobody can remove, documents with revisions, and queues.
package store
