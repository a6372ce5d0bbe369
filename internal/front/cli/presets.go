package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
)

// A presetDocument is a set of hosts for --json.
type presetDocument struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Hosts   []string `json:"hosts"`
	Used    bool     `json:"used"` // the program uses it
	Problem string   `json:"problem,omitempty"`
}

// printPresets prints the sets of hosts, with the hosts that they have here.
func printPresets(cmd *cobra.Command, p *program.Program) error {
	list := []presetDocument{}
	rows := [][]string{{"preset", "used", "hosts", "from"}}
	for _, s := range p.FindPresets(cmd.Context(), policy.PresetNames()) {
		d := presetDocument{Name: s.Name, About: s.About, Hosts: append([]string{}, s.Hosts.Patterns()...), Used: slices.Contains(p.Project.Presets, s.Name)}
		if s.Err != nil {
			d.Problem = s.Err.Error()
		}
		list = append(list, d)
		for i, host := range append(d.Hosts, cmp.Or(visible.Text(d.Problem), "none")) {
			if i == len(d.Hosts) && i > 0 {
				break
			}
			row := []string{"", "", visible.Text(host), ""}
			if i == 0 {
				row = []string{d.Name, yesOrNo(d.Used, ""), visible.Text(host), d.About}
			}
			rows = append(rows, row)
		}
	}
	return printOr(cmd, map[string]any{"presets": list}, func(w io.Writer) {
		printColumns(w, rows)
		fmt.Fprintln(w, "network.presets in golem-forge.config.yaml adds them to the hosts of a program, and\ngolem exec --net +PRESET to those of one call. Commands can only read there.")
	})
}
