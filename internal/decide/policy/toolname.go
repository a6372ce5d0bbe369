package policy

import (
	"strings"
	"unicode"
)

// oldToolNames maps the names that tools had in older systems to the current names, where
// they are more than another spelling. The page docs/tools.md has a table of them.
var oldToolNames = map[string]string{
	// the TypeScript version
	"pullFromGit":  "git_pull",
	"stageForPush": "git_stage",
	// llm-do
	"sandbox_read_text":  "read_file",
	"sandbox_write_text": "write_file",
	"sandbox_list":       "list_files",
	"worker_call":        "call_worker",
}

// CurrentToolName returns the current name of a tool that older systems call by another
// name or in another spelling: pullFromGit is git_pull, and readFile is read_file. Every
// other name stays as it is.
func CurrentToolName(name string) string {
	if now, ok := oldToolNames[name]; ok {
		return now
	}
	if strings.ContainsAny(name, "_-.") || !strings.ContainsFunc(name, unicode.IsUpper) || !isLower(name[0]) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
