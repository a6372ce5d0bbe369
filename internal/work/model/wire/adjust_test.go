package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
)

// TestAdjust: after a vendor's complaint about a setting golem asks again without it, and
// never sends it again. Other complaints are errors at once.
func TestAdjust(t *testing.T) {
	warm := 0.5
	thought := []model.Message{{Role: model.Assistant, Parts: []model.Part{{Thinking: &model.Thinking{Text: "Hm."}}, {Call: &model.Call{ID: "a", Proof: json.RawMessage(`{"x":1}`)}}}}}
	for _, test := range []struct {
		status  int
		message string
		request model.Request
		want    string // what the second request has; "" if there is none
	}{
		{400, "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku-20241022", model.Request{MaxTokens: 32_000}, "max 8192"},
		{400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.", model.Request{MaxTokens: 100_000}, "max 16384"},
		{400, "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 100000 instead.", model.Request{MaxTokens: 100_000}, "max 16384"},
		{400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", model.Request{MaxTokens: 16_000}, "max 8192"},
		{400, "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model", model.Request{MaxTokens: 16_000}, "max 8192"},
		{400, "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is 12000 tokens and your request has 2000 input tokens (16000 > 12000 - 2000).", model.Request{MaxTokens: 16_000}, "max 9984"},
		{400, "This model's maximum context length is 8192 tokens. However, you requested 17000 tokens (1000 in the messages, 16000 in the completion).", model.Request{MaxTokens: 16_000}, "max 7176"},
		{400, "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease input length or `max_tokens` and try again", model.Request{MaxTokens: 16_000}, "max 9984"},
		{400, "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).", model.Request{MaxTokens: 100_000}, "max 65537"},
		{400, "max_tokens is too large", model.Request{MaxTokens: 16_000}, "max 8000"},
		{400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", model.Request{MaxTokens: 16_000}, "other max"},
		{400, "Unrecognized request argument supplied: max_completion_tokens", model.Request{MaxTokens: 16_000}, "other max"},
		{400, "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.", model.Request{Temperature: &warm}, "no temperature"},
		{400, "`temperature` may only be set to 1 when thinking is enabled", model.Request{Temperature: &warm, Effort: model.HighEffort}, "no temperature, effort high"},
		{400, "Unsupported parameter: 'reasoning.effort' is not supported with this model.", model.Request{Effort: model.HighEffort}, "no effort"},
		{400, "Thinking level MEDIUM is not supported for this model.", model.Request{Effort: model.MediumEffort}, "no effort"},
		{422, "Extra inputs are not permitted reasoning_effort", model.Request{Effort: model.MediumEffort}, "no effort"},
		{400, "Your organization must be verified to generate reasoning summaries.", model.Request{Thoughts: true, Effort: model.LowEffort}, "no thoughts, effort low"},
		{400, "Function calling with a response mime type: 'application/json' is unsupported", model.Request{Schema: json.RawMessage(`{}`)}, "no schema"},
		{400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", model.Request{Schema: json.RawMessage(`{}`)}, "no schema"},
		{400, "The encrypted content for item rs_1 could not be verified.", model.Request{Messages: thought}, "no proofs"},
		{400, "messages.1.content.0: Invalid `signature` in `thinking` block", model.Request{Messages: thought, Effort: model.HighEffort}, "no proofs, effort high"},
		{400, "Encrypted content is not supported with this model.", model.Request{}, "no proofs"},
		{400, "property 'reasoning_content' is unsupported", model.Request{Messages: thought}, "no proofs"},

		{400, "prompt is too long: 201000 tokens > 200000 maximum", model.Request{MaxTokens: 16_000}, ""},
		{400, "This model's maximum context length is 8192 tokens. However, you requested 25000 tokens (9000 in the messages, 16000 in the completion).", model.Request{MaxTokens: 16_000}, ""},
		{400, "The reasoning_content in the thinking mode must be passed back to the API.", model.Request{Messages: thought, Effort: model.HighEffort}, ""},
		{400, "Function call `r` in the `1.` content block is missing a `thought_signature`.", model.Request{Messages: thought, Effort: model.HighEffort}, ""},
		{400, "Unsupported value: 'temperature'", model.Request{}, ""},
		{400, "tools.0.name: bad", model.Request{Temperature: &warm, Effort: model.HighEffort, MaxTokens: 99}, ""},
		{429, "Too many tokens: max_tokens counts against your limit of 8192", model.Request{MaxTokens: 16_000}, ""},
		{500, "temperature", model.Request{Temperature: &warm}, ""},
		{400, "max_tokens: 300 > 256", model.Request{MaxTokens: 300}, "max 256"},
		{400, "max_tokens: 200 > 100", model.Request{MaxTokens: 200}, ""},
	} {
		complain := true
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if complain {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"type": "invalid_request_error", "message": test.message}})
			}
		}))
		c := client(t, s.URL+"/")
		var asked []string
		var notes []string
		ask := func() error {
			_, err := c.Adjust(test.request, func(p model.Piece) { notes = append(notes, p.Note) }, func(r model.Request, refuses Refuses) (model.Answer, error) {
				asked = append(asked, describe(test.request, r, refuses))
				complain = len(asked) == 1 || test.want == ""
				err := c.Stream(t.Context(), Call{Path: "x"}, func(Event) (bool, error) { return true, nil })
				if _, isModel := err.(*model.Error); isModel {
					return model.Answer{}, err
				}
				return model.Answer{}, nil
			})
			return err
		}
		err := ask()
		if test.want == "" {
			if err == nil || len(asked) != 1 || len(notes) != 0 {
				t.Errorf("%s: got %v after %q, with the notes %q", test.message, err, asked, notes)
			}
			s.Close()
			continue
		}
		if err != nil || len(asked) != 2 || asked[1] != test.want || len(notes) != 1 || !strings.HasPrefix(notes[0], "v:m ") || !strings.Contains(notes[0], "golem asks again") {
			t.Errorf("%s: got %v after %q, with the notes %q; want %q", test.message, err, asked, notes, test.want)
		}
		complain = false
		if err := ask(); err != nil || asked[2] != test.want && !strings.Contains(test.message, "context") {
			t.Errorf("%s: later it asked %q: %v", test.message, asked, err)
		}
		s.Close()
	}
}

// describe says how a request differs from the one that the user wanted.
func describe(want, got model.Request, refuses Refuses) string {
	var list []string
	note := func(ok bool, format string, args ...any) {
		if ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	note(got.MaxTokens != want.MaxTokens, "max %d", got.MaxTokens)
	note(refuses.OtherMax, "other max")
	note(want.Temperature != nil && got.Temperature == nil, "no temperature")
	note(want.Effort != "" && got.Effort == "", "no effort")
	note(want.Thoughts && !got.Thoughts, "no thoughts")
	note(len(want.Schema) > 0 && len(got.Schema) == 0, "no schema")
	note(refuses.Proofs && !hasProofs(got.Messages), "no proofs")
	if len(list) > 0 {
		note(got.Effort != "", "effort %s", got.Effort)
	}
	return strings.Join(list, ", ")
}

// TestAdjustEnds: a server that complains about everything does not keep golem busy.
func TestAdjustEnds(t *testing.T) {
	c := client(t, "https://host.example/")
	asked := 0
	_, err := c.Adjust(model.Request{MaxTokens: 1 << 40}, nil, func(r model.Request, _ Refuses) (model.Answer, error) {
		asked++
		return model.Answer{}, c.class(400, complaint{Message: "max_tokens is too large"})
	})
	if err == nil || asked > 10 {
		t.Errorf("got %v after %d questions", err, asked)
	}
}

// TestAdjustRemembers checks that golem asks a growing conversation for answers that fit,
// without another refusal, and that a smaller conversation has its whole room.
func TestAdjustRemembers(t *testing.T) {
	const window = 12_000
	talk := func(bytes int) model.Request {
		return model.Request{MaxTokens: 8000, Messages: []model.Message{{Role: model.User, Parts: []model.Part{{Text: strings.Repeat("word", bytes/4)}}}}}
	}
	for name, complain := range map[string]func(input, most int64) string{
		"a window": func(input, most int64) string {
			return fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion).", window, input+most, input, most)
		},
		"a sum": func(input, most int64) string {
			return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again", input, most, window)
		},
		"no number": func(_, _ int64) string { return "max_tokens does not fit into the context window" },
	} {
		c := NewClient(Server{Model: "m", Base: &url.URL{Scheme: "http", Host: "h"}})
		refused := 0
		ask := func(r model.Request) (got int64) {
			t.Helper()
			if _, err := c.Adjust(r, nil, func(r model.Request, _ Refuses) (model.Answer, error) {
				input := int64(len(r.Messages[0].Parts[0].Text) / 4)
				if got = r.MaxTokens; input+r.MaxTokens > window {
					refused++
					return model.Answer{}, &model.Error{Class: model.Bad, What: "h answers 400: " + complain(input, r.MaxTokens)}
				}
				return model.Answer{}, nil
			}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return got
		}
		ask(talk(24_000))
		first := refused
		for more := 24_400; name != "no number" && more < 30_000; more += 400 {
			ask(talk(more))
		}
		ask(talk(24_400))
		if first == 0 || refused != first {
			t.Errorf("%s: %d refusals, and later %d", name, first, refused-first)
		}
		if got := ask(talk(4000)); got != 8000 {
			t.Errorf("%s: a small conversation may have %d tokens, want 8000", name, got)
		}
	}
}
