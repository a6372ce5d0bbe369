package sandbox

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// hint returns the hint for an operation that failed with code at name.
func (s *Sandbox) hint(req request, name string, code Code) string {
	switch code {
	case ErrNotFound:
		if req.noSuggestions {
			return ""
		}
		if strings.Contains(name, `"`) {
			return "write a name that was printed in quotes without them, and replace its escapes by the characters"
		}
		// If nothing can be written here, similar names do not help.
		if req.access < ReadWrite || s.lookup(name).mount != nil {
			if near := s.nearest(name); near != "" {
				return near
			}
		}
		return s.allowed(req.access)
	case ErrReadOnly, ErrOutside:
		return s.allowed(req.access)
	case ErrExists:
		return "it is not overwritten; choose another name or delete it first"
	case ErrIsDir:
		return "it is a directory; list it, or name a file in it"
	case ErrNotDir:
		return "the path needs a directory where there is a file"
	case ErrNotRegular:
		return "only regular files and directories can be used"
	case ErrNotEmpty:
		return "the directory is not empty; delete its files first, or delete all at once"
	case ErrConflict:
		return "it has changed since it was read; read it again"
	case ErrInternal:
		return "the host failed"
	}
	return ""
}

// nearest returns a hint with names similar to one that was not found. It looks in the
// nearest directory above it that exists, and returns "" if that directory is hidden.
func (s *Sandbox) nearest(name string) string {
	const most = 2000
	if name == "/" || !s.isVisible(parent(name)) {
		return ""
	}
	dir, missing := parent(name), path.Base(name)
	entries, err := s.entries(dir)
	for err != nil {
		if dir == "/" || !s.isVisible(parent(dir)) {
			return ""
		}
		missing = path.Base(dir)
		dir = parent(dir)
		entries, err = s.entries(dir)
	}
	if len(entries) > most {
		entries = entries[:most]
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	near := Nearest(missing, names)
	if len(near) == 0 {
		return "list " + brief(dir) + " to see what is there"
	}
	for i, name := range near {
		near[i] = join(dir, name)
	}
	return "there is " + joinNames(near)
}

// Nearest returns the words most similar to the given one, the most similar first. It
// returns at most three, and none if no word is similar. Hints of errors use it.
func Nearest(word string, among []string) []string {
	const most = 3
	type candidate struct {
		word string
		far  int
	}
	var near []candidate
	for _, w := range among {
		if far := distance(strings.ToLower(word), strings.ToLower(w)); far <= max(1, (len(word)+2)/3) {
			near = append(near, candidate{w, far})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int {
		return cmp.Or(a.far-b.far, commonPrefix(word, b.word)-commonPrefix(word, a.word))
	})
	var words []string
	for _, c := range near[:min(most, len(near))] {
		words = append(words, c.word)
	}
	return words
}

// commonPrefix returns how many bytes at the start of both words are equal.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// distance counts the edits from a to b. An edit inserts, deletes or replaces a byte, or
// swaps two neighbours. For long words it returns the sum of both lengths.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return len(a) + len(b)
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := above[j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			row[j] = min(cost, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
