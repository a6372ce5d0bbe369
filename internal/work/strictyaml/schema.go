package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Type is the type that a value must have.
type Type string

// The types of values.
const (
	Text   Type = "text"
	Bool   Type = "true or false"
	Whole  Type = "whole number" // not below zero
	Count  Type = "bytes"        // a whole number, or 10MB, 512KiB
	Money  Type = "number"       // not below zero
	Span   Type = "time"         // 30s, 5m, or seconds
	Word   Type = "word"         // one of Words
	Texts  Type = "list of texts"
	Group  Type = "map"       // of Keys
	Groups Type = "list"      // of maps of Keys
	Named  Type = "named map" // from names to maps of Keys
	Free   Type = "anything"  // a schema of its own, checked elsewhere
)

// A Key describes an allowed key of a map and its value.
type Key struct {
	Name    string
	Type    Type
	Words   []string // the words of a Word, or words that are accepted in addition to the type
	Default string   // as it would be written; "" for none
	Doc     string   // a sentence
	Example string   // as it would be written
	Keys    []Key    // of a Group, Groups or Named
	Or      []Key    // other types that are taken; their names do not matter
	Empty   bool     // an empty list, map or nothing at all has a meaning here
	Short   string   // an item of Groups may be a text instead, which is the value of this key

	// Valid returns what is wrong with a single value of the right form, or with an item of
	// Texts, and what to write instead; "" if nothing is wrong. See CheckAll.
	Valid func(Node) (what, hint string)

	// Instead lists keys of other tools that are not valid in a Group, Groups or Named,
	// each with a hint about what to write instead.
	Instead map[string]string
}

// Check checks the form of a node against the key, down to the leaves. It adds all problems
// until there are too many.
func (k Key) Check(n Node, problems *Problems) { checker{problems: problems}.check(k, n) }

// CheckAll is like Check, and also checks the values by Valid.
func (k Key) CheckAll(n Node, problems *Problems) {
	checker{problems: problems, values: true}.check(k, n)
}

// A checker checks nodes against keys.
type checker struct {
	problems *Problems
	values   bool // also check the values by Valid
}

func (c checker) check(k Key, n Node) {
	if c.problems.Full() {
		return
	}
	if k.fits(n) {
		c.checkInside(k, n)
		return
	}
	for _, or := range k.Or {
		if or.fits(n) {
			or.Name = k.Name
			c.checkInside(or, n)
			return
		}
	}
	k.addWrong(n, c.problems)
}

// checkValue checks a single value, or an item of Texts, by Valid.
func (c checker) checkValue(k Key, n Node) {
	if !c.values || k.Valid == nil || n.Kind != Scalar {
		return
	}
	if what, hint := k.Valid(n); what != "" {
		c.problems.Add(n, k.Name+": "+what, hint)
	}
}

// fits reports whether the node has the kind and form that the type needs.
func (k Key) fits(n Node) bool {
	if n.Kind == Null {
		return k.Empty
	}
	switch k.Type {
	case Group, Named:
		return n.Kind == Map
	case Groups, Texts:
		return n.Kind == List
	case Free:
		return true
	case Text:
		return n.Kind == Scalar
	}
	return n.Kind == Scalar && k.canRead(n)
}

// canRead reports whether a scalar can be parsed as the type of the key.
func (k Key) canRead(n Node) bool {
	if slices.Contains(k.Words, n.Text) {
		return true
	}
	var err error
	switch k.Type {
	case Bool:
		return !n.Quoted && (n.Text == "true" || n.Text == "false")
	case Whole:
		_, err = n.Int()
	case Count:
		_, err = n.Bytes()
	case Money:
		_, err = n.Number()
	case Span:
		_, err = n.Duration()
	case Word:
		return false
	}
	return err == nil
}

func (k Key) addWrong(n Node, problems *Problems) {
	got := n.Kind.String()
	if n.Kind == Scalar {
		got = sandbox.Shown(n.Text)
		if n.Quoted {
			got = quoted(n.Text)
		}
	}
	if k.Name != "" {
		got = k.Name + ": " + got
	}
	hint := "it is " + k.describe()
	for _, or := range k.Or {
		hint += ", or " + or.describe()
	}
	if bare := (Node{Kind: n.Kind, Text: n.Text}); n.Quoted && k.fits(bare) {
		hint += "; write it without quotes"
	} else if n.Kind == Scalar {
		word := k.suggestWord(n.Text)
		for i := 0; word == "" && i < len(k.Or); i++ {
			word = k.Or[i].suggestWord(n.Text)
		}
		hint += word
	}
	if isMap := k.Type == Group || k.Type == Groups || k.Type == Named; isMap && k.Example != "" && (n.Kind == List || n.Kind == Map) {
		hint += "; write " + k.Name[strings.LastIndexByte(k.Name, '.')+1:] + ": " + k.Example
	}
	problems.Add(n, got, hint)
}

// suggestWord suggests the word that somebody meant. For a switch it goes by the meaning
// only, because no is spelled like on.
func (k Key) suggestWord(text string) string {
	const phrase = "; did you mean %s?"
	if k.Type == Bool {
		for _, list := range switchWords() {
			if !slices.Contains(list, strings.ToLower(text)) {
				continue
			}
			if slices.Contains(k.Words, list[1]) {
				return fmt.Sprintf(phrase, list[1])
			}
			return fmt.Sprintf(phrase, list[0])
		}
		if slices.Contains(k.Words, "off") {
			return ""
		}
	}
	return suggest(text, k.Words, phrase)
}

// switchWords returns words that mean false, and words that mean true.
func switchWords() [2][]string {
	return [2][]string{
		{"false", "off", "no", "none", "never", "disabled"},
		{"true", "on", "yes", "always", "enabled"},
	}
}

// suggest returns the phrase with the most similar word, or "" if no word is similar.
func suggest(word string, among []string, phrase string) string {
	const most = 64 // bytes; a longer text is similar to no word
	if len(word) > most {
		return ""
	}
	if words := sandbox.Nearest(word, among); len(words) > 0 {
		return fmt.Sprintf(phrase, words[0])
	}
	return ""
}

// quoted returns a text in printable form, in quotes.
func quoted(text string) string {
	if shown := sandbox.Shown(text); strings.HasPrefix(shown, `"`) {
		return shown
	}
	return `"` + sandbox.Shown(text) + `"`
}

// phrases describe the values of each type.
var phrases = map[Type]string{
	Text: "a text", Whole: "a whole number", Money: "a number", Texts: "a list of texts",
	Count: "a number of bytes, such as 10000000, 10MB or 512KiB", Span: "a time, such as 30s, 5m or a number of seconds",
	Group: "a map", Groups: "a list of maps", Named: "a map of names", Free: "a value of any kind",
}

// describe describes the values that the key allows.
func (k Key) describe() string {
	phrase := cmp.Or(phrases[k.Type], string(k.Type))
	switch {
	case k.Type == Word:
		return OneOf(k.Words)
	case len(k.Words) > 0:
		return strings.Join(k.Words, ", ") + ", " + phrase
	}
	return phrase
}

// OneOf lists words to choose from: a, b or c. It uses no bar, which golem escapes at the
// start of a terminal's line.
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// checkInside checks a node of the right form, and everything in it.
func (c checker) checkInside(k Key, n Node) {
	problems := c.problems
	switch k.Type {
	case Texts:
		if len(n.Items) == 0 && !k.Empty {
			problems.Add(n, k.Name+": an empty list", "leave the key out, or name something")
		}
		for _, item := range n.Items {
			if item.Kind != Scalar {
				problems.Add(item, k.Name+": "+item.Kind.String()+" in the list", "it is "+phrases[Texts])
			}
			c.checkValue(k, item)
		}
	case Group:
		c.checkGroup(k, n)
	case Groups:
		if len(n.Items) == 0 && !k.Empty {
			problems.Add(n, k.Name+": an empty list", "leave the key out, or name something")
		}
		for _, item := range n.Items {
			if item.Kind == Scalar && k.Short != "" {
				continue
			}
			if item.Kind != Map {
				problems.Add(item, k.Name+": "+item.Kind.String()+" in the list", "each is "+k.describeItem())
				continue
			}
			c.checkGroup(k, item)
		}
	case Named:
		if len(n.Fields) == 0 && !k.Empty {
			problems.Add(n, k.Name+": an empty map", "leave the key out, or name something")
		}
		for _, f := range n.Fields {
			if hint, ok := k.Instead[f.Key.Text]; ok && f.Value.Kind != Map {
				k.addInstead(f, hint, problems)
				continue
			}
			each := Key{Name: k.Name + "." + sandbox.Shown(f.Key.Text), Type: Group, Keys: k.Keys, Empty: true, Instead: k.Instead}
			c.check(each, f.Value)
		}
	default:
		c.checkValue(k, n)
	}
}

// describeItem describes an item of Groups.
func (k Key) describeItem() string {
	if k.Short != "" {
		return "a text, which is the " + k.Short + ", or a map of " + names(k.Keys)
	}
	return "a map of " + names(k.Keys)
}

// checkGroup checks that each key of a map is known and has a valid value.
func (c checker) checkGroup(k Key, n Node) {
	problems := c.problems
	known := make([]string, len(k.Keys))
	for i, key := range k.Keys {
		known[i] = key.Name
	}
	for _, f := range n.Fields {
		if problems.Full() {
			return // looking for a similar name takes time too
		}
		i := slices.Index(known, f.Key.Text)
		if i < 0 {
			if hint, ok := k.Instead[f.Key.Text]; ok {
				k.addInstead(f, hint, problems)
				continue
			}
			hint := suggest(f.Key.Text, known, "did you mean %s? ") + "known here: " + strings.Join(known, ", ")
			if len(known) == 0 {
				hint = "no key is allowed here"
			}
			where := ""
			if k.Name != "" {
				where = " in " + k.Name
			}
			problems.Add(f.Key, "unknown key "+quoted(f.Key.Text)+where, hint)
			continue
		}
		c.check(k.Keys[i].withPrefix(k.Name), f.Value)
	}
}

// addInstead reports a key of another tool, with what to write instead.
func (k Key) addInstead(f Field, hint string, problems *Problems) {
	where := ""
	if k.Name != "" {
		where = " in " + k.Name
	}
	problems.Add(f.Key, "unknown key "+quoted(f.Key.Text)+where, hint)
}

// withPrefix returns the key with its full name, which starts with the name of the outer key.
func (k Key) withPrefix(name string) Key {
	if name != "" {
		k.Name = name + "." + k.Name
	}
	return k
}

func names(keys []Key) string {
	var list []string
	for _, k := range keys {
		list = append(list, k.Name)
	}
	return strings.Join(list, ", ")
}

// Bool reports whether a node that passed the check is true.
func (n Node) Bool() bool { return n.Kind == Scalar && n.Text == "true" }
