package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// nextMessage begins a message and returns its id.
func (t *thread) nextMessage() string {
	t.messages++
	return t.messageID()
}

func (t *thread) messageID() string { return fmt.Sprintf("m%d", t.messages) }

// say adds a text to a message.
func (t *thread) say(kind, text string) {
	t.update(kind, map[string]any{"messageId": t.messageID(), "content": map[string]any{"type": "text", "text": visible.Data(text)}})
}

// replay sends the conversation so far.
func (t *thread) replay() {
	for _, m := range t.run.Messages() {
		kind := "user_message_chunk"
		if m.Role == model.Assistant {
			kind = "agent_message_chunk"
		}
		t.nextMessage()
		for i, p := range m.Parts {
			switch {
			case p.Text != "":
				t.say(kind, p.Text)
			case p.Call != nil:
				t.newCall(fmt.Sprintf("past-%d-%d", t.messages, i), "", p.Call.Tool, "completed", json.RawMessage(p.Call.Args))
			}
		}
	}
}

// tell shows an event of the run.
func (t *thread) tell(e run.Event) {
	entry := len(e.Chain) <= 1
	switch e.Type {
	case run.Piece:
		if entry {
			t.streamed = true
			t.say("agent_message_chunk", e.Text)
		}
	case run.Thought:
		if entry {
			t.say("agent_thought_chunk", e.Text)
		}
	case run.Message:
		if entry && !t.streamed && e.Text != "" {
			t.say("agent_message_chunk", e.Text)
		}
		if entry {
			t.streamed = false
			t.nextMessage()
		}
		if c := e.Context; entry && c != nil && c.Limit > 0 {
			t.update("usage_update", map[string]any{"used": c.Tokens, "size": c.Limit})
		}
	case run.ToolCall:
		who := ""
		if !entry {
			who = e.Worker + ": "
		}
		t.edits[e.Call] = t.newCall(e.Call, who, e.Tool, "in_progress", e.Args)
	case run.Pending:
		t.update("tool_call_update", map[string]any{"toolCallId": e.Call, "status": "pending", "content": []any{plain("waits for approval as " + e.Request)}})
	case run.ToolResult:
		fields := map[string]any{"toolCallId": e.Call, "status": "completed"}
		if ok := e.OK != nil && *e.OK; !ok {
			fields["status"] = "failed"
		}
		if fields["status"] == "failed" || !t.edits[e.Call] {
			fields["content"] = []any{plain(visible.Cut(visible.Text(e.Text), maxResult))}
		}
		t.update("tool_call_update", fields)
	case run.Note:
		t.Tell(e.Text)
	}
}

// maxResult is the most characters of a result that the editor gets, and maxDiff the most bytes
// of a file in a diff.
const maxResult, maxDiff = 20_000, 200_000

// kinds are the kinds of tools in the protocol. Others are "other".
var kinds = map[string]string{"read_file": "read", "read_files": "read", "list_files": "search", "search": "search", "find_files": "search", "write_file": "edit", "edit_file": "edit", "copy_file": "edit", "make_directory": "edit",
	"delete_file": "delete", "move_file": "move", "shell": "execute", "service_start": "execute", "web_fetch": "fetch"}

// newCall shows a call of a worker that begins. It reports whether the editor has got its diff.
func (t *thread) newCall(id, who, name, status string, args json.RawMessage) (hasDiff bool) {
	var given struct {
		Path, From, To, Command string
		Content                 *string
		Edits                   []struct {
			Old, New string
			All      bool `json:"replace_all"`
		}
	}
	json.Unmarshal(args, &given) // arguments of another form have none of these
	title := visible.Line(who+name+" "+cmp.Or(given.Path, given.From, given.Command), maxShown)
	fields := map[string]any{"toolCallId": id, "kind": cmp.Or(kinds[name], "other"), "status": status,
		"title": "`" + strings.ReplaceAll(strings.TrimSpace(title), "`", "'") + "`"} // as code, because editors read Markdown
	var places []any
	for _, name := range []string{given.Path, given.From, given.To} {
		if host := t.hostPath(name); host != "" {
			places = append(places, map[string]any{"path": host})
		}
	}
	if places != nil {
		fields["locations"] = places
	}
	if host := t.hostPath(given.Path); host != "" && status != "completed" && (given.Content != nil || given.Edits != nil) {
		data, err := t.run.Entry.Gate.Files.Read(t.canonical(given.Path))
		old, text := string(data), string(data)
		if given.Content != nil {
			text = *given.Content
		}
		for _, e := range given.Edits {
			n := 1
			if e.All {
				n = -1
			}
			hasDiff = strings.Contains(text, e.Old)
			text = strings.Replace(text, e.Old, e.New, n)
		}
		if hasDiff = (hasDiff || given.Content != nil) && max(len(old), len(text)) <= maxDiff; hasDiff {
			fields["content"] = []any{t.diff(host, old, text, err != nil)}
		}
	}
	kind := "tool_call_update"
	if t.version() == 1 {
		kind = "tool_call"
	}
	t.update(kind, fields)
	return hasDiff
}

// hostPath returns the path on the host of a file that a call names, "" for none.
func (t *thread) hostPath(name string) string { return t.run.HostPath(t.canonical(name)) }

// canonical returns a name in a call as the tools read it: commands see the mount at / as /work.
func (t *thread) canonical(name string) string {
	files := t.run.Entry.Gate.Files
	name, _ = files.Canonical(name)
	below, is := strings.CutPrefix(name, "/work/")
	if there, err := files.Exists("/work"); !is || there || err != nil || !files.CanRead("/") {
		return name
	}
	return "/" + below
}

// diff returns a change of a file in the form of the version.
func (t *thread) diff(host, old, text string, isNew bool) any {
	old, text = visible.Data(old), visible.Data(text)
	if t.version() == 1 {
		d := map[string]any{"type": "diff", "path": host, "newText": text, "oldText": old}
		if isNew {
			d["oldText"] = nil
		}
		return d
	}
	operation, from, mode := "modify", host, ""
	if isNew {
		operation, from, mode = "add", "/dev/null", "new file mode 100644\n"
	}
	d := map[string]any{"type": "diff", "changes": []any{map[string]any{"operation": operation, "path": host, "fileType": "text"}}}
	if text := patch.Unified(from, host, old, text); text != "" && !strings.ContainsAny(host, "\"\n\\") {
		d["patch"] = map[string]any{"format": "git_patch", "text": "diff --git " + host + " " + host + "\n" + mode + text}
	}
	return d
}
