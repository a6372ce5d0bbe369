package models_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/model/vendortest"
)

// A talk is a conversation with a vendor's server.
type talk struct {
	t      *testing.T
	server *vendortest.Server
	model  model.Model
	next   model.Answer // the next answer
	notes  []string
	r      model.Request
}

func newTalk(t *testing.T, v vendortest.Vendor) *talk {
	t.Helper()
	c := &talk{t: t}
	c.server = v.Start(func(model.Request) (model.Answer, error) { return c.next, nil })
	t.Cleanup(c.server.Close)
	m, err := models.Open(models.Options{Spec: v.Model, Env: env(v.BaseVar, c.server.URL, v.KeyVar, secret)})
	if err != nil {
		t.Fatal(err)
	}
	c.model = m
	c.r.System, c.r.MaxTokens = "Be brief.", 8000
	return c
}

// say adds a message of the user and the model's answer, which the server makes from parts.
func (c *talk) say(parts []model.Part, answer ...model.Part) (model.Answer, error) {
	c.t.Helper()
	c.r.Messages = append(c.r.Messages, model.Message{Role: model.User, Parts: parts})
	c.next = model.Answer{Parts: answer}
	a, err := c.model.Answer(context.Background(), c.r, func(p model.Piece) {
		if p.Note != "" {
			c.notes = append(c.notes, p.Note)
		}
	})
	c.r.Messages = append(c.r.Messages, model.Message{Role: model.Assistant, Parts: a.Parts})
	return a, err
}

// last returns the last request that the server accepted.
func (c *talk) last() vendortest.Seen {
	seen := c.server.Seen()
	if len(seen) == 0 {
		return vendortest.Seen{}
	}
	return seen[len(seen)-1]
}

func text(s string) []model.Part { return []model.Part{{Text: s}} }

func callPart(tool, args string) model.Part {
	return model.Part{Call: &model.Call{Tool: tool, Args: args}}
}

// results returns a result for each call of an answer.
func results(a model.Answer) (parts []model.Part) {
	for _, c := range a.Calls() {
		parts = append(parts, model.Part{Result: &model.Result{ID: c.ID, Text: "result of " + c.Args}})
	}
	return parts
}

var someTools = []model.Tool{{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}, {Name: "list"}}

// TestSupport has a conversation with each vendor, and makes the table in the guide from what
// the vendor's server accepted.
func TestSupport(t *testing.T) {
	yes := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "–"
	}
	table := "| server | tools | parallel calls | several turns | thoughts sent back | images | PDF | schema | effort | temperature | cache |\n|" + strings.Repeat("---|", 11) + "\n"
	for _, v := range vendortest.Vendors() {
		t.Run(v.Name, func(t *testing.T) {
			c := newTalk(t, v)
			c.r.Tools = someTools
			first, err := c.say(text("Hello"), model.Part{Text: "Look."}, callPart("read", `{"path":"/a"}`), callPart("list", `{}`))
			if err != nil || len(first.Calls()) != 2 || first.Text() != "Look." || first.Stop != model.Calls {
				t.Fatalf("got %+v, %v", first, err)
			}
			cache := yes(first.Usage.CacheRead > 0)
			if cache == "yes" {
				cache = "automatic"
			}
			if c.last().Marked {
				cache = "marked"
			}
			if charged := first.Usage.Charged; charged > 0 != (v.Name == "OpenRouter") || charged != 0 && charged != 950 {
				t.Errorf("charged %d millionths of a dollar", charged)
			}
			if total := first.Usage.Input + first.Usage.CacheRead; total != 10 || first.Usage.Output != 5 {
				t.Errorf("got %+v", first.Usage)
			}
			second, err := c.say(results(first), callPart("read", `{"path":"/b"}`))
			if err != nil || len(second.Calls()) != 1 {
				t.Fatalf("got %+v, %v", second, err)
			}
			back := c.last().Thoughts
			// A note of golem's own comes after the results in the same message.
			third, err := c.say(append(results(second), text("Hurry.")...), model.Part{Text: "Done."})
			if err != nil || third.Text() != "Done." || third.Stop != model.Done {
				t.Fatalf("got %+v, %v", third, err)
			}
			if _, err = c.say(text("And?"), callPart("list", `{}`)); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, m := range c.last().Messages {
				for _, p := range m.Parts {
					if p.Result != nil {
						got += p.Result.Text + "; "
					}
				}
			}
			if want := `result of {"path":"/a"}; result of {}; result of {"path":"/b"}; `; strings.ReplaceAll(got, " \"", "\"") != want {
				t.Errorf("the server got the results %s", got)
			}
			if refused := c.server.Refused(); len(refused) > 1 || len(refused) == 1 && v.Name != "OpenAI, chat" && v.Name != "vLLM" {
				t.Errorf("refused %q", refused)
			}

			file := func(media string) string {
				c := newTalk(t, v)
				_, err := c.say(append(text("Look:"), model.Part{File: &model.File{Name: "a", Type: media, Data: []byte("x")}}), model.Part{Text: "ok"})
				seen := false
				for _, m := range c.last().Messages {
					for _, p := range m.Parts {
						seen = seen || p.File != nil && p.File.Type == media && len(p.File.Data) > 0
					}
				}
				if seen != (err == nil) {
					t.Errorf("%s: seen %v, %v", media, seen, err)
				}
				return yes(seen)
			}
			schema := func(tools []model.Tool) bool {
				c := newTalk(t, v)
				c.r.Tools, c.r.Schema = tools, json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
				if _, err := c.say(text("Hello"), model.Part{Text: "{}"}); err != nil {
					t.Error(err)
				}
				return len(c.last().Schema) > 0
			}
			withSchema := yes(schema(someTools))
			if withSchema == "–" && schema(nil) {
				withSchema = "without tools"
			}

			c = newTalk(t, v)
			c.r.Tools, c.r.Effort = someTools, model.HighEffort
			if a, err := c.say(text("Hello"), callPart("list", "{}")); err != nil {
				t.Error(err)
			} else if _, err := c.say(results(a), model.Part{Text: "ok"}); err != nil {
				t.Error(err)
			}
			effort := yes(c.last().Effort != "")
			if (effort == "–") != (len(c.notes) > 0) && v.Name != "vLLM" {
				t.Errorf("effort %s with the notes %q", effort, c.notes)
			}
			c = newTalk(t, v)
			cold := 0.2
			c.r.Temperature = &cold
			if _, err := c.say(text("Hello"), model.Part{Text: "ok"}); err != nil {
				t.Error(err)
			}
			warm := yes(c.last().Temperature != nil)
			if warm == "–" && (len(c.notes) != 1 || !strings.Contains(c.notes[0], "refuses the temperature")) {
				t.Errorf("got the notes %q", c.notes)
			}
			table += fmt.Sprintf("| %s (`%s`) | yes | yes | yes | %s | %s | %s | %s | %s | %s | %s |\n", v.Name, v.Model, yes(back > 0), file("image/png"), file("application/pdf"), withSchema, effort, warm, cache)
		})
	}
	if !t.Failed() {
		testutil.GoldenPart(t, "../../../../docs/models.md", "<!-- support: made by go test ./internal/work/model/models -run Support -update -->\n", "<!-- end of support -->\n", table)
	}
}

// TestStrictServers: the servers refuse a conversation without the thoughts that their vendors
// want back, and one without a result. Otherwise the table would prove nothing.
func TestStrictServers(t *testing.T) {
	wantsBack := map[string]string{
		"Anthropic": "Expected `thinking`", "OpenAI, responses": "without its required 'reasoning' item", "Gemini": "signature is not the one of the call",
		"OpenRouter": "cannot be modified", "DeepSeek": "must be passed back", "xAI": "must be passed back",
	}
	for _, v := range vendortest.Vendors() {
		t.Run(v.Name, func(t *testing.T) {
			begin := func() (*talk, model.Answer) {
				c := newTalk(t, v)
				c.r.Tools = someTools
				a, err := c.say(text("Hello"), model.Part{Text: "Look."}, callPart("read", `{"path":"/a"}`), callPart("list", `{}`))
				if err != nil {
					t.Fatal(err)
				}
				return c, a
			}
			c, a := begin()
			var bare []model.Part
			for _, p := range a.Parts {
				if p.Call != nil {
					p.Call = &model.Call{ID: p.Call.ID, Tool: p.Call.Tool, Args: p.Call.Args}
				}
				if p.Thinking == nil {
					bare = append(bare, p)
				}
			}
			c.r.Messages[1].Parts = bare
			_, err := c.say(results(a), model.Part{Text: "ok"})
			if want := wantsBack[v.Name]; want == "" && err != nil {
				t.Errorf("without thoughts: %v", err)
			} else if want != "" {
				mustFail(t, err, model.Bad, want)
			}

			c, a = begin()
			_, err = c.say(results(a)[:1], model.Part{Text: "ok"})
			mustFail(t, err, model.Bad)
		})
	}
}

// TestVendorChanges: a conversation can continue with the model of any other vendor, with the
// calls and results so far. A vendor gets no thoughts of another.
func TestVendorChanges(t *testing.T) {
	vendors := vendortest.Vendors()
	for _, v := range vendors {
		first := newTalk(t, v)
		first.r.Tools = someTools
		a, err := first.say(text("Hello"), model.Part{Text: "Look."}, callPart("read", `{"path":"/a"}`), callPart("list", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range vendors {
			if other.Name == v.Name {
				continue
			}
			c := newTalk(t, other)
			c.r.Tools, c.r.Effort = someTools, model.HighEffort
			c.r.Messages = append(c.r.Messages, first.r.Messages...)
			b, err := c.say(results(a), callPart("read", `{"path":"/b"}`))
			if err != nil || len(b.Calls()) != 1 {
				t.Errorf("from %s to %s: %v", v.Name, other.Name, err)
				continue
			}
			if n := c.last().Thoughts; n != 0 {
				t.Errorf("from %s to %s: %d thoughts", v.Name, other.Name, n)
			}
			if _, err := c.say(results(b), model.Part{Text: "ok"}); err != nil {
				t.Errorf("from %s to %s: %v", v.Name, other.Name, err)
			}
		}
	}
}
