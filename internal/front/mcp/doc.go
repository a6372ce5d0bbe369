// Package mcp serves the gate of a program to other agents, over the Model Context
// Protocol. An agent is a peer: it has what one worker has, and nothing else.
//
//   - Its calls pass the gate as every other call does: the gate decides, asks for approval
//     and records. It offers a peer only the tools for peers, and refuses the others.
//   - If a call needs approval, golem shows a form in the client, if the client has forms,
//     and waits for golem approve at the same time. Only an explicit yes to this call
//     approves it.
//   - Every message of a client ends in an answer or an error, within limits of memory.
//     golem does not ask for the roots of a client, and nothing that a client says about
//     itself gives it more access.
package mcp
