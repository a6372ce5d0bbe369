package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

// homes returns the home directories of the user: that of the environment, and those of
// the accounts of this process and of the user of sudo, doas or pkexec. HOME alone may be
// unset, or belong to another user.
func homes() []string {
	var list []string
	add := func(dir string) {
		if filepath.IsAbs(dir) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	home, _ := os.UserHomeDir()
	add(home)
	for _, id := range []string{strconv.Itoa(os.Getuid()), strconv.Itoa(os.Geteuid()), os.Getenv("SUDO_UID"), os.Getenv("PKEXEC_UID")} {
		if u, err := user.LookupId(id); err == nil {
			add(u.HomeDir)
		}
	}
	for _, name := range []string{os.Getenv("SUDO_USER"), os.Getenv("DOAS_USER")} {
		if u, err := user.Lookup(name); err == nil {
			add(u.HomeDir)
		}
	}
	return list
}

// configs returns the directories of golem's configuration.
func configs(home string) []string {
	list := []string{"/etc/golem"}
	if filepath.IsAbs(home) {
		list = append(list, filepath.Join(home, ".config", "golem"))
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "golem"))
	}
	return list
}

// configFile returns the user's configuration, "" if there is no home directory.
func configFile(home string) string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "golem", "config.yaml")
	}
	if filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "golem", "config.yaml")
	}
	return ""
}
