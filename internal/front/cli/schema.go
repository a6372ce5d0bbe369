package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/work/evaluation"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// schemas are the files that have a schema.
var schemas = []struct {
	name, title string
	key         func() strictyaml.Key
}{
	{"project", "The project file of a golem program", project.Schema},
	{"worker", "The keys of a golem worker file", worker.Schema},
	{"policy", "The administrator's policy for golem, /etc/golem/policy.yaml", project.PolicySchema},
	{"eval", "The cases of golem eval", evaluation.Schema},
	{"profile", "A profile of golem exec, ~/.config/golem/profiles/NAME.yaml or .golem/profiles/NAME.yaml", profile.Schema},
	{"config", "The user's configuration of golem, ~/.config/golem/config.yaml", project.ConfigSchema},
}

func newSchema() *cobra.Command {
	var names []string
	for _, s := range schemas {
		names = append(names, s.name)
	}
	return &cobra.Command{
		Use:   "schema project|worker|policy|config|profile|eval",
		Short: "Print a JSON Schema for the files that golem reads",
		Long: `Print the JSON Schema of the project file, of the keys of a worker file, of the
administrator's policy, of your own configuration, of a profile, or of a file with cases. Editors
complete and check the file with it. An editor finds the schema by a line such as

  # yaml-language-server: $schema=golem-forge.schema.json

golem lint checks more than a schema can, such as whether a directory exists.`,
		Example:   "  golem schema project > golem-forge.schema.json\n  golem schema policy",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("schema of what? golem schema project, worker, policy, config, profile or eval")
			}
			if !slices.Contains(names, args[0]) {
				return usagef("no schema %s; %s", sandbox.Shown(args[0]), didYouMean(args[0], "golem schema ", names))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := schemas[slices.Index(names, args[0])]
			data, err := s.key().JSONSchema(s.title)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
}
