package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestText(t *testing.T) {
	info := &debug.BuildInfo{
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	}
	system := fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if got, want := newBuild(info).Text("golem"), "golem "+Release+", commit 0123456789ab with changes, "+system; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v0.1.1-0.20261117150000-0123456789ab"}}
	if got, want := newBuild(installed).Text("golem"), "golem "+Release+", commit 0123456789ab, "+system; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := newBuild(nil).Text("golem"), "golem "+Release+", "+system; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
