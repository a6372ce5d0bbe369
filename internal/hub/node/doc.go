// Package node does the jobs of a hub on this machine: it makes the directory of each job,
// runs it through the same gate as golem run, and sends checkpoints from which any other node
// can continue.
package node
