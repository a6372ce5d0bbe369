package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/golem-forge/golem/internal/work/model"
)

// makeRoom shortens a conversation that has more than most tokens; 0 means no limit. It
// keeps the task, which comes first, and the last turns. It first has the older part
// summarised. If that fails or is not enough, it removes the results of older calls, then
// older turns. It informs the model and the user.
func (t *conversation) makeRoom(ctx context.Context, most int64) error {
	before := estimate(t.messages)
	if most == 0 || before <= most*9/10 {
		return nil
	}
	switch did, err := t.summarize(ctx, most*3/10); {
	case err == nil:
		t.note(did)
		if before = estimate(t.messages); before <= most*9/10 {
			return nil
		}
	case t.over(ctx).End != "":
		return nil // the caller ends the conversation
	case errors.As(err, new(logError)):
		return err
	case !errors.Is(err, errNothingToSummarize):
		t.note("golem could not summarise the conversation, and drops its oldest results: " + err.Error())
	}
	want := most * 6 / 10
	messages, left := removeResults(t.messages, want)
	if estimate(messages) > want {
		messages, left = removeTurns(messages, want)
	}
	if left == 0 {
		return nil // there is nothing to remove
	}
	t.messages = messages
	t.note(fmt.Sprintf("the conversation was too long and was shortened, from about %d to %d tokens; the task and the last turns stay", before, estimate(messages)))
	return t.Log.write(Entry{Kind: "replace", In: t.id, Step: t.step, Worker: t.w.Name, Messages: messages})
}

// note reports an action of golem itself.
func (t *conversation) note(text string) {
	t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Text: text})
}

// kept is how many messages at the end stay as they are.
const kept = 4

const droppedArgs = "[omitted to save space; make the call again if you need it]"

// removeResults removes the results of older calls, the oldest first.
func removeResults(messages []model.Message, want int64) (shorter []model.Message, left int) {
	shorter = append([]model.Message{}, messages...)
	for i := 1; i < len(shorter)-kept && estimate(shorter) > want; i++ {
		parts := append([]model.Part{}, shorter[i].Parts...)
		for n, p := range parts {
			if p.Result != nil && len(p.Result.Text) > len(droppedArgs) {
				emptied := *p.Result
				emptied.Text = droppedArgs
				parts[n].Result = &emptied
				left++
			}
		}
		shorter[i].Parts = parts
		if m := withoutFiles(shorter[i], "it was omitted to save space; read it again if you need it"); m != nil {
			shorter[i] = *m
			left++
		}
	}
	return shorter, left
}

// removeTurns removes turns after the task. The rest begins with an answer of the model,
// so that no result is without its call.
func removeTurns(messages []model.Message, want int64) (shorter []model.Message, left int) {
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
	note := fmt.Sprintf("[%d messages omitted here to save space]", from-1)
	first.Parts = append(append([]model.Part{}, first.Parts...), model.Part{Text: note})
	return append([]model.Message{first}, messages[from:]...), from - 1
}
