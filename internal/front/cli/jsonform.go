package cli

import "github.com/spf13/cobra"

// jsonForms describes what --json prints, for the commands that do not print one document.
var jsonForms = map[string]string{
	"golem run":             "print JSON Lines: one object per event, the result last",
	"golem mcp":             "refused: standard output carries the MCP protocol",
	"golem exec":            "with --profile-help: print one JSON document; otherwise refused, because standard output belongs to the command",
	"golem audit export":    "no effect: the records are JSON Lines already",
	"golem sessions export": "no effect: the export is JSON Lines already",
	"golem completion":      "no effect: the output is a script",
	"golem man":             "print one JSON document with the names of the pages",
	"golem help":            "no effect",
}

// jsonForm returns the help text of --json for a command.
func jsonForm(cmd *cobra.Command) string {
	if text := jsonForms[cmd.CommandPath()]; text != "" {
		return text
	}
	return "print one JSON document"
}
