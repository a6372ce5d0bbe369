// Package gate lets a program decide about the calls of an AI worker before they have an
// effect. A tool plans first: it says which files it would read and change, and the gate works
// out the exact changes. Rules decide whether the call may run, is blocked, or needs approval.
// A person then decides about exactly these changes, and the journal has the decision before
// anything happens.
//
//	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
//		{Target: "/out", Source: "./results", Access: sandbox.ReadWrite},
//	}})
//	journal, err := gate.OpenJournal("./state", time.Now)
//	g := gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: mine, Journal: journal}
//	result := g.Do(ctx, gate.Model, gate.Call{Tool: "write_file", Args: args})
//
// # Approvals
//
// An [Approver] gets a [Request]: the call, the files, the diff, and the digest of all that.
// It cannot simply say yes. It renders the request, with [Request.Render] as pages of text or
// with [Request.Items] piece by piece, and gets a [Seen] for what was rendered. Only a Seen
// that covers everything approves: see [Seen.Approve]. That a person has looked at the text is
// the word of the program, and the journal records it under the name that the program gives.
//
// A decision may come later, from another process: see [Request.Later] and [Gate.Resume].
// [Pending] and Seen can be stored. They carry a seal made with [Gate.Key], and each approval
// is used at most once, at the gate at which the call was made.
//
// # Rules
//
// A [Rule] says for a verb and a target whether an effect is blocked, needs approval, or is
// approved in advance. The rule with the longest target holds. Without a rule, reading is
// approved, and everything else asks. What is missing never means more rights: the zero
// [Grant] allows nothing, the zero [Decision] declines, and a [Gate] without files or journal
// refuses every call.
package gate
