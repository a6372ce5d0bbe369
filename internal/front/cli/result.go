package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// A toolResult is the document that golem tool --json prints.
type toolResult struct {
	OK      bool          `json:"ok"`
	Result  any           `json:"result,omitempty"`
	Changes []tool.Change `json:"changes,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
	Allow   []string      `json:"allow,omitempty"` // commands that would have let the call do more
	Error   *toolError    `json:"error,omitempty"`
	Pending *tool.Pending `json:"pending,omitempty"`
}

// A toolError is an error in the form that every command prints with --json.
type toolError struct {
	Code    sandbox.Code `json:"code"`
	Message string       `json:"message"`
	Hint    string       `json:"hint,omitempty"`
}

// printResult prints the result of a call, and returns the exit code as an error.
func printResult(cmd *cobra.Command, r tool.Result) error {
	if wantsJSON(cmd) {
		doc := toolResult{OK: r.OK(), Result: r.Data, Changes: r.Changes, Notes: r.Notes, Allow: r.Allow, Pending: r.Pending}
		if doc.Result == nil && r.OK() {
			doc.Result = map[string]string{"text": r.Words()}
		}
		if r.Err != nil {
			doc.Error = &toolError{r.Err.Code, r.Err.Error(), r.Err.Hint}
		}
		if err := printJSON(cmd.OutOrStdout(), doc); err != nil {
			return err
		}
	} else if l, ok := r.Data.(*git.CommitView); ok && r.OK() && newScreen(cmd.OutOrStdout()).file != nil {
		s := newScreen(cmd.OutOrStdout())
		return l.Show(s.w, s.page())
	} else if r.OK() {
		fmt.Fprintln(newAnswer(cmd.OutOrStdout(), ""), r.String())
	} else {
		if text := r.Words(); text != "" { // a part of it was done
			fmt.Fprintln(newAnswer(cmd.OutOrStdout(), ""), strings.TrimSuffix(text, "\n"))
		}
		columns, _ := newScreen(cmd.ErrOrStderr()).size()
		fmt.Fprintln(cmd.ErrOrStderr(), wrapFirst("golem: "+r.Err.Error(), columns))
		for _, note := range r.Notes {
			fmt.Fprintln(cmd.ErrOrStderr(), wrapFirst("note: "+note, columns))
		}
		for _, command := range r.Allow {
			fmt.Fprintln(cmd.ErrOrStderr(), "note: to allow more:\n  "+command)
		}
	}
	if r.Err == nil {
		return nil
	}
	switch r.Err.Code {
	case "declined", "blocked", "manual_only", "untrusted":
		return exit(exitDenied)
	case "invalid_args", "unknown_tool":
		return exit(exitUsage)
	case jail.ErrNoSandbox:
		return exit(exitNoSandbox)
	}
	return exit(exitFailed)
}
