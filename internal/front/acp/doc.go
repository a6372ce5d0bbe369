// Package acp speaks the Agent Client Protocol (ACP), which connects an editor with an agent
// over two streams, one JSON message a line.
//
// A [Proxy] stands between an editor and a foreign agent in the jail. Neither side is trusted
// by the other, and golem trusts neither:
//
//   - golem passes messages on as they are, so fields that it does not know survive. It refuses
//     a message that two readers could understand differently.
//   - The agent may answer, report, and ask for permission. golem refuses every other request
//     of it, such as those for files and terminals of the editor: they would act outside the
//     session. golem tells the agent that the editor has none.
//   - The editor's answer counts once, for a question that is open, with an option that was
//     offered. Any other answer is a no.
package acp
