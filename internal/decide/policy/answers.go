package policy

import "cmp"

// Answers says how a model answers. The zero value of a field leaves it to the vendor.
type Answers struct {
	Effort       string   // none, low, medium or high: how much it thinks before
	Temperature  *float64 // how much chance is in an answer
	MaxTokens    int64    // of one answer
	ShowThinking *bool    // whether the user sees its thoughts
}

// The limits of the numbers in Answers.
const (
	MaxTemperature  = 2
	MinAnswerTokens = 256 // less is of no use
)

// Efforts returns the words for an effort.
func Efforts() []string { return []string{"none", "low", "medium", "high"} }

// Or returns a, with fields of b where a has none.
func (a Answers) Or(b Answers) Answers {
	a.Effort, a.MaxTokens = cmp.Or(a.Effort, b.Effort), cmp.Or(a.MaxTokens, b.MaxTokens)
	a.Temperature, a.ShowThinking = cmp.Or(a.Temperature, b.Temperature), cmp.Or(a.ShowThinking, b.ShowThinking)
	return a
}
