package approval

import "github.com/golem-forge/golem/internal/decide/tool"

// CheckSeen applies the rule of approvals to a reply: see tool.Request.See. Every front uses
// it, and none decides by itself.
func CheckSeen(r tool.Request, reply Reply) (tool.Seen, error) {
	if reply.Verdict != tool.Approved {
		return tool.Seen{}, nil
	}
	return r.See(reply.Rendered, reply.DigestPrefix)
}

// toAnswer returns a person's reply as an answer. An approval records how much of the
// request was shown, and is an error if CheckSeen refuses it.
func (reply Reply) toAnswer(r tool.Request) (tool.Answer, error) {
	a := reply.Answer
	a.Shown = r.DescribeItems(reply.Rendered)
	var err error
	a.Seen, err = CheckSeen(r, reply)
	return a, err
}
