// Package hub connects golem with a hub: the keys of people and nodes, jobs and decisions with
// their signatures, and the requests that a hub answers. Package serve is the other side.
package hub
