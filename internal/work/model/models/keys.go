package models

import "cmp"

// A KeySource says where golem looks for the key of a vendor.
type KeySource struct {
	Vendor    string   // also the name of the secret that golem secret set stores
	Variables []string // environment variables, the first one that is set counts
	Example   string   // a model of the vendor, as the user writes it
}

// examples are models to suggest to a user who names none.
var examples = map[string]string{
	claudeName:   "claude-sonnet-4-5",
	"openai":     "gpt-5-mini",
	"openrouter": "qwen/qwen3-coder",
	"gemini":     "gemini-2.5-flash",
	ollamaName:   "qwen3",
}

// KeySources returns where golem looks for keys, in the order of the vendors.
func KeySources() []KeySource {
	var list []KeySource
	for _, v := range vendors {
		if len(v.keys) > 0 {
			list = append(list, KeySource{v.name, v.keys, v.name + ":" + cmp.Or(examples[v.name], "NAME")})
		}
	}
	return list
}
