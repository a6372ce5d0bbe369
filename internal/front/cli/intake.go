package cli

import (
	"errors"
	"math"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/work/toolset/web"
)

func newIntake() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "intake FILE|URL…",
		Short: "Bring documents of strangers in, as text, into an untrusted mount",
		Long: `Store documents of strangers in a mount with trust: untrusted, so that a worker that reads
them is tainted. golem gets addresses from the hosts that web_fetch reaches (network.fetch).

A document with a converter below intake in golem-forge.config.yaml becomes text and images.
The converter runs at the level container, in a jail without a network and without any
directory of yours: it gets the document, and can change only its own results. If it fails,
hangs or makes too much, golem stores nothing and says why. Plain text needs no converter.

Each document gets a new directory, such as /in/report.pdf-3f2a9c1d, with the document, the
results and origin.json: address, hash, time, converter. The journal has the same. The
scanners of golem scan look at all of it. What they hold back is not stored without
--override.

Exit code 0: all stored; 1: some failed, or a scanner holds them back; 2: wrong arguments;
3: declined, or the address is not allowed; 5: no jail at the level that the converter needs.`,
		Example: `  golem intake report.pdf
  golem intake --to /in/mail mail/*.docx
  golem intake https://docs.example.org/manual.html`,
	}
	f := addGateFlags(cmd)
	var a web.IntakeArgs
	cmd.Flags().StringVar(&a.To, "to", "", "a directory in an untrusted mount, such as /in; the only untrusted mount if not given")
	cmd.Flags().StringVar(&a.Jail, "jail", "", "the weakest level to accept for the converter: container, namespaces or landlock; container if not given")
	cmd.Flags().BoolVar(&a.Raw, "raw", false, "store the documents as they are, and convert nothing")
	cmd.Flags().StringVar(&a.Override, "override", "", "store what a scanner holds back, with your reason; the journal records it")
	cmd.Flags().StringVar(&a.SHA256, "sha256", "", "refuse the document if it has another SHA-256")
	cmd.Args = takesArgs(1, math.MaxInt, "intake what? golem intake FILE|URL…")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 && (wantsJSON(cmd) || a.SHA256 != "") {
			return usageError("--json and --sha256 are for one document")
		}
		var failed error
		for _, a.Source = range args {
			c := newUserCall(cmd, f, a)
			c.doing, c.otherwise = "reading the document", sessionOrDirectory
			switch err := c.run(); {
			case errors.As(err, new(exit)): // printed; the other documents may be fine
				failed = err
			case err != nil:
				return err
			}
		}
		return failed
	}
	return cmd
}
