package jail

import (
	"strings"
	"testing"
)

// TestFixes checks the fixes for machines that lack nothing and for one that lacks much.
func TestFixes(t *testing.T) {
	if list := fixesFor(facts{System: "linux"}, "/usr/bin/golem"); len(list) > 0 {
		t.Errorf("got %+v for a machine that lacks nothing", list)
	}
	// If root runs golem, the fixes are still those that ordinary users need.
	list := fixesFor(facts{System: "linux", Root: true, NoneAllowed: true, CloneOff: true, AppArmor: true}, "/usr/bin/golem")
	if len(list) != 3 {
		t.Fatalf("got %+v", list)
	}
	if got, want := list[1].Content, "user.max_user_namespaces=15000\nkernel.unprivileged_userns_clone=1\n"; list[0].File != list[1].File || got != want {
		t.Errorf("two parameters of one file: got %q, want %q", got, want)
	}
	if list[1].Param != "/proc/sys/kernel/unprivileged_userns_clone" || list[1].Value != "1" {
		t.Errorf("got %+v", list[1])
	}
	if f := list[2]; f.File != "/etc/apparmor.d/golem" || !strings.Contains(f.Content, `"/usr/bin/golem"`) || f.Then == "" || f.Param != "" {
		t.Errorf("got %+v", f)
	}
}
