// Package version says which source a binary was built from.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Release is the version of this source. docs/releasing.md says when it changes.
const Release = "0.1.0"

// A Build is the version information in a binary.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Current returns the build of the running binary.
func Current() Build {
	info, _ := debug.ReadBuildInfo()
	return newBuild(info)
}

// newBuild reads the build information that the go command stored in the binary. info may
// be nil.
func newBuild(info *debug.BuildInfo) Build {
	b := Build{Version: Release, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
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

// Text describes the build of a program.
func (b Build) Text(program string) string {
	text := program + " " + b.Version
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			text += " with changes"
		}
	}
	return fmt.Sprintf("%s, %s %s/%s", text, b.Go, b.OS, b.Arch)
}
