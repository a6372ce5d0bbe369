package jail

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// GPU returns the names in /dev that commands see with Policy.GPU: the devices of this
// machine's NVIDIA GPUs that programs compute with. If commands cannot use them, why says
// so, and fix how to change it.
func GPU() (names []string, why, fix string) { return gpuIn("/dev") }

// gpuIn does the same for a directory in place of /dev. It leaves out devices that draw,
// profile other processes, or divide the GPU.
func gpuIn(dev string) (names []string, why, fix string) {
	list, _ := os.ReadDir(dev)
	parts := map[string]bool{}
	for _, entry := range list {
		part, ok := strings.CutPrefix(entry.Name(), "nvidia")
		if part != "" && strings.Trim(part, "0123456789") == "" {
			part = "0"
		}
		if ok && (part == "0" || part == "ctl" || part == "-uvm") && entry.Type()&os.ModeCharDevice != 0 {
			names, parts[part] = append(names, entry.Name()), true
		}
	}
	switch {
	case !parts["0"]:
		return names, "this machine has no NVIDIA GPU whose driver is loaded", "leave out --gpu or jail.gpu"
	case !parts["ctl"] || !parts["-uvm"]:
		return names, "the driver has not made /dev/nvidiactl and /dev/nvidia-uvm yet", "run nvidia-modprobe -c 0 -u, which comes with the driver"
	}
	for _, name := range names {
		if err := unix.Access(dev+"/"+name, unix.R_OK|unix.W_OK); err != nil {
			return names, "your user may not use /dev/" + name + " (" + err.Error() + ")", "ls -l /dev/" + name + " shows which group may"
		}
	}
	return names, "", ""
}

// findGPU puts the devices of the GPU and the level that they need into a policy that shows
// them, and says in needs why it has that level.
func (p *Policy) findGPU(needs *string) error {
	if !p.GPU {
		return nil
	}
	if p.Least == Container {
		return noSandbox("the level container shows no GPU", "choose --jail namespaces; commands with content from strangers get no GPU on a machine with runsc")
	}
	names, why, fix := GPU()
	if why != "" {
		return noSandbox(why, fix)
	}
	p.gpu, p.Least, *needs = names, Namespaces, "a command with the GPU needs the level namespaces"
	return nil
}

// errUncounted returns the error for a command with the GPU whose memory nothing limits.
func errUncounted() error {
	return noSandbox("a command with the GPU needs a control group (cgroup) around its memory, and golem cannot make one here", "golem doctor says how to start golem with one")
}
