// Package mcp serves the door of a program to other agents, over the Model Context
// Protocol. An agent is a peer: it has what one worker has, and nothing else.
//
//   - What it calls goes through the door as every other call does: decided, asked about,
//     journaled. The tools are those that the door offers to a peer; what is for the user
//     alone is not among them, and is refused by its name.
//   - What needs consent is asked about in a form of the client, where it has forms, and
//     waits for golem approve at the same time. Only an explicit yes to this very call is
//     one.
//   - Whatever a client sends ends in an answer or an error, in bounded memory. What it
//     says of itself widens nothing: its roots are not even asked for.
package mcp
