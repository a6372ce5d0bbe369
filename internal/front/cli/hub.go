package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

// hubFlags name the credentials for a hub.
type hubFlags struct {
	creds string
	data  string // the directory of a hub on this machine, which has those of its administrator
}

func addHubFlags(cmd *cobra.Command) *hubFlags {
	f := &hubFlags{}
	cmd.Flags().StringVar(&f.creds, "creds", "", "your credentials for the hub (GOLEM_HUB; default hub.creds beside your configuration)")
	return f
}

// credentials reads the credentials of the flags, of GOLEM_HUB, or of the file beside the user's
// configuration.
func (f *hubFlags) credentials() (hub.Credentials, error) {
	file := cmp.Or(f.creds, os.Getenv("GOLEM_HUB"), hubOfConfig())
	if f.data != "" {
		if f.creds != "" {
			return hub.Credentials{}, usageError("--data and --creds name the credentials; use one of them")
		}
		file = filepath.Join(f.data, "admin.creds")
	}
	if file == "" {
		home, _ := os.UserHomeDir()
		config := configFile(home)
		if config == "" {
			return hub.Credentials{}, usageError("no home directory; name the credentials for the hub with --creds")
		}
		file = filepath.Join(filepath.Dir(config), "hub.creds")
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return hub.Credentials{}, usagef("no credentials for a hub; an administrator makes them with golem hub invite; put them into %s, or name them with --creds or GOLEM_HUB", file)
		}
	}
	c, err := hub.ReadCredentials(file)
	if err != nil {
		return c, usageError(err.Error())
	}
	return c, nil
}

// hubOfConfig returns the file with the credentials for a hub that the user's configuration
// names, or "". Then commands use the hub without --hub.
func hubOfConfig() string {
	file := preferences().Hub
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		home, _ := os.UserHomeDir()
		return filepath.Join(home, rest)
	}
	return file
}

const (
	// hubPatience is how long a command waits for a hub that does not answer.
	hubPatience = 20 * time.Second
	// longHubPatience is how long it waits in the middle of its work, such as with files on their way.
	longHubPatience = time.Minute
)

// connect connects to the hub. It tries again for a while if the hub does not answer.
func (f *hubFlags) connect(cmd *cobra.Command) (*hub.Client, error) {
	c, err := f.credentials()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
	defer cancel()
	tell := newTeller(cmd.ErrOrStderr())
	return hub.Connect(ctx, c, hub.Options{OnChange: func(text string) { tell("golem: " + text) }, Patience: longHubPatience})
}

// ask calls do with a connection, and with a context that ends after a while.
func (f *hubFlags) ask(cmd *cobra.Command, do func(ctx context.Context, c *hub.Client) error) error {
	c, err := f.connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
	defer cancel()
	return inbox.HubError(do(ctx, c))
}

func newHub() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Keep the jobs of a team, and invite people and machines",
		Long: `Start a hub: it keeps the jobs of a team, gives them to its machines, and brings every call
that needs approval to the people who may approve. This starts the program golem-hub, which
must be beside golem or in PATH. golem-hub --help lists its flags.

golem hub invite makes credentials for a role: submit makes jobs, node does them, approve
decides about their calls, and admin invites others. A node can never decide.`,
		Example: `  golem hub --data /var/lib/golem-hub --listen :4222 --public hub.example.org:4222
  golem hub invite --data /var/lib/golem-hub --role node --name build-1 --out node.creds
  golem hub users`,
		DisableFlagParsing: true,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, word := range args {
			if word == "--help" || word == "-h" {
				return cmd.Help()
			}
		}
		return startHub(args)
	}
	cmd.AddCommand(newHubInvite(), newHubUsers(), newHubRevoke(), newHubNodes(), newHubPrune())
	return cmd
}

// findHub returns the program golem-hub: beside this one, or in PATH.
func findHub() (string, error) {
	name := "golem-hub" + exeSuffix
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		if file := filepath.Join(filepath.Dir(self), name); isProgram(file) {
			return file, nil
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if file := filepath.Join(dir, name); filepath.IsAbs(file) && isProgram(file) {
			return file, nil
		}
	}
	return "", usageError("golem-hub is not installed: it is a program of its own, because it is large; make build-hub in golem's repository builds bin/golem-hub; put it beside golem or into PATH")
}

func isProgram(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// addAdminFlags adds the flags that name the credentials of an administrator.
func addAdminFlags(cmd *cobra.Command) *hubFlags {
	f := addHubFlags(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", "the directory of a hub on this machine, which has the credentials of its administrator")
	return f
}

func newHubInvite() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "invite --role ROLE --name NAME",
		Short: "Make credentials for a person or a machine",
		Long: `Make credentials for a person or a machine, and print them. They are secret: the role belongs
to everybody who has the file. The hub stores only the public key. --out writes them to a new file that only
you can read.

Roles: submit makes jobs and reads its own; node does jobs; approve decides about calls and
makes jobs; admin invites, revokes, and reads and cancels all jobs.`,
		Example: `  golem hub invite --data /var/lib/golem-hub --role node --name build-1 --out node.creds
  golem hub invite --role approve --name reviewer --out reviewer.creds`,
		Args: noArgs,
	}
	f := addAdminFlags(cmd)
	var role, name, file string
	cmd.Flags().StringVar(&role, "role", "", "submit, node, approve or admin")
	cmd.Flags().StringVar(&name, "name", "", "who gets them, for lists and the journal")
	cmd.Flags().StringVar(&file, "out", "", "write them to this new file, which only you can read")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if role == "" || name == "" {
			return usageError("invite whom? golem hub invite --role node --name build-1 --out node.creds; the roles are submit, node, approve and admin")
		}
		if _, err := os.Lstat(file); file != "" && err == nil {
			return usagef("--out %s: the file exists; name another one, or remove it", sandbox.Shown(file))
		}
		r, err := hub.ParseRole(role)
		if err != nil {
			return usageError(err.Error())
		}
		seed, key, err := hub.NewSeed()
		if err != nil {
			return err
		}
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			if err := c.Invite(ctx, hub.Invitation{Key: key, Role: r, Name: name}); err != nil {
				return err
			}
			made := c.Credentials
			made.Role, made.Name, made.Seed = r, name, seed
			if file != "" {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					return err
				}
				return made.Write(file)
			}
			text, err := made.Text()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		})
	}
	return cmd
}

func newHubUsers() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "users",
		Short:   "List who may use the hub",
		Long:    "List the people and machines that were invited to the hub, with their roles and keys.",
		Example: "  golem hub users\n  golem hub users --data /var/lib/golem-hub",
		Args:    noArgs,
	}
	f := addAdminFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			list, err := c.Users(ctx)
			if err != nil {
				return err
			}
			rows := [][]string{{"NAME", "ROLE", "KEY", "INVITED"}}
			for _, u := range list {
				invited := minute(u.Invited)
				if u.Revoked {
					invited = "revoked"
				}
				rows = append(rows, []string{visible.Line(u.Name, maxColumns), string(u.Role), u.Key, invited})
			}
			return printOr(cmd, list, func(w io.Writer) { printColumns(w, rows) })
		})
	}
	return cmd
}

func newHubRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke NAME|KEY",
		Short: "Make credentials useless",
		Long: `Make the credentials of a name or a key useless, at once. Jobs of a revoked node are given to
another node when its deadline is over. To replace a key, invite the name again, and then revoke
the old key: golem hub users lists the keys. A name stands for all its keys.`,
		Example: "  golem hub revoke build-1\n  golem hub revoke build-1 --data /var/lib/golem-hub",
		Args:    takesArgs(1, 1, "revoke whom? golem hub revoke NAME; golem hub users lists them"),
	}
	f := addAdminFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			n, err := c.Revoke(ctx, args[0])
			if err != nil {
				return err
			}
			return printLineOr(cmd, map[string]any{"revoked": n}, "revoked %s of %s", visible.Count(n, "key"), sandbox.Shown(args[0]))
		})
	}
	return cmd
}

func newHubNodes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the machines that do jobs",
		Long: `List the machines that have offered slots to the hub: how many, their labels, the jobs that
they work on, the version of their golem, and when the hub last heard of them. A machine that
is connected asks for work, or beats, every few seconds.`,
		Example: "  golem hub nodes\n  golem hub nodes --data /var/lib/golem-hub --json",
		Args:    noArgs,
	}
	f := addAdminFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			list, err := c.Nodes(ctx)
			if err != nil {
				return err
			}
			for i, n := range list { // a node chooses its version
				list[i].Name, list[i].Version = visible.Line(n.Name, maxColumns), visible.Line(n.Version, maxColumns)
			}
			var rows [][]string
			for _, n := range list {
				rows = append(rows, []string{n.Name, strconv.Itoa(len(n.Jobs)), strconv.Itoa(n.Slots), strings.Join(n.Labels, ","), n.Version, age(n.Seen)})
			}
			return printTableOr(cmd, list, "no nodes; golem node --creds node.creds offers a machine", []string{"NODE", "JOBS", "SLOTS", "LABELS", "VERSION", "SEEN"}, rows)
		})
	}
	return cmd
}

func newHubPrune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune --older TIME",
		Short: "Remove old jobs that are over",
		Long: `Remove jobs that are done, failed or cancelled and have not changed for a while, with their files,
events and decisions. Jobs that wait, run or are in doubt stay. Files that other jobs of the
same submitter use stay, too. --dry-run only counts the jobs. An administrator may do this;
golem jobs rm removes jobs of your own.`,
		Example: "  golem hub prune --older 30d --dry-run\n  golem hub prune --older 30d --data /var/lib/golem-hub\n  golem hub prune --older 2w --user build",
		Args:    noArgs,
	}
	f := addAdminFlags(cmd)
	var older days
	var user string
	var dry bool
	cmd.Flags().Var(&older, "older", "jobs that have not changed for this long: 30d, 720h")
	cmd.Flags().StringVar(&user, "user", "", "only jobs of the submitter with this name or key")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only count the jobs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if older == 0 {
			return usageError("prune what? golem hub prune --older 30d removes jobs that are over and have not changed for 30 days")
		}
		c, err := f.connect(cmd)
		if err != nil {
			return err
		}
		defer c.Close()
		n, err := c.Prune(cmd.Context(), hub.Prune{Before: time.Now().Add(-time.Duration(older)), User: user, Dry: dry})
		if err != nil {
			return inbox.HubError(err)
		}
		word := "removed"
		if dry {
			word = "would remove"
		}
		return printLineOr(cmd, map[string]any{"jobs": n, "removed": !dry}, "%s %s", word, visible.Count(n, "job"))
	}
	return cmd
}
