package jail

import (
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A Fix is a change of the machine that lets golem confine commands better. Root makes it.
type Fix struct {
	Why     string // what is missing without it
	File    string // that is written; its content is Content
	Content string
	Param   string // file in /proc that takes Value at once, "" for none
	Value   string
	Then    string // command to type afterwards, "" for none
}

// Files that fixes write.
const (
	sysctlFile   = "/etc/sysctl.d/60-golem.conf"
	apparmorFile = "/etc/apparmor.d/golem"
)

// fixesFor returns the fixes for a machine, including those that only ordinary users
// need.
func fixesFor(f facts, program sandbox.Host) []Fix {
	var list []Fix
	sysctl := func(name, value, why string) {
		content := name + "=" + value + "\n"
		if n := len(list); n > 0 && list[n-1].File == sysctlFile {
			content = list[n-1].Content + content // they share the file
		}
		list = append(list, Fix{Why: why, File: sysctlFile, Content: content, Param: "/proc/sys/" + strings.ReplaceAll(name, ".", "/"), Value: value})
	}
	if f.NoneAllowed {
		sysctl("user.max_user_namespaces", "15000", "the machine allows no user namespaces, so commands run at a weaker level")
	}
	if f.CloneOff {
		sysctl("kernel.unprivileged_userns_clone", "1", "only root can make user namespaces, so commands of other users run at a weaker level")
	}
	if f.AppArmor {
		list = append(list, Fix{Why: "AppArmor stops ordinary users' golem from making user namespaces, so commands run at a weaker level",
			File: apparmorFile, Content: AppArmor(program), Then: "apparmor_parser -r " + apparmorFile})
	}
	return list
}
