// Package naming has the rules for the names of sessions: which names the user may give, how
// golem makes one, and which session a word means.
package naming

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// New as the name of a session asks for a new one, and Last for the one used last. No session
// has these names.
const (
	New  = "new"
	Last = "last"
)

// Mark begins a word that names a session where a bare word is a path: @fix-login.
const Mark = "@"

const (
	shortest = 2
	longest  = 40
	maxFrom  = 20 // characters of a name that golem makes, without the word
)

// plain is the form of every name. No flag, path or text that a terminal shows in another way
// has it.
var plain = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// IsValid reports whether a session may have a name.
func IsValid(name string) bool {
	return len(name) >= shortest && len(name) <= longest && plain.MatchString(name) && strings.ContainsFunc(name, func(r rune) bool { return r >= 'a' }) && name != New && name != Last
}

// Check returns the error of a name that the user gave and that no session may have.
func Check(name string) error {
	if IsValid(name) {
		return nil
	}
	e := &sandbox.Error{Op: "--name", Path: name, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("a name has %d to %d characters: a to z, 0 to 9, single hyphens between them, and at least one letter", shortest, longest)}
	if name == New || name == Last {
		e.Hint = "--session " + name + " means something else; give another name"
	} else if near := clean(name, longest); IsValid(near) {
		e.Hint += "; for example " + near
	}
	return e
}

// Taken returns the error of a name that another session has.
func Taken(name string) error {
	return &sandbox.Error{Op: "--name", Path: name, Code: sandbox.ErrExists, Hint: "a session has this name already; --session " + name + " continues in it, golem sessions rm " + name + " removes it"}
}

// clean returns a text as the part of a name: at most so many characters, in lower case, and
// one hyphen in place of all others.
func clean(text string, most int) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') })
	text = strings.Join(words, "-")
	return strings.Trim(text[:min(most, len(text))], "-")
}

// Make returns a name for a new session from the program or worker that it is for, and a word:
// claude-otter. isTaken reports whether a word is the id or the name of a session already. A
// program that is called like one gives its name to no other.
func Make(from string, isTaken func(string) bool) string {
	from = clean(strings.TrimSuffix(path.Base(strings.ReplaceAll(from, `\`, "/")), ".exe"), maxFrom)
	if from == "" || isTaken(from) {
		from = "session"
	}
	words := strings.Fields(words)
	start := 0
	if n, err := rand.Int(rand.Reader, big.NewInt(int64(len(words)))); err == nil {
		start = int(n.Int64())
	}
	for round := 1; ; round++ {
		for i := range words {
			name := from + "-" + words[(start+i)%len(words)]
			if round > 1 {
				name += "-" + strconv.Itoa(round)
			}
			if !isTaken(name) {
				return name
			}
		}
	}
}

// words are the words of names. They are short, easy to say and to tell apart, and harmless.
const words = `
acorn alder amber apple apron arrow aspen badge bagel basil beach bench berry birch
bison bloom brass bread brick brook brush cabin camel candle canoe cedar cello cherry
chess clover cloud cocoa comet coral crane creek crown daisy dune eagle easel ember
fern ferry field finch flint flute forest fox frost garden ginger glade globe grape
grove guitar harbor hazel heron hill honey iris island ivory jade jasper kayak kettle
kite lake lantern larch laurel lemon lily linen lotus lynx mango maple marble meadow
melon mint moon moss nectar oak oasis olive onion opal orbit orchid otter owl paddle
panda peach pearl pebble pepper piano pine planet plum pond poppy prairie puffin quartz
quill rabbit rain raven reed river robin rose saffron sage sail salmon satin seal
shell shore silk sparrow spruce star stone straw sugar summit sunny swan tango teal
thistle thyme tiger topaz trout tulip tundra velvet violet walnut water willow winter
wren yarrow zebra zinnia`

// Named is something with an id and a name, which may be "".
type Named interface{ Names() (id, name string) }

// Find returns the one of a list that a word means: the one with this id, the one with this
// name, or the only one whose id begins so. An id comes first, so no name ever hides one. The
// list has the one used last first, and Last means that one.
func Find[N Named](list []N, word string) (found N, err error) {
	word = strings.TrimPrefix(word, Mark)
	if word == Last && len(list) > 0 {
		return list[0], nil
	}
	var named, begun []N
	for _, one := range list {
		id, name := one.Names()
		switch {
		case word == "": // the beginning of every id, for example of an empty variable
		case id == word:
			return one, nil
		case name == word:
			named = append(named, one)
		case strings.HasPrefix(id, word):
			begun = append(begun, one)
		}
	}
	fits := named
	if len(named) == 0 {
		fits = begun
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	e := &sandbox.Error{Op: "session", Path: word, Code: sandbox.ErrNotFound, Hint: whyNone(list, word, fits)}
	if word == "" || len(fits) > 1 {
		e.Code = "invalid_args"
	}
	return found, e
}

// whyNone says why a word means none of a list. fits are those that it may mean.
func whyNone[N Named](list []N, word string, fits []N) string {
	switch {
	case word == "":
		return "an empty word names no session; golem sessions lists them, " + Last + " is the session that was used last"
	case len(list) == 0:
		return "there are no sessions here; golem exec CMD starts one, golem status --all lists those elsewhere"
	case len(fits) > 0:
		ids := visible.Each(fits, func(one N) string { id, _ := one.Names(); return id })
		if _, name := fits[0].Names(); name == word {
			return strconv.Itoa(len(fits)) + " sessions have this name; use an id: " + Some(ids)
		}
		return strconv.Itoa(len(fits)) + " sessions begin like this; type more of the id: " + Some(ids)
	}
	labels := visible.Each(list, Label)
	hint := "sessions here: " + Some(labels) + "; golem sessions describes them"
	if near := sandbox.Nearest(word, labels); len(near) > 0 && !slices.Contains(labels[:min(len(labels), most)], near[0]) {
		hint = "did you mean " + near[0] + "? " + hint
	}
	return hint
}

// Label returns the word by which to name one: its name, or its id if it has none.
func Label[N Named](one N) string {
	id, name := one.Names()
	if name != "" {
		return name
	}
	return id
}

// most is how many names a message lists.
const most = 20

// Some returns the first names of a list.
func Some(names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and more"
}
