package tool

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// maxOriginal is how many bytes of the old text a change carries.
const maxOriginal = 100_000

// DescribeChange describes how the content of a file changes. The base is the zero
// version if there was no file. A diff may be shortened, and binary content has none. So
// the change also has the version of the new content, which binds an approval to the
// exact bytes.
func DescribeChange(name string, base sandbox.Version, old, new []byte) Change {
	c := Change{Path: name, Op: Update, Base: base.String(), Becomes: filecontent.Hash(new)}
	from := name
	if base.IsZero() {
		c.Op, from = Create, ""
	}
	c.About = fmt.Sprintf("%s → %s", visible.Amount(int64(len(old))), visible.Amount(int64(len(new))))
	if base.IsZero() {
		c.About = visible.Amount(int64(len(new)))
	}
	recoded := len(old) > 0 && len(new) > 0 && utf8.Valid(old) != utf8.Valid(new)
	switch {
	case !base.IsZero() && bytes.Equal(old, new):
		c.About = "no change"
	case filecontent.IsText(old) && filecontent.IsText(new):
		exact := !utf8.Valid(old) && filecontent.HasUTF8(new) || !utf8.Valid(new) && filecontent.HasUTF8(old) || recoded
		c.Diff = filecontent.Diff(from, name, filecontent.Decode(old, exact), filecontent.Decode(new, exact))
		if c.Diff == "" && len(new) > 0 {
			c.About += fmt.Sprintf(", %d → %d lines", filecontent.CountLines(old), filecontent.CountLines(new))
		}
		if c.Diff == "" && len(old)+len(new) > 0 {
			c.Omitted = "too large to compare"
		}
	default:
		c.About += ", binary"
		c.Omitted = "binary"
	}
	if recoded && filecontent.IsText(old) && filecontent.IsText(new) {
		c.About += ", encoding changes"
	}
	if !base.IsZero() && len(old) <= maxOriginal && filecontent.IsText(old) && utf8.Valid(old) {
		text := string(old)
		c.Original = &text
	}
	c.Flags = review.Flags(reviewContent(c, old, new))
	return c
}

// reviewContent returns a change of a content as package review reads it.
func reviewContent(c Change, old, new []byte) review.FileChange {
	const none, plain = "000000", "100644"
	r := review.FileChange{Path: c.Path, Operation: "update", OldMode: plain, Mode: plain, Old: old, New: new, OldSize: int64(len(old)), Size: int64(len(new)),
		Binary: c.Omitted == "binary", Diff: c.Diff}
	if c.Op == Create {
		r.Operation, r.OldMode = "create", none
	}
	return r
}
