package scan

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// secrets finds keys, tokens and passwords by the rules of gitleaks and our own. No
// marker in the content (gitleaks:allow) and no file next to it (.gitleaks.toml) allows a
// secret.
type secrets struct{}

func (secrets) Name() string    { return secretsName }
func (secrets) Version() string { return "6 " + rulesVersion() }

func (secrets) Scan(ctx context.Context, c Content) ([]Finding, error) {
	data, err := c.bytes()
	if err != nil {
		return nil, err
	}
	found, err := search(ctx, c.tries, c.Path, data)
	if c.text || err != nil {
		return found, err // decoded data has no name of its own
	}
	for _, r := range book().named {
		if r.path().MatchString(c.Path) {
			found = append(found, Finding{Hold: true, What: r.ID + ", by its name"})
		}
	}
	inName, err := searchName(ctx, c.tries, c.Path)
	for _, f := range inName {
		found = append(found, Finding{Hold: true, What: f.What + ", in its name"})
	}
	return found, err
}

// searchName finds the secrets of a name or message, also in another form.
func searchName(ctx context.Context, n *tries, text string) (found []Finding, err error) {
	for _, plain := range readings(text) {
		more, err := search(ctx, n, "", plain)
		if found = append(found, more...); err != nil {
			return found, err
		}
	}
	return found, nil
}

// readings returns a short text, and what a reader may get from it: the forms of it, and theirs.
func readings(text string) [][]byte {
	all := [][]byte{[]byte(text)}
	for from, depth := 0, 0; depth < 2; depth++ {
		level := all[from:]
		from = len(all)
		for _, data := range level {
			for _, f := range textForms {
				if plain := f.plain(data); plain != nil {
					all = append(all, plain)
				}
			}
		}
	}
	return all
}

// Message finds secrets in a text that is not a file, such as a commit message.
func Message(ctx context.Context, text string) []Finding {
	found, err := searchName(ctx, nil, text)
	if err != nil {
		found = append(found, cannot(secretsName, cmp.Or(ended(ctx), err)))
	}
	for i := range found {
		found[i].Scanner = secretsName
	}
	return found
}

// enough limits how many secrets of one text are collected.
const enough = 10_000

// A hit is a secret that was found.
type hit struct {
	rule     *rule
	from, to int // position of the secret
}

// A tries counts how often regular expressions were tried in a content and everything
// inside of it. A try takes microseconds, and a hostile file has a place for one at every
// fifth byte. Ordinary files have fewer than one in forty bytes.
type tries struct {
	used, allowed int
}

// How many tries a content has: a fixed number, and one more for each bytesATry bytes.
const (
	fewTries   = 20_000
	bytesATry  = 48
	triesAPart = 50 // weight of a try in a whole piece of text instead of one position
)

// ShownName returns the name of a file for a person: without the secrets in it. If another form
// of the name has one, it returns that form.
func ShownName(name string) string {
	ctx := context.Background()
	var hits []hit
	for _, plain := range readings(name) {
		if hits, _ = findHits(ctx, nil, "", plain); len(hits) > 0 {
			name = string(plain)
			break
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return b.from - a.from })
	const kept = 4 // enough to find the file
	end := len(name)
	for _, h := range hits {
		if to := min(h.to, end); h.from+kept < to {
			name, end = name[:h.from+kept]+"…"+name[to:], h.from
		}
	}
	return name
}

// search finds the secrets of a text. It adds its tries to n. A nil n counts only this
// text.
func search(ctx context.Context, n *tries, path string, data []byte) ([]Finding, error) {
	hits, err := findHits(ctx, n, path, data)
	return told(data, hits), err
}

func findHits(ctx context.Context, n *tries, path string, data []byte) ([]hit, error) {
	if n == nil {
		n = &tries{}
	}
	n.allowed = max(n.allowed, fewTries) + len(data)/bytesATry
	t := &trial{rulebook: book(), path: path, data: data, skip: map[*rule]bool{}, tried: map[*rule]int{}, tries: n}
	words := 0
	var err error
	t.keywords.find(data, func(word, at int) bool {
		// One position is cheap, but there may be many.
		if words++; words%256 == 0 {
			err = ctx.Err()
		}
		for _, r := range t.by[word] {
			t.try(r, at)
		}
		if err == nil && n.used > n.allowed {
			err = limitError(fmt.Sprintf("more than %d places in it look like the start of a secret", n.allowed))
		}
		return err == nil && len(t.hits) < enough
	})
	return t.hits, err
}

// generic reports whether a rule describes secrets without a known form.
func (r *rule) generic() bool { return strings.HasPrefix(r.ID, "generic") }

// A trial compares one text with the rules.
type trial struct {
	*rulebook
	path  string
	data  []byte
	skip  map[*rule]bool // whether a rule does not apply to this file, once known
	tried map[*rule]int  // piece in which a rule was tried last, from 1
	next  int            // position of the next assignment, as far as known
	tries *tries
	hits  []hit
}

// try tries a rule on a text that has one of its keywords at a position.
func (t *trial) try(r *rule, at int) {
	skip, known := t.skip[r]
	if !known {
		skip = !t.fits(r)
		t.skip[r] = skip
	}
	switch n := 1 + at/r.piece(); {
	case skip:
	case r.given && !t.given(at), r.private() && !t.private(at):
	case r.At:
		t.at(r, at)
	case t.tried[r] < n:
		t.tried[r] = n
		t.anywhere(r, n)
	}
}

// fits reports whether a rule applies to a file with this name.
func (t *trial) fits(r *rule) bool {
	if r.path != nil && !r.path().MatchString(t.path) {
		return false
	}
	// Lock files and the like contain much that looks like secrets. So only generic rules
	// skip them.
	allowed := func(a allow) bool { return a.aboutPath(t.path) }
	return !r.generic() || !slices.ContainsFunc(t.Allow, allowed) && !slices.ContainsFunc(r.Allow, allowed)
}

// How far after a keyword a secret can end, and how much text is tried at once.
const (
	reach    = 4 << 10
	reachKey = 24 << 10 // private keys are long
	piece    = 128 << 10
	nearby   = 2 << 10
)

// piece returns how much text is tried for one keyword. Gitleaks tries 100 kB.
func (r *rule) piece() int {
	if r.Near {
		return nearby
	}
	return piece
}

// at tries a rule at the position of a keyword.
func (t *trial) at(r *rule, at int) {
	end := at + reach
	if r.private() {
		end = at + reachKey
	}
	end = min(end, len(t.data))
	from := at - 1
	text := t.data[max(0, from):end]
	if at == 0 {
		text = append([]byte{'\n'}, text...)
	}
	t.tries.used++
	m := r.regex().FindSubmatchIndex(text)
	if m == nil {
		return
	}
	m[0]++ // the letter before
	for i := range m {
		if m[i] >= 0 {
			m[i] += from
		}
	}
	if strings.Contains(r.Regex, anyName) {
		for least := max(0, m[0]-50); m[0] > least && nameLetter(t.data[m[0]-1]); {
			m[0]--
		}
	}
	t.judge(r, m)
}

// nameLetter reports whether a byte can be part of a name.
func nameLetter(c byte) bool { return alphabet[c] != 0 && c != '+' && c != '/' || c == '.' }

// anywhere tries a rule in a piece of the text, and a little around it.
func (t *trial) anywhere(r *rule, n int) {
	around := min(reach, r.piece())
	from := max(0, (n-1)*r.piece()-around)
	text := t.data[from:min(len(t.data), n*r.piece()+around)]
	t.tries.used += triesAPart
	for _, m := range r.regex().FindAllSubmatchIndex(text, -1) {
		for i := range m {
			if m[i] >= 0 {
				m[i] += from
			}
		}
		t.judge(r, m)
	}
}

// judge keeps a match if it is a secret. It gets the positions of the groups.
func (t *trial) judge(r *rule, m []int) {
	from, to := m[0], m[1]
	for g := 1; g < len(m)/2; g++ {
		if m[2*g] >= 0 && m[2*g] < m[2*g+1] && (r.Group == 0 || r.Group == g) {
			from, to = m[2*g], m[2*g+1]
			break
		}
	}
	secret := strings.Trim(string(t.data[from:to]), "\n")
	if r.Entropy != 0 && shannon(secret) <= r.Entropy {
		return
	}
	match := strings.Trim(string(t.data[m[0]:m[1]]), "\n")
	low, high := lineAround(t.data, m[0], m[1])
	passes := func(a allow) bool { return a.about(t.path, secret, match, string(t.data[low:high])) }
	if !slices.ContainsFunc(t.values, passes) && !slices.ContainsFunc(r.Allow, passes) {
		t.hits = append(t.hits, hit{r, from, to})
	}
}

// lineAround returns the bounds of the lines that contain a part of a text.
func lineAround(data []byte, from, to int) (int, int) {
	const most = 4 << 10
	low, high := max(0, from-most), min(len(data), to+most)
	if i := bytes.LastIndexByte(data[low:from], '\n'); i >= 0 {
		low += i + 1
	}
	if i := bytes.IndexByte(data[to:high], '\n'); i >= 0 {
		high = to + i
	}
	return low, high
}

// told turns hits into findings. It reports each place once, by the most specific rule.
func told(data []byte, hits []hit) (found []Finding) {
	slices.SortFunc(hits, func(a, b hit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		if a.rule.generic() != b.rule.generic() {
			if b.rule.generic() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.rule.ID, b.rule.ID)
	})
	number, counted := 1, 0
	covered := -1 // end of the last hit of a specific rule
	var last hit
	for _, h := range hits {
		if h == last || h.rule.generic() && (h.from < covered || overlaps(hits, h)) {
			continue
		}
		last = h
		if !h.rule.generic() {
			covered = max(covered, h.to)
		}
		number += bytes.Count(data[counted:h.from], []byte{'\n'})
		counted = h.from
		found = append(found, Finding{Hold: true, Line: number, Offset: int64(h.from),
			What: fmt.Sprintf("%s, %d characters", h.rule.ID, h.to-h.from)})
	}
	return found
}

// overlaps reports whether a specific rule found something in the place of a generic hit.
func overlaps(hits []hit, generic hit) bool {
	i, _ := slices.BinarySearchFunc(hits, generic.from, func(h hit, from int) int { return h.from - from })
	for ; i < len(hits) && hits[i].from < generic.to; i++ {
		if !hits[i].rule.generic() {
			return true
		}
	}
	return false
}

// shannon returns the entropy of a text in bits per character.
func shannon(text string) (bits float64) {
	counts := map[rune]int{}
	for _, r := range text {
		counts[r]++
	}
	for _, n := range counts {
		p := float64(n) / float64(len(text))
		bits -= p * math.Log2(p)
	}
	return bits
}
