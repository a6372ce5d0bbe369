package program

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/toolset/export"
	"github.com/golem-forge/golem/internal/work/toolset/file"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
	"github.com/golem-forge/golem/internal/work/toolset/web"
)

// builtin has golem's own tools, with their older names.
var builtin = []struct {
	set   string
	names []string
}{
	{"filesystem", []string{"read_file", "read_files", "write_file", "edit_file", "list_files", "find_files", "search_files",
		"file_info", "file_exists", "make_directory", "move_file", "copy_file", "delete_file",
		"sandbox_read_text", "sandbox_write_text", "sandbox_list"}},
	{"shell", []string{"shell", "service_start", "service_list", "service_output", "service_stop"}},
	{"git", []string{"git_stage", "git_status", "git_diff", "git_list_staged", "git_push", "git_pull", "git_discard",
		"git_branches", "git_merge", "pullFromGit", "gitPull", "stageForPush", "gitStage"}},
	{"clearance", []string{"file_export", "api_send", "clipboard_copy"}},
	{"web", []string{"web_fetch", "intake"}},
	{"changes", []string{"apply_changes", "discard_changes", "undo", "pull_request"}},
}

// setOf returns the set of one of golem's own tools, "" for another name.
func setOf(name string) string {
	for _, one := range builtin {
		if slices.Contains(one.names, name) {
			return one.set
		}
	}
	return ""
}

// toolNames returns the names of golem's tools. No worker may have one of them, because a
// worker that can be called is a tool itself.
func toolNames() []string {
	names := []string{"call_worker", "worker_call", "worker_create"}
	for _, one := range builtin {
		names = append(names, one.names...)
	}
	return names
}

// policyTools returns the names of tools and toolsets that a policy may list.
func policyTools() []string {
	names := append([]string{"exec", "custom", "mcp", "workers"}, workerTools...)
	for _, one := range builtin {
		names = append(append(names, one.set), one.names...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Tools returns all tools of this version, for listing.
func Tools() []tool.Tool { return tools(export.Set{}) }

// tools returns all tools of this version, with those of a set that knows its endpoints.
// Nothing is connected to them, so they cannot be called.
func tools(e export.Set) []tool.Tool {
	return slices.Concat(file.Tools(), shell.Set{}.Tools(), git.Set{}.Tools(), e.Tools(), web.Set{}.Tools(), settle.Tools(nil, nil, settle.Publisher{}))
}
