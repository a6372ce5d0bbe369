package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
)

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
