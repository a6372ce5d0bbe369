package git

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// UserSetting returns a setting of the user's own configuration of git, never that of a repository. It
// is "" if it is not set.
func UserSetting(ctx context.Context, program string, environ []string, key string) (string, error) {
	temp, err := os.MkdirTemp("", "golem-setting-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	s := &ObjectStore{program: program, dir: temp, home: temp}
	var more []string
	if strings.HasSuffix(key, ".path") {
		more = []string{"--type=path"}
	}
	value, _ := s.userSetting(ctx, environ, append(more, "--get", key)...)
	return value, nil
}

// userSetting runs git config for the file with the user's own settings, as git finds it, and
// returns what git prints without the end of the line. ok is false if the setting is not there.
func (s *ObjectStore) userSetting(ctx context.Context, environ []string, args ...string) (value string, ok bool) {
	home, config := userDirectories(environ)
	for _, file := range []string{filepath.Join(config, "git", "config"), filepath.Join(home, ".gitconfig")} {
		if _, err := os.Stat(file); err != nil || !filepath.IsAbs(file) {
			continue
		}
		cmd := s.command(ctx, place{dir: os.DevNull}, append([]string{"config", "--global", "--includes"}, args...)...)
		cmd.Env = append(slices.DeleteFunc(cmd.Env, func(one string) bool { return strings.HasPrefix(one, "GIT_CONFIG_GLOBAL=") }), "HOME="+home, "XDG_CONFIG_HOME="+config)
		if out, err := s.run(cmd); err == nil {
			return strings.TrimSuffix(string(out), "\n"), true
		}
		break
	}
	return "", false
}

// userDirectories returns the user's home directory and the one with configurations.
func userDirectories(environ []string) (home, config string) {
	home, config = variable(environ, "HOME"), variable(environ, "XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	return home, config
}
