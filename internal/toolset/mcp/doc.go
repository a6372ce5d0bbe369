// Package mcp is the tools of MCP servers. A server is a program of somebody else: it
// is run in the jail, for as long as a worker works, with the least that it declares,
// and nothing that it says is believed.
//
//   - Its tools are called NAME_TOOL, need consent like others, and take the place of
//     none. What it says of them is escaped and bounded.
//   - They are those that it has listed when it was first started: a listing that is
//     another one is refused until the user has accepted it.
//   - Whatever it writes ends in an answer or in an error, in bounded time and memory.
//     It can ask golem for nothing: not for files, not for a model, not for the user.
package mcp
