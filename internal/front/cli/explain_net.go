package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
)

// explainNetwork prints whether commands of a worker may connect to a host.
func explainNetwork(cmd *cobra.Command, flags *programFlags, url, worker string) error {
	p, err := flags.open(opening{otherwise: defaultWorker})
	if err != nil {
		return err
	}
	s, err := p.Subject(worker)
	if err != nil {
		return usagef("--net %v", err)
	}
	a, err := s.Network(url)
	if err != nil {
		return usagef("--net %v", err)
	}
	err = printOr(cmd, a, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s\n", yesOrNo(a.Allowed, ""), visible.Text(a.Reason))
		rows := [][]string{{"from", visible.Text(a.From)}}
		if a.Rule != "" {
			rows = append(rows, []string{"rule", a.Rule})
		}
		if !a.Allowed && len(a.Hosts) > 0 {
			rows = append(rows, []string{"hosts", visible.Text(strings.Join(a.Hosts, ", "))})
		}
		if a.Worker != "" {
			rows = append(rows, []string{"worker", a.Worker})
		}
		if a.Trusted != nil {
			rows = append(rows, []string{"trust", "you do not trust this program yet; golem trust shows it"})
		}
		printColumns(w, rows)
	})
	return cmp.Or(err, exitIf(!a.Allowed, exitDenied))
}
