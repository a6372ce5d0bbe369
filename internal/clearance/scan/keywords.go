package scan

// keywords finds words in one pass. It looks up two letters at a time in a table, and
// compares only where a word begins with them. All words are in lower case. The text may
// have any case.
type keywords struct {
	words  []string
	starts [1 << 16]uint16 // by two letters: 1 + the group
	groups [][]int
}

func newKeywords(words []string) *keywords {
	k := &keywords{words: words}
	for i, w := range words {
		pair := int(w[0])<<8 | int(w[1])
		if k.starts[pair] == 0 {
			k.groups = append(k.groups, nil)
			k.starts[pair] = uint16(len(k.groups))
		}
		g := k.starts[pair] - 1
		k.groups[g] = append(k.groups[g], i)
	}
	return k
}

// find calls at for every occurrence of every word, until it returns false.
func (k *keywords) find(text []byte, at func(word, offset int) bool) {
	if len(text) == 0 {
		return
	}
	last := lower[text[0]]
	for i := 1; i < len(text); i++ {
		c := lower[text[i]]
		if g := k.starts[int(last)<<8|int(c)]; g != 0 {
			for _, w := range k.groups[g-1] {
				if same(text[i-1:], k.words[w]) && !at(w, i-1) {
					return
				}
			}
		}
		last = c
	}
}

// same reports whether a text begins with a word, in any case.
func same(text []byte, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := 2; i < len(word); i++ {
		if lower[text[i]] != word[i] {
			return false
		}
	}
	return true
}

var lower = func() (table [256]byte) {
	for c := range 256 {
		table[c] = byte(c)
		if c >= 'A' && c <= 'Z' {
			table[c] += 'a' - 'A'
		}
	}
	return table
}()
