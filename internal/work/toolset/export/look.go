package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// errScan is the code for content that scanners hold back.
const errScan sandbox.Code = "scan"

// Limits of the warnings for one file, and for all.
const (
	maxTold     = 4
	maxWarnings = 40
)

// examine examines a file for review, and runs the scanners.
func (s Set) examine(ctx context.Context, op string, files *sandbox.Sandbox, h *heldFile) error {
	flags := review.Flags(h.reviewChange())
	if len(flags) > 0 {
		h.riskiest = flags[0]
	}
	flags = review.Shorten(flags)
	for i, f := range flags {
		if i == maxTold {
			h.warnings = append(h.warnings, fmt.Sprintf("%s: and %d more to look at", sandbox.Shown(scan.ShownName(h.name)), len(flags)-i))
			break
		}
		f.Path = scan.ShownName(f.Path)
		h.warnings = append(h.warnings, f.String())
	}
	if s.Scanners == nil {
		return nil
	}
	scanners, err := s.Scanners()
	if err != nil {
		return &sandbox.Error{Op: op, Code: errScan, Hint: "golem cannot start the scanners, and exports nothing without them: " + err.Error()}
	}
	open := func() (io.ReadCloser, error) {
		f, err := files.Open(strings.TrimPrefix(h.name, "/"))
		if err != nil {
			return nil, err
		}
		return &same{f, sha256.New(), h.sum}, nil
	}
	verdict := scanners.Scan(ctx, scan.Content{Path: strings.TrimPrefix(h.name, "/"), Size: h.size, Hash: h.sum, Open: open})
	for _, f := range verdict.Findings {
		where := ""
		if f.Line > 0 {
			where = fmt.Sprintf(" in line %d", f.Line)
		}
		text := fmt.Sprintf("%s%s: %s", f.Scanner, where, f.What)
		if f.Hold && len(h.holds) < maxTold {
			h.holds = append(h.holds, text)
		} else if len(h.warnings) < 2*maxTold {
			h.warnings = append(h.warnings, sandbox.Shown(scan.ShownName(h.name))+": "+text)
		}
	}
	if verdict.Held && len(h.holds) == 0 {
		h.holds = []string{"a scanner holds it back"}
	}
	return nil
}

// A same reads a file, and fails at its end if the content does not have the expected
// hash. Otherwise a verdict about other bytes would be cached for this hash.
type same struct {
	io.ReadCloser
	hash hash.Hash
	sum  string
}

func (s *same) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.hash.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(s.hash.Sum(nil)) != s.sum {
		err = errors.New("it has changed since it was read")
	}
	return n, err
}

// shownNames returns a function for the names by which a person sees files, and overrides
// scanners for them: without the secrets in them. Files whose names differ only in a secret
// keep them, so that an override is for one file.
func shownNames(list []heldFile) func(h heldFile) string {
	count := make(map[string]int, len(list))
	for _, h := range list {
		count[scan.ShownName(h.name)]++
	}
	return func(h heldFile) string {
		if name := scan.ShownName(h.name); count[name] == 1 {
			return name
		}
		return h.name
	}
}

// newPreparation returns the preparation that hands files on, with warnings: first about all
// files, then about the riskiest ones. A file that scanners hold back passes only with a
// reason from the user.
func newPreparation(op, wish string, run tool.Run, list []heldFile, all []review.Flag, changes []tool.Change, override []string) (tool.Preparation, error) {
	shown := shownNames(list)
	given, err := clearance.ParseOverrides(op, override, func(name string) bool {
		return slices.ContainsFunc(list, func(h heldFile) bool { return shown(h) == name && len(h.holds) > 0 })
	})
	if err != nil {
		return tool.Preparation{}, err
	}
	r := tool.NewPreparation(run, changes...)
	r.Summary = wish
	for _, h := range list {
		if len(h.holds) > 0 && !given[shown(h)] {
			return tool.Preparation{}, &sandbox.Error{Op: op, Path: shown(h), Code: errScan,
				Hint: strings.Join(h.holds, "; ") + "; nothing was exported; to do it anyway: " + clearance.OverrideFlag(shown(h))}
		}
		for _, text := range h.holds {
			r.Warnings = append(r.Warnings, "overridden: "+sandbox.Shown(shown(h))+": "+text)
		}
	}
	for _, f := range all {
		r.Warnings = append(r.Warnings, f.String())
	}
	sorted := slices.Clone(list)
	review.OrderBy(sorted, func(h heldFile) review.Flag { return h.riskiest })
	for _, h := range sorted {
		r.Warnings = append(r.Warnings, h.warnings...)
	}
	if more := len(r.Warnings) - maxWarnings; more > 0 {
		r.MoreWarnings = more
		r.Warnings = append(r.Warnings[:maxWarnings], fmt.Sprintf("and %d more to look at; export less at a time", more))
	}
	return r, nil
}
