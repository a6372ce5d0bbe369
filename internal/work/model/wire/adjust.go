package wire

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
)

// learned is what a server refuses of the settings of a request. The zero value refuses
// nothing.
type learned struct {
	mu          sync.Mutex
	temperature bool
	effort      bool
	schema      bool
	thoughts    bool  // asked for, in a readable form
	proofs      bool  // thoughts with their proofs
	most        int64 // tokens of an answer; 0 if not known
	// window is the size of the context, and input and size are the tokens and bytes of a
	// conversation with which an answer of most tokens did not fit. They are 0 if not known.
	window, input int64
	size          int
	otherMax      bool // the limit of an answer has another name
}

// Refuses tells a vendor what its server has refused so far.
type Refuses struct {
	OtherMax bool // the name that the vendor uses first for the limit of an answer
	Proofs   bool // encrypted thoughts
}

// Adjust asks with ask. If the server refuses a setting that the user can do without, Adjust
// tells the user and asks again without it. It remembers the refusal for the next requests.
func (c *Client) Adjust(r model.Request, tell func(model.Piece), ask func(model.Request, Refuses) (model.Answer, error)) (model.Answer, error) {
	for try := 0; ; try++ {
		fitted, refuses := c.learned.fit(r)
		answer, err := ask(fitted, refuses)
		var e *model.Error
		if err == nil || try == 6 || !errors.As(err, &e) || e.Class != model.Bad && e.Class != model.TooLong {
			return answer, err
		}
		note := c.learned.learn(&r, fitted, e.What)
		if note == "" {
			return answer, err
		}
		if tell != nil {
			tell(model.Piece{Note: c.Model + " " + note})
		}
	}
}

// fit returns a request without what the server refuses.
func (l *learned) fit(r model.Request) (model.Request, Refuses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.temperature {
		r.Temperature = nil
	}
	if l.effort {
		r.Effort = ""
	}
	if l.schema {
		r.Schema = nil
	}
	r.Thoughts = r.Thoughts && !l.thoughts
	if l.most > 0 && (r.MaxTokens == 0 || r.MaxTokens > l.most) {
		r.MaxTokens = l.most
	}
	if room := l.room(r); room > 0 && (r.MaxTokens == 0 || r.MaxTokens > room) {
		r.MaxTokens = room
	}
	if l.proofs {
		r.Messages = withoutProofs(r.Messages)
	}
	return r, Refuses{OtherMax: l.otherMax, Proofs: l.proofs}
}

// withoutProofs returns the messages without thoughts and without signatures of calls.
func withoutProofs(messages []model.Message) []model.Message {
	var list []model.Message
	for _, m := range messages {
		var parts []model.Part
		for _, p := range m.Parts {
			switch {
			case p.Thinking != nil:
				continue
			case p.Call != nil:
				call := *p.Call
				call.Proof = nil
				p.Call = &call
			}
			parts = append(parts, p)
		}
		list = append(list, model.Message{Role: m.Role, Parts: parts})
	}
	return list
}

// The words of servers about a setting.
var words = sync.OnceValue(func() (w struct {
	refused, max, otherMax, tooLong, room, sum, number, proofs, noProofs, required, summary, effort, schema *regexp.Regexp
}) {
	w.refused = regexp.MustCompile(`^(00|22)\b`)
	w.max = regexp.MustCompile(`(?i)max_(completion_|output_|new_)?tokens|maxOutputTokens|max output tokens|output tokens|completion tokens|in the completion`)
	w.otherMax = regexp.MustCompile(`(?i)(unsupported|not supported|unknown|unrecognized|unexpected|extra|not permitted)[^.]*'?max_(completion_)?tokens|max_(completion_)?tokens'? (is )?(unsupported|not supported|not permitted|unknown)|max_(completion_)?tokens.{0,40}extra`)
	w.tooLong = regexp.MustCompile(`(?i)context (length|window|limit|size)`)
	w.room = regexp.MustCompile(`(?i)context (?:length|window)[^0-9]*(\d+)\D.*?(\d+) (?:input tokens|in the messages|prompt tokens|of text input)`)
	w.sum = regexp.MustCompile(`(?i)context (?:length|window|limit)[^0-9]*(\d+) \+ \d+ > (\d+)`)
	w.number = regexp.MustCompile(`\d+`)
	w.proofs = regexp.MustCompile(`(?i)encrypted|signature`)
	w.noProofs = regexp.MustCompile(`(?i)encrypted content is not supported|reasoning(_content|_details)?\W*(is |are )?(unsupported|not supported|not permitted|unknown|extra)|(unsupported|unknown|unrecognized|extra)[^.]*reasoning_(content|details)`)
	w.required = regexp.MustCompile(`(?i)missing|must be|required|passed back|expected`)
	w.summary = regexp.MustCompile(`(?i)reasoning.?summar|organization must be verified|includeThoughts|thinking\.display`)
	w.effort = regexp.MustCompile(`(?i)reasoning|effort|thinking`)
	w.schema = regexp.MustCompile(`(?i)response_format|json_schema|response_?(json_?)?schema|text\.format|response mime type|structured output`)
	return w
})

// learn finds out which setting of the request r a server refuses, by its words. It returns
// what to tell the user, "" if the complaint is about something else. A limit that holds only
// for this conversation goes into next, the request for the next try.
func (l *learned) learn(next *model.Request, r model.Request, what string) (note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := words()
	_, what, found := strings.Cut(what, "answers 4") // the address before has numbers, too
	switch {
	case !found || !w.refused.MatchString(what):
		return ""
	case !l.otherMax && r.MaxTokens > 0 && w.otherMax.MatchString(what):
		l.otherMax = true
		return "wants the limit of an answer under another name: golem asks again with that name"
	case w.max.MatchString(what):
		most, always := lower(what, r.MaxTokens)
		if most > 0 && !always {
			window, input, ok := findWindow(what)
			if !ok { // no later part of this conversation has more room
				window, input = most+spareRoom, 0
			}
			l.window, l.input, l.size = window, input, sizeOf(*next)
		}
		if most == 0 {
			return ""
		}
		if next.MaxTokens = most; always {
			l.most = most
		}
		return "refuses so long an answer: golem asks again for at most " + strconv.FormatInt(most, 10) + " tokens"
	case r.Temperature != nil && strings.Contains(what, "temperature"):
		l.temperature = true
		return "refuses the temperature: golem asks again without it"
	case r.Thoughts && w.summary.MatchString(what):
		l.thoughts = true
		return "does not show its thoughts: golem asks again without them"
	case !l.proofs && hasProofs(r.Messages) && w.proofs.MatchString(what) && !w.required.MatchString(what),
		!l.proofs && w.noProofs.MatchString(what):
		l.proofs = true
		return "refuses the thoughts of the conversation so far: golem asks again without them"
	case len(r.Schema) > 0 && w.schema.MatchString(what):
		l.schema = true
		return "refuses the schema of the answer: golem asks again without it, and checks the answer"
	case r.Effort != "" && w.effort.MatchString(what) && !w.proofs.MatchString(what) && !strings.Contains(what, "reasoning_content"):
		l.effort = true
		return "refuses the effort " + string(r.Effort) + ": golem asks again without it"
	}
	return ""
}

// room estimates how many tokens an answer may have behind a conversation, 0 if it does not
// know. It keeps a part of the window free, because tokens differ in size.
func (l *learned) room(r model.Request) int64 {
	size := sizeOf(r)
	if l.size == 0 || size < l.size { // a smaller conversation may have room for any answer
		return 0
	}
	more := int64(float64(l.input) * float64(size-l.size) / float64(l.size))
	return max(l.window-l.input-more-more/4-spareRoom, leastRoom)
}

// sizeOf returns the bytes of a conversation.
func sizeOf(r model.Request) (n int) {
	n = len(r.System)
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range r.Messages {
		data, err := json.Marshal(m)
		if err == nil {
			n += len(data)
		}
	}
	return n
}

const (
	leastRoom = 256 // the smallest limit of an answer that golem asks for after a complaint
	spareRoom = 16  // tokens that golem leaves free in a window
)

// findWindow returns the size of the context, and how much of it a conversation takes, from
// the words of a server.
func findWindow(what string) (window, input int64, ok bool) {
	w := words()
	if m := w.room.FindStringSubmatch(what); m != nil {
		window, _ = strconv.ParseInt(m[1], 10, 64)
		input, _ = strconv.ParseInt(m[2], 10, 64)
		return window, input, true
	}
	if m := w.sum.FindStringSubmatch(what); m != nil {
		input, _ = strconv.ParseInt(m[1], 10, 64)
		window, _ = strconv.ParseInt(m[2], 10, 64)
		return window, input, true
	}
	return 0, 0, false
}

// lower returns a lower limit of an answer after a complaint, 0 if there is none, and whether
// it holds for every conversation.
func lower(what string, most int64) (limit int64, always bool) {
	const least = leastRoom
	w := words()
	if window, input, ok := findWindow(what); ok {
		if left := window - input - spareRoom; left >= least && (most == 0 || left < most) {
			return left, false
		}
		return 0, false
	}
	for _, text := range w.number.FindAllString(what, -1) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= least && (most == 0 || n < most) {
			limit = max(limit, n)
		}
	}
	if w.tooLong.MatchString(what) { // the answer fits, but not with this conversation
		limit = most / 2
	} else if limit == 0 {
		limit, always = most/2, true
	} else {
		always = true
	}
	if limit < least {
		return 0, false
	}
	return limit, always
}

// hasProofs reports whether messages have thoughts or signatures of a vendor.
func hasProofs(messages []model.Message) bool {
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Thinking != nil || p.Call != nil && len(p.Call.Proof) > 0 {
				return true
			}
		}
	}
	return false
}
