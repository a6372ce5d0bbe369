package scan

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
)

// mostFindings limits the findings of one scanner.
const mostFindings = 100

// Scan runs every scanner on a content and on everything inside of it. It always returns
// a verdict. A scanner that cannot tell holds the content.
//
// Scans with the same Budget wait for each other if there is not enough memory. The time
// limit for one content does not include the wait.
func (s *Set) Scan(ctx context.Context, c Content) Verdict {
	v := Verdict{Path: c.Path, Hash: c.Hash, Scanners: []string{}}
	var all, open []*answer
	for _, l := range s.looks {
		a := &answer{look: l, key: s.key(l, c)}
		all = append(all, a)
		if found, ok := s.kept(a.key); ok {
			v.Findings = append(v.Findings, found...)
			a.looked = true
			continue
		}
		open = append(open, a)
	}
	if len(open) > 0 {
		v.Findings = append(v.Findings, s.admitted(ctx, c, open)...)
	}
	for _, a := range all {
		if a.looked && !a.unsaid {
			v.Scanners = append(v.Scanners, a.Name())
		}
	}
	for _, f := range v.Findings {
		v.Held = v.Held || f.Hold
	}
	return v
}

// together is the time limit for several contents that are approved together, as a
// multiple of the limit for one.
const together = 10

// Together returns a context for scanning contents that are approved together. When its
// time is over, the remaining contents are held, unless a verdict is cached.
func (s *Set) Together(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := together * s.limits.Time
	return context.WithTimeoutCause(ctx, limit, lateError(fmt.Sprintf("%v are the limit for all files together (%d times clearance.limits.scan_time)", limit, together)))
}

// A lateError says which time limit was exceeded.
type lateError string

func (e lateError) Error() string { return "it took too long: " + string(e) }

// ended returns why a context ended, or nil if it did not.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// An answer collects the findings of one scanner for a content and everything inside.
type answer struct {
	look
	key    string
	found  []Finding
	seen   map[Finding]bool
	unsure bool // it could not tell, so nothing is cached
	looked bool // it examined everything
}

// admitted runs scanners without a cached verdict, when the budget has room for them.
func (s *Set) admitted(ctx context.Context, c Content, all []*answer) []Finding {
	release, err := s.budget.take(ctx, s.limits.needs(c.Size))
	if err != nil {
		return []Finding{cannot(limitsName, err)}
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.Time, lateError(fmt.Sprintf("%v are the limit for one file (clearance.limits.scan_time)", s.limits.Time)))
	defer cancel()
	return s.ask(ctx, c, all)
}

// ask runs scanners without a cached verdict.
func (s *Set) ask(ctx context.Context, c Content, all []*answer) (found []Finding) {
	if late := ended(ctx); late != nil {
		return []Finding{cannot(limitsName, late)}
	}
	if c.Size > s.limits.Size {
		return []Finding{cannot(limitsName, fmt.Errorf("it has %d bytes, and the limit is %d", c.Size, s.limits.Size))}
	}
	data, err := c.bytes()
	if err != nil {
		return []Finding{cannot(limitsName, err)}
	}
	whole := of(c.Path, data)
	whole.Hash, whole.tries = c.Hash, &tries{}
	w := &walk{ctx: ctx, limits: s.limits, look: func(part Content, names []string) {
		for _, a := range all {
			if len(names) == 0 || a.inside && (!part.text || a.decoded) {
				a.at(ctx, part, names)
			}
		}
	}}
	w.look(whole, nil)
	inside := w.open(whole, nil)
	if inside != nil {
		inside = cmp.Or(ended(ctx), inside)
		found = append(found, cannot(limitsName, inside))
	}
	for _, a := range all {
		found = append(found, a.found...)
		a.looked = !a.unsure && (inside == nil || !a.inside)
		if inside == nil && !a.unsure && s.cache != nil && a.key != "" {
			if value, err := json.Marshal(a.found); err == nil {
				s.cache.Put(a.key, value)
			}
		}
	}
	return found
}

// at examines one part. Names are those of its containers and its own, the outermost
// first.
func (a *answer) at(ctx context.Context, part Content, names []string) {
	found, err := guarded(ctx, a.Scanner, part)
	if late := ended(ctx); late != nil {
		err = late
	}
	if err != nil {
		a.unsure = true
		found = append(found, cannot(a.Name(), err))
	}
	for _, f := range found {
		f.Scanner = a.Name()
		f.What = plain(prefix(names) + f.What)
		if part.text {
			f.Line, f.Offset = 0, 0 // these lines are in no file
		}
		if a.seen[f] {
			continue
		}
		if a.seen == nil {
			a.seen = map[Finding]bool{}
		}
		a.seen[f] = true
		switch {
		case len(a.found) < mostFindings:
			a.found = append(a.found, f)
		case f.Hold && !a.found[mostFindings-1].Hold:
			// A finding that holds replaces one that does not.
			a.found[mostFindings-1] = f
		}
	}
}

// guarded runs a scanner, and turns a panic into an error.
func guarded(ctx context.Context, s Scanner, c Content) (found []Finding, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it failed: %v", r)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Scan(ctx, c)
}

// cannot returns the finding that something could not be examined.
func cannot(scanner string, err error) Finding {
	what := "cannot tell: " + err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		what = "cannot tell: it took too long"
	case errors.Is(err, context.Canceled):
		what = "cannot tell: it was stopped"
	}
	return Finding{Scanner: scanner, Hold: true, What: plain(what)}
}

// plain shortens a text, and replaces characters that are not printable.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > 300 {
		text = string(runes[:300]) + "…"
	}
	return text
}

// insides is part of the keys of cached verdicts. Increase it when walks find more inside
// of a content.
const insides = 5

// key returns the name of a cached verdict. It covers the scanner, its version, the
// content, the limits, and the part of the path that the scanner depends on.
func (s *Set) key(l look, c Content) string {
	version := l.Version()
	if s.cache == nil || c.Hash == "" || version == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %v %d", l.Name(), version, c.Hash, l.depends(c.Path), s.limits, insides))
	return "scan-" + hex.EncodeToString(sum[:])
}

// kept returns a cached verdict.
func (s *Set) kept(key string) (found []Finding, ok bool) {
	if key == "" {
		return nil, false
	}
	value, ok := s.cache.Get(key)
	if !ok || json.Unmarshal(value, &found) != nil {
		return nil, false
	}
	return found, true
}
