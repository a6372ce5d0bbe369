package git

import (
	"context"
	"os"
	"slices"
	"strings"
)

// Who returns who commits for the user of an environment: by the variables of git,
// or by the user's own configuration, never a repository's. Where neither says, it is
// otherwise.
func (s *Store) Who(ctx context.Context, environment []string, otherwise Person) (author, committer Person) {
	var said Person
	for _, one := range []struct {
		key  string
		into *string
	}{{"user.name", &said.Name}, {"user.email", &said.Email}} {
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
			p.Name = said.Name
		}
		if p.Email == "" {
			p.Email = said.Email
		}
		if !p.fits() {
			return otherwise
		}
		return p
	}
	return made("AUTHOR"), made("COMMITTER")
}

// fits reports whether git can write a person down.
func (p Person) fits() bool { return p.Name != "" && !strings.ContainsAny(p.Name+p.Email, "<>\n\x00") }

// variable returns the value of a variable, the last if there are several.
func variable(environment []string, name string) (value string) {
	for _, one := range environment {
		if n, v, ok := strings.Cut(one, "="); ok && n == name {
			value = v
		}
	}
	return value
}
