package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
)

// agentUser returns the user who runs golem, with the directory of their own profiles.
func agentUser() profile.User {
	home, _ := os.UserHomeDir()
	u := profile.User{Home: home, Getenv: os.Getenv}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		u.Profiles = filepath.Join(dir, "golem", "profiles")
	} else if filepath.IsAbs(home) {
		u.Profiles = filepath.Join(home, ".config", "golem", "profiles")
	}
	return u
}

// user returns the user who runs golem, with the profiles of the directory here if the command
// names a profile. Those are of no use without a name, and never in place of another one.
func (f *execFlags) user() (u profile.User, err error) {
	if u = agentUser(); f.profile != "" {
		if _, known := u.ProfileFor(f.profile, ""); known != nil {
			u.Repository, err = program.ReadProfiles(f.dir)
		}
	}
	return u, err
}

// exampleProfile is the example that --profile-help prints.
const exampleProfile = `description: aider, with a key of its own
extends: python
programs: [aider-chat]
files: [.config/aider/conventions.md]
env: [AIDER_MODEL, AIDER_CHECK_UPDATE=false]
hosts: [docs.example.com]
credentials:
  outside:
    - {from: env:OPENAI_API_KEY, header: "Authorization: Bearer ${value}", hosts: [api.openai.com]}
`

// printProfiles lists the profiles, and explains how to write one.
func printProfiles(cmd *cobra.Command) error {
	user := agentUser()
	list, err := user.All()
	if err != nil {
		return err
	}
	here, err := program.ReadProfiles(completionFlags(cmd).dir)
	if err != nil {
		return err
	}
	var unused []string
	for _, name := range here.Names() {
		p, err := here.Profile(user, name)
		if err != nil {
			unused = append(unused, visible.Line(err.Error(), 500))
			continue
		}
		list = append(list, p)
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), profilesJSON(list))
	}
	files, variables := profile.Common()
	isCommon := func(name string) bool { return slices.Contains(files, name) || slices.Contains(variables, name) }
	out := cmd.OutOrStdout()
	fmt.Fprint(out, "A profile lists the files, credentials and environment variables of yours that a command\ngets. golem picks it by the name of the command, or you name it:\ngolem exec --profile NAME -- CMD. Every built-in profile passes on your name and address\nfor git. All except plain also pass on the environment variables for proxies and certificates.\n\n")
	for _, p := range list {
		fmt.Fprintf(out, "  %-10s %s\n", p.Name, visible.Text(p.About))
		line := func(what string, names []string) {
			if len(names) > 0 {
				printWrapped(out, strings.Repeat(" ", 15), what+": "+visible.Text(strings.Join(names, ", ")))
			}
		}
		if p.InRepository {
			line("of this directory, only with --profile", []string{p.File})
		} else if p.File != "" {
			line("your own", []string{visible.HomeRelative(p.File, user.Home)})
		}
		line("also for", p.Programs)
		line("files", slices.DeleteFunc(slices.Clone(p.Copies), isCommon))
		line("credentials", slices.Concat(p.Logins, p.Keys))
		line("variables", slices.DeleteFunc(slices.Concat(p.Env, p.Set), isCommon))
		line("hosts", slices.Concat(p.Hosts, p.Reads))
		line("hosts that golem refuses without a question", p.Optional)
		if keys := describeKeys(p.Outside); keys != "" {
			line("keys that golem adds to requests", []string{keys})
		}
	}
	for _, text := range unused {
		fmt.Fprintln(out, "  not used: "+text)
	}
	fmt.Fprintf(out, `
To write your own, put a file NAME.yaml into %s.
golem uses it for the command NAME, in place of a built-in profile of that name. Every
key is optional. Paths are relative to your home directory. Without --net the command reaches the
hosts of its profile, and golem asks about others. Then the command does not get the keys
that golem adds to requests: it gets placeholders, and golem adds the keys outside the jail.
With --net on it reaches every host and gets the keys themselves. An example, aider.yaml:

`, visible.HomeRelative(user.Profiles, user.Home))
	for line := range strings.Lines(exampleProfile) {
		fmt.Fprint(out, "  "+line)
	}
	return nil
}

// printWrapped prints a text after an indent. At a terminal it breaks long lines, and
// indents further ones more.
func printWrapped(out io.Writer, indent, text string) {
	lines := []string{text}
	if columns, _ := newScreen(out).size(); columns > 0 {
		lines = wrapWords(text, max(columns-len(indent)-3, 20))
	}
	fmt.Fprintln(out, indent+lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintln(out, indent+"  "+line)
	}
}

// describeKeys describes the keys that golem adds to requests: where they come from, and
// which hosts get them.
func describeKeys(keys []profile.Key) string {
	var order, parts []string
	sources := map[string][]string{}
	for _, k := range keys {
		hosts := strings.Join(k.Hosts, ", ")
		if sources[hosts] == nil {
			order = append(order, hosts)
		}
		if !slices.Contains(sources[hosts], k.Source()) {
			sources[hosts] = append(sources[hosts], k.Source())
		}
	}
	for _, hosts := range order {
		parts = append(parts, strings.Join(sources[hosts], ", ")+", for "+hosts)
	}
	return strings.Join(parts, "; ")
}

// A profileJSON is a profile as --json prints it.
type profileJSON struct {
	Name            string    `json:"name"`
	Description     string    `json:"description"`
	File            string    `json:"file,omitempty"`
	Programs        []string  `json:"programs,omitempty"`
	Files           []string  `json:"files,omitempty"`
	Env             []string  `json:"env,omitempty"`
	CredentialFiles []string  `json:"credential_files,omitempty"`
	CredentialEnv   []string  `json:"credential_env,omitempty"`
	Hosts           []string  `json:"hosts,omitempty"`
	KeysOutside     []keyJSON `json:"keys_outside,omitempty"`
}

// A keyJSON is a key that golem adds to requests.
type keyJSON struct {
	From    string   `json:"from"`
	Hosts   []string `json:"hosts"`
	BaseURL string   `json:"base_url,omitempty"` // the variable with the address of another server
}

func profilesJSON(list []profile.Profile) []profileJSON {
	var all []profileJSON
	for _, p := range list {
		var keys []keyJSON
		for _, k := range p.Outside {
			keys = append(keys, keyJSON{k.Source(), k.Hosts, k.Server})
		}
		all = append(all, profileJSON{p.Name, p.About, p.File, p.Programs, p.Copies, slices.Concat(p.Env, p.Set), p.Logins, p.Keys, slices.Concat(p.Hosts, p.Reads), keys})
	}
	return all
}
