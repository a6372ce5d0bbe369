package program

import (
	"slices"

	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/toolset/changes"
	"github.com/golem-forge/golem/internal/toolset/export"
	"github.com/golem-forge/golem/internal/toolset/file"
	"github.com/golem-forge/golem/internal/toolset/git"
	"github.com/golem-forge/golem/internal/toolset/shell"
	"github.com/golem-forge/golem/internal/toolset/web"
)

// toolNames returns the names of golem's tools. No worker may have one of them, because a
// worker that can be called is a tool itself.
func toolNames() []string {
	return []string{
		"read_file", "read_files", "write_file", "edit_file", "list_files", "find_files", "search_files",
		"file_info", "file_exists", "make_directory", "move_file", "copy_file", "delete_file",
		"sandbox_read_text", "sandbox_write_text", "sandbox_list", "pullFromGit", "gitPull", "stageForPush", "gitStage",
		"shell", "service_start", "service_list", "service_output", "service_stop", "call_worker", "worker_call", "worker_create",
		"git_stage", "git_status", "git_diff", "git_list_staged", "git_push", "git_pull", "git_discard",
		"git_branches", "git_merge", "apply_changes", "discard_changes", "undo", "file_export", "api_send", "clipboard_copy", "web_fetch",
	}
}

// Tools returns all tools of this version, for listing.
func Tools() []tool.Tool {
	return tools(shell.Set{}, git.Set{}, export.Set{}, web.Set{}, nil, nil, nil)
}

// tools returns all tools of this version, connected to what runs commands, stages
// commits, exports results, reads the web, keeps changes, undoes them and takes commits.
func tools(s shell.Set, g git.Set, e export.Set, w web.Set, k changes.Keeper, u changes.Undoer, c changes.Committer) []tool.Tool {
	return slices.Concat(file.Tools(), s.Tools(), g.Tools(), e.Tools(), w.Tools(), changes.Tools(k, u, c))
}
