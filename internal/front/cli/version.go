package cli

import (
	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/records/version"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version and commit that golem was built from, the Go that built it, and the system it is for.",
		Example: "  golem version\n  golem --version\n  golem version --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	b := version.Current()
	return printLineOr(cmd, b, "%s", b.Text("golem"))
}
