package file

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// This file holds the readers of llm-do under their old names. They have no line numbers
// and no pages, and they count characters instead of lines.

// maxWindow limits the characters of one result, so that their bytes stay below the limit
// of a result.
const maxWindow = 200_000

type readTextArgs struct {
	Path     string `json:"path"`
	MaxChars int64  `json:"max_chars,omitempty" default:"20000"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"characters to pass over"`
}

// readTextData has the form that llm-do returned.
type readTextData struct {
	Content    string `json:"content"`
	Truncated  bool   `json:"truncated"`
	TotalChars int64  `json:"total_chars"`
	Offset     int64  `json:"offset"`
	CharsRead  int64  `json:"chars_read"`
}

func oldReadText() tool.Tool {
	t := tool.New(reader("sandbox_read_text", "Read a text file."),
		func(_ context.Context, names tool.Names, a readTextArgs) (tool.Plan, error) {
			at, err := locateFile(names, a.Path)
			if err != nil {
				return tool.Plan{}, err
			}
			run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				return readText(files, at, a)
			}
			return tool.NewReadPlan(run, names.ReadEffects(at)...), nil
		})
	return t.Alias("read_file")
}

// readText returns a window of the file at a located name.
func readText(files *sandbox.Sandbox, at string, a readTextArgs) (tool.Result, error) {
	content, err := files.Read(at)
	if errors.Is(err, sandbox.ErrTooLarge) {
		return tool.Result{}, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrTooLarge, Hint: "read_file reads large files by pages"}
	}
	if err == nil {
		err = refuseBinary(at, content, int64(len(content)))
	}
	if err != nil {
		return tool.Result{}, err
	}
	part, first, last := window(content, a.Offset, min(a.MaxChars, maxWindow))
	d := readTextData{Content: toValidText(part), TotalChars: int64(utf8.RuneCount(content)), Offset: first, CharsRead: last - first}
	r := tool.Result{Text: d.Content}
	if d.Truncated = last < d.TotalChars; d.Truncated {
		r.Notes = []string{fmt.Sprintf("truncated: characters %d to %d of %d; offset %d continues", first, last, d.TotalChars, last)}
	}
	r.Data = d
	return r, nil
}

type oldListArgs struct {
	Path    string `json:"path,omitempty" default:"\"/\""`
	Pattern string `json:"pattern,omitempty" default:"\"**/*\""`
}

func oldList() tool.Tool {
	t := tool.New(reader("sandbox_list", "List files that match a pattern."),
		func(_ context.Context, names tool.Names, a oldListArgs) (plan tool.Plan, err error) {
			if a.Path, err = names.Locate("list", a.Path, sandbox.ReadOnly, false); err != nil {
				return plan, err
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				return listOld(ctx, files, a)
			}
			plan = tool.NewReadPlan(run, names.ReadTreeEffects(a.Path)...)
			plan.Levels = math.MaxInt
			return plan, nil
		})
	return t.Alias("list_files")
}

// listOld returns only the names of the files that match, as llm-do did.
func listOld(ctx context.Context, files *sandbox.Sandbox, a oldListArgs) (tool.Result, error) {
	found, err := files.Find(ctx, a.Path, a.Pattern, sandbox.Budget{})
	if err != nil {
		return tool.Result{}, err
	}
	names := []string{}
	var b strings.Builder
	for _, f := range found.Found {
		if b.Len() > maxNames {
			found.Cut = sandbox.CutResults
			break
		}
		names = append(names, f.Path)
		b.WriteString(quoteName(f.Path) + "\n")
	}
	r := tool.Result{Text: b.String(), Data: names}
	if note := missedNote(found.Cut, found.Unread); note != "" {
		r.Notes = []string{strings.TrimSpace(note)}
	}
	return r, nil
}
