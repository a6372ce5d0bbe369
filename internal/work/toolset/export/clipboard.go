package export

import (
	"context"
	"fmt"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// MaxClipboard limits the bytes of text for a clipboard. Terminals accept no more.
const MaxClipboard = 74_000

type copyArgs struct {
	Path     string   `json:"path" jsonschema:"a text file"`
	Override []string `json:"override,omitempty" jsonschema:"pass on a file that a scanner holds back: PATH=REASON; the journal records the reason"`
}

// copy returns the tool with which the user copies a text to the clipboard.
func (s Set) copy() tool.Tool {
	const op = "clipboard_copy"
	t := newTool(op, "Put the text of a file into your clipboard. It always asks, and shows the text and its invisible characters.")
	t.Verbs = []policy.Verb{policy.Read}
	return tool.New(t, func(_ context.Context, names tool.Names, a copyArgs) (tool.Plan, error) {
		if s.Copy == nil {
			return tool.Plan{}, nowhereError(op)
		}
		at, err := names.Locate(op, a.Path, sandbox.ReadOnly, false)
		if err != nil {
			return tool.Plan{}, err
		}
		a.Path = at
		prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
			h, err := s.readAndExamine(ctx, op, files, at)
			if err != nil {
				return tool.Preparation{}, err
			}
			if h.size > MaxClipboard || !h.isText() {
				return tool.Preparation{}, &sandbox.Error{Op: op, Path: at, Code: sandbox.ErrInvalid,
					Hint: fmt.Sprintf("a clipboard takes text in UTF-8, %s at most; golem tool file_export takes everything", visible.Amount(MaxClipboard))}
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				if err := h.checkUnchanged(ctx, op, files); err != nil {
					return tool.Result{}, err
				}
				how, err := s.Copy(ctx, string(h.text))
				if err != nil {
					return tool.Result{}, err
				}
				text := fmt.Sprintf("%s of %s are in the clipboard (%s)", visible.Amount(h.size), sandbox.Shown(at), how)
				return tool.Result{Text: text, Data: map[string]any{"path": at, "bytes": h.size, "how": how}, Record: text}, nil
			}
			wish := "put " + visible.Amount(h.size) + " of " + sandbox.Shown(at) + " into the clipboard"
			return newPreparation(op, wish, run, []heldFile{h}, nil, []tool.Change{h.toolChange(tool.Copy, "the clipboard")}, a.Override)
		}
		plan := tool.NewChangePlan(prepare, names.ReadEffects(at)...)
		plan.Args = a
		return plan, nil
	})
}
