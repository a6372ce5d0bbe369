package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is the version of this source. docs/releasing.md says when it changes.
const release = "0.1.0"

// A build is the version information in the binary.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

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
	info, _ := debug.ReadBuildInfo()
	b := newBuild(info)
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), b)
	}
	fmt.Fprintln(cmd.OutOrStdout(), b)
	return nil
}

// newBuild reads the build information that the go command stored in the binary. info may
// be nil.
func newBuild(info *debug.BuildInfo) build {
	b := build{Version: release, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info == nil {
		return b
	}
	if parts := strings.Split(info.Main.Version, "-"); len(parts) >= 3 { // go install of a commit: v0.1.1-0.TIME-COMMIT
		b.Commit = parts[len(parts)-1]
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	text := "golem " + b.Version
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			text += " with changes"
		}
	}
	return fmt.Sprintf("%s, %s %s/%s", text, b.Go, b.OS, b.Arch)
}
