package prices

import (
	"math"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
)

func TestCost(t *testing.T) {
	million := model.Usage{Input: 1e6, Output: 1e6, CacheRead: 1e6, CacheWrite: 1e6}
	for _, test := range []struct {
		name  string
		want  float64
		known bool
	}{
		{"anthropic:claude-sonnet-4-5", 22.05, true},
		{"anthropic:claude-sonnet-4-5-20250929", 22.05, true},
		{"openai:gpt-5-mini-2025-08-07", 2.275, true},
		{"openai:gpt-5-mini-turbo", 0, false},
		{"openrouter:anthropic/claude-sonnet-4-5", 0, false},
		{"claude-sonnet-4-5", 0, false},
		{"gemini:gemini-2.5-pro", 2*1.25 + 1.5*10 + 2*0.125, true}, // a long request costs more
		{"gemini:gemini-2.5-flash", 2.83, true},
		{"mistral:mistral-large-latest", 0, false},
		{"mistral:magistral-medium-latest", 9, true},
		{"ollama:qwen3", 0, true}, {"scripted:a.yaml", 0, true}, {"replay:a", 0, true},
	} {
		if got, known := Cost(test.name, million); known != test.known || math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: got %v, %v, want %v, %v", test.name, got, known, test.want, test.known)
		}
	}
}

// TestCharged: what the server charges counts, also for a model without a price.
func TestCharged(t *testing.T) {
	for _, name := range []string{"openrouter:anthropic/claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"} {
		if got, known := Cost(name, model.Usage{Input: 10, Output: 5, Charged: 950}); !known || got != 0.00095 {
			t.Errorf("%s: got %v, %v", name, got, known)
		}
	}
	if got, known := Cost("ollama:qwen3", model.Usage{Charged: 950}); !known || got != 0 {
		t.Errorf("a model on this machine: got %v, %v", got, known)
	}
}

// TestTable: tokens from a cache never cost more than others.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range table {
		if seen[p.name] || len(p.date) != len("2026-10") || p.input <= 0 || p.output < p.input || p.cached > p.input || p.written != 0 && p.written < p.input {
			t.Errorf("%+v", p)
		}
		seen[p.name] = true
	}
}
