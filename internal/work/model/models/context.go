package models

import "strings"

// contexts are the numbers of tokens that models take, by the start of their names. The
// first match counts.
var contexts = []struct {
	name   string
	tokens int64
}{
	{claudeName + ":", 200_000},
	{"gemini:", 1_000_000},
	{"openai:gpt-4.1", 1_000_000},
	{"openai:gpt-5", 272_000}, // without the answer
	{"openai:o", 200_000},
	{"openai:", 128_000},
}

// Context returns how many tokens a model of a vendor takes, 0 if that is not known.
func Context(spec string) int64 {
	for _, c := range contexts {
		if strings.HasPrefix(spec, c.name) {
			return c.tokens
		}
	}
	return 0
}
