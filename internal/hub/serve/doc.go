// Package serve is the hub: it keeps jobs, contents and decisions in a store on JetStream, and
// answers the requests of people and nodes, each by its role.
package serve
