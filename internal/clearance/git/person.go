package git

import (
	"context"
	"os"
	"slices"
	"strings"
)

// Who returns the author and committer for the user of an environment. It reads git's
// variables first, then the user's own configuration, never that of a repository. If
// neither names a person, it returns otherwise.
func (s *ObjectStore) Who(ctx context.Context, environment []string, otherwise Person) (author, committer Person) {
	var found Person
	for _, one := range []struct {
		key  string
		into *string
	}{{"user.name", &found.Name}, {"user.email", &found.Email}} {
		cmd := s.command(ctx, place{dir: os.DevNull}, "config", "--global", "--includes", "--get", one.key)
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return slices.Contains([]string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"}, name)
		})
		for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
			if value := variable(environment, name); value != "" {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
		}
		if out, err := s.run(cmd); err == nil {
			*one.into = strings.TrimSpace(string(out))
		}
	}
	made := func(kind string) Person {
		p := Person{variable(environment, "GIT_"+kind+"_NAME"), variable(environment, "GIT_"+kind+"_EMAIL")}
		if p.Name == "" {
			p.Name = found.Name
		}
		if p.Email == "" {
			p.Email = found.Email
		}
		if !p.isValid() {
			return otherwise
		}
		return p
	}
	return made("AUTHOR"), made("COMMITTER")
}

// isValid reports whether git can write the person into a commit.
func (p Person) isValid() bool {
	return p.Name != "" && !strings.ContainsAny(p.Name+p.Email, "<>\n\x00")
}

// variable returns the value of a variable. For a repeated name the last value counts.
func variable(environment []string, name string) (value string) {
	for _, one := range environment {
		if n, v, ok := strings.Cut(one, "="); ok && n == name {
			value = v
		}
	}
	return value
}
