// Package foreign provides the tools of MCP servers. A server is a program of somebody
// else. golem runs it in the jail while a worker works, with the least permissions that
// its declaration needs, and believes nothing that it says.
//
//   - Its tools are named NAME_TOOL, need approval like other tools and cannot replace
//     one. golem escapes and shortens their descriptions.
//   - golem keeps the list of tools from the server's first start, and refuses a
//     different list until the user has accepted it.
//   - Every call ends in an answer or an error, within limits of time and memory. The
//     server cannot ask golem for files, for a model or for the user.
package foreign
