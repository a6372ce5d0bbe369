package run

import (
	"fmt"

	"github.com/golem-forge/golem/internal/model"
)

// makeRoom shortens a conversation that has more tokens than it may, 0 for any number.
// The task, which comes first, and the last turns stay as they are. First the results
// of older calls go, then older turns. The model and the user are told.
func (t *talk) makeRoom(most int64) error {
	before := estimate(t.messages)
	if most == 0 || before <= most*9/10 {
		return nil
	}
	want := most * 6 / 10
	messages, left := withoutResults(t.messages, want)
	if estimate(messages) > want {
		messages, left = withoutTurns(messages, want)
	}
	if left == 0 {
		return nil // there is nothing that could go
	}
	t.messages = messages
	t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers,
		Text: fmt.Sprintf("the conversation was too long and was shortened, from about %d to %d tokens; the task and the last turns stay", before, estimate(messages))})
	return t.Log.write(Entry{Kind: "replace", In: t.id, Worker: t.w.Name, Messages: messages})
}

// kept is how many messages at the end stay as they are.
const kept = 4

const leftOut = "[left out to save room; make the call again if you need it]"

// withoutResults empties the results of older calls, the oldest first.
func withoutResults(messages []model.Message, want int64) (shorter []model.Message, left int) {
	shorter = append([]model.Message{}, messages...)
	for i := 1; i < len(shorter)-kept && estimate(shorter) > want; i++ {
		parts := append([]model.Part{}, shorter[i].Parts...)
		for n, p := range parts {
			if p.Result != nil && len(p.Result.Text) > len(leftOut) {
				emptied := *p.Result
				emptied.Text = leftOut
				parts[n].Result = &emptied
				left++
			}
		}
		shorter[i].Parts = parts
	}
	return shorter, left
}

// withoutTurns takes out turns after the task. What is left begins with an answer of
// the model, so that no result is without its call.
func withoutTurns(messages []model.Message, want int64) (shorter []model.Message, left int) {
	from := 1
	for from < len(messages)-kept && estimate(messages[from:])+estimate(messages[:1]) > want {
		from++
	}
	for from < len(messages) && messages[from].Role != model.Assistant {
		from++
	}
	if from <= 1 || from >= len(messages) {
		return messages, 0
	}
	first := messages[0]
	note := fmt.Sprintf("[%d messages that came here are left out to save room]", from-1)
	first.Parts = append(append([]model.Part{}, first.Parts...), model.Part{Text: note})
	return append([]model.Message{first}, messages[from:]...), from - 1
}
