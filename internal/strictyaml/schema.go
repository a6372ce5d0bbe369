package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Type is what a value must be.
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

// A Key describes a value that may stand in a map.
type Key struct {
	Name    string
	Type    Type
	Words   []string // of a Word, or words that are taken beside the type
	Default string   // as it would be written; "" for none
	Doc     string   // a sentence
	Example string   // as it would be written
	Keys    []Key    // of a Group, Groups or Named
	Or      []Key    // other types that are taken; their names do not matter
	Empty   bool     // an empty list, map or nothing at all has a meaning here

	// Instead are keys of other tools that are not taken in a Group, Groups or Named,
	// each with what to write instead.
	Instead map[string]string
}

// Check holds a node against what the key describes and notes all that is
// wrong, down to the leaves, until there are too many problems.
func (k Key) Check(n Node, problems *Problems) {
	if problems.Full() {
		return
	}
	if k.fits(n) {
		k.check(n, problems)
		return
	}
	for _, or := range k.Or {
		if or.fits(n) {
			or.Name = k.Name
			or.check(n, problems)
			return
		}
	}
	k.wrong(n, problems)
}

// fits reports whether the node has the form of the key's type.
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
	return n.Kind == Scalar && k.reads(n)
}

// reads reports whether a scalar can be read as the key's type.
func (k Key) reads(n Node) bool {
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

func (k Key) wrong(n Node, problems *Problems) {
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
	hint := "it is " + k.allowed()
	for _, or := range k.Or {
		hint += ", or " + or.allowed()
	}
	if bare := (Node{Kind: n.Kind, Text: n.Text}); n.Quoted && k.fits(bare) {
		hint += "; write it without quotes"
	} else if n.Kind == Scalar {
		hint += near(n.Text, k.Words, "; did you mean %s?")
	}
	problems.Add(n, got, hint)
}

// near returns a phrase with the word most like the given one, "" where none is.
func near(word string, among []string, phrase string) string {
	const most = 64 // of a word in bytes; a text is like no word
	if len(word) > most {
		return ""
	}
	if words := sandbox.Nearest(word, among); len(words) > 0 {
		return fmt.Sprintf(phrase, words[0])
	}
	return ""
}

// quoted returns a text as it may be printed, in quotes.
func quoted(text string) string {
	if shown := sandbox.Shown(text); strings.HasPrefix(shown, `"`) {
		return shown
	}
	return `"` + sandbox.Shown(text) + `"`
}

// phrases say what a value of a type is, and how it is written.
var phrases = map[Type]string{
	Text: "a text", Whole: "a whole number", Money: "a number", Texts: "a list of texts",
	Count: "a number of bytes, such as 10000000, 10MB or 512KiB", Span: "a time, such as 30s, 5m or a number of seconds",
	Group: "a map", Groups: "a list of maps", Named: "a map of names", Free: "a value of any kind",
}

// allowed says what the key takes.
func (k Key) allowed() string {
	phrase := cmp.Or(phrases[k.Type], string(k.Type))
	switch {
	case k.Type == Word:
		return strings.Join(k.Words, " | ")
	case len(k.Words) > 0:
		return strings.Join(k.Words, " | ") + " | " + phrase
	}
	return phrase
}

func (k Key) check(n Node, problems *Problems) {
	switch k.Type {
	case Texts:
		if len(n.Items) == 0 && !k.Empty {
			problems.Add(n, k.Name+": an empty list", "leave the key out, or name something")
		}
		for _, item := range n.Items {
			if item.Kind != Scalar {
				problems.Add(item, k.Name+": "+item.Kind.String()+" in the list", "it is "+phrases[Texts])
			}
		}
	case Group:
		k.checkGroup(n, problems)
	case Groups:
		if len(n.Items) == 0 && !k.Empty {
			problems.Add(n, k.Name+": an empty list", "leave the key out, or name something")
		}
		for _, item := range n.Items {
			if item.Kind != Map {
				problems.Add(item, k.Name+": "+item.Kind.String()+" in the list", "each is a map of "+names(k.Keys))
				continue
			}
			k.checkGroup(item, problems)
		}
	case Named:
		if len(n.Fields) == 0 && !k.Empty {
			problems.Add(n, k.Name+": an empty map", "leave the key out, or name something")
		}
		for _, f := range n.Fields {
			if hint, ok := k.Instead[f.Key.Text]; ok && f.Value.Kind != Map {
				k.notTaken(f, hint, problems)
				continue
			}
			each := Key{Name: k.Name + "." + sandbox.Shown(f.Key.Text), Type: Group, Keys: k.Keys, Empty: true}
			each.Check(f.Value, problems)
		}
	}
}

// checkGroup checks the keys of a map: those it has must be known and fit.
func (k Key) checkGroup(n Node, problems *Problems) {
	known := make([]string, len(k.Keys))
	for i, key := range k.Keys {
		known[i] = key.Name
	}
	for _, f := range n.Fields {
		if problems.Full() {
			return // even to look for a name that is near takes time
		}
		i := slices.Index(known, f.Key.Text)
		if i < 0 {
			if hint, ok := k.Instead[f.Key.Text]; ok {
				k.notTaken(f, hint, problems)
				continue
			}
			hint := near(f.Key.Text, known, "did you mean %s? ") + "known here: " + strings.Join(known, ", ")
			if len(known) == 0 {
				hint = "nothing is known here"
			}
			where := ""
			if k.Name != "" {
				where = " in " + k.Name
			}
			problems.Add(f.Key, "unknown key "+quoted(f.Key.Text)+where, hint)
			continue
		}
		k.Keys[i].under(k.Name).Check(f.Value, problems)
	}
}

// notTaken notes a key of another tool, with what to write instead.
func (k Key) notTaken(f Field, hint string, problems *Problems) {
	where := ""
	if k.Name != "" {
		where = " in " + k.Name
	}
	problems.Add(f.Key, "unknown key "+quoted(f.Key.Text)+where, hint)
}

// under returns the key with the whole of its name.
func (k Key) under(name string) Key {
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

// Bool returns whether a checked node is true.
func (n Node) Bool() bool { return n.Kind == Scalar && n.Text == "true" }
