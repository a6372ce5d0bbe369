package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/node"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/version"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/model/prices"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

func newNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Do the jobs of a hub on this machine",
		Long: `Do the jobs of a hub on this machine, until Ctrl-C. Each job runs as golem run does: its files
in a directory of its own, its commands in the jail, its calls through the gate. Models use
the keys of this machine at their vendors. A job gets no other environment variable or secret
of yours, unless --pass names it: then every submitter can use it for any host.

A job reaches public hosts only. --reach names what else every job may use: a host of your own
network, a model server, a git server to push to, or a file or socket outside the job. A job
that needs more fails, and says which flag would allow it.

After every call the node sends a checkpoint to the hub. If the node dies, another one
continues the job from there. A job that waits for an approval keeps its slot for the time of
--hold; then any node can continue it.

Ctrl-C stops each job after its current call and gives it back. A second Ctrl-C ends the node
at once.`,
		Example: `  golem node --creds node.creds
  golem node --creds node.creds --slots 4 --label gpu
  golem node --creds node.creds --pass GITHUB_TOKEN --reach github.com`,
		Args: noArgs,
	}
	f := addHubFlags(cmd)
	o := node.Options{Price: prices.Cost, Now: time.Now}
	var labels, passed, reach []string
	limits := &job.Limits{}
	cmd.Flags().IntVar(&o.Slots, "slots", max(1, runtime.NumCPU()/2), "how many jobs to do at once")
	cmd.Flags().StringSliceVar(&labels, "label", nil, "what this machine offers, such as gpu; jobs can demand labels")
	cmd.Flags().DurationVar(&o.Hold, "hold", 30*time.Second, "how long a job that waits for an approval keeps its slot")
	cmd.Flags().StringSliceVar(&passed, "pass", nil, "an environment variable or secret of yours that every job may use")
	cmd.Flags().StringSliceVar(&reach, "reach", nil, "a host with a private address, a git server, a model server, or a file or socket by its path, that every job may use; all for every host")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "the directory for jobs in work (default golem-node in your state directory)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if o.Slots < 1 || o.Slots > 1000 {
			return usageError("--slots is a number from 1 to 1000")
		}
		if o.Labels, err = hub.CheckLabels(labels); err != nil {
			return usageError("--label: " + err.Error())
		}
		limits.Names = passed
		for _, text := range reach {
			if err := limits.ParseReach(text); err != nil {
				return usagef("--reach: %v", err)
			}
		}
		flags := &programFlags{dir: "."}
		if o.Program, err = flags.options(); err != nil {
			return err
		}
		if o.Dir == "" {
			o.Dir = filepath.Join(o.Program.StateHome, "golem-node")
		}
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return err
		}
		o.Program.Environ, o.Program.Secret, o.Limits = jobEnvironment(os.Environ(), passed), passedSecret(passed), limits
		o.Version = version.Release
		o.Secrets, o.OpenModel = secrets(os.Environ()), jobModels(limits)
		tell := newTeller(cmd.ErrOrStderr())
		o.Tell = func(text string) { tell("golem node: " + text) }
		credentials, err := f.credentials()
		if err != nil {
			return err
		}
		if role := credentials.Role; role != hub.Node {
			return usagef("these credentials are for the role %s; golem hub invite --role node makes some for a node", role)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if o.Client, err = hub.Connect(ctx, credentials, hub.Options{OnChange: o.Tell}); err != nil {
			return err
		}
		defer o.Client.Close()
		go func() { // the second signal ends the process
			<-ctx.Done()
			if cmd.Context().Err() == nil {
				o.Tell("stopping after the current calls; press Ctrl-C again to end at once")
			}
			stop()
		}()
		o.Tell(fmt.Sprintf("%s offers %d slots to the hub at %s", o.Client.Name, o.Slots, o.Client.URLs[0]))
		return node.Run(ctx, o)
	}
	return cmd
}

// newTeller returns a function that prints lines whole, from any goroutine.
func newTeller(w io.Writer) func(text string) {
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, visible.Line(text, maxTold))
	}
}

// maxTold limits a line of a node. Names and reasons of jobs come from others.
const maxTold = 2000

// jobEnvironment returns the environment that jobs can name in their project files: what
// programs need to start, and what the user passes. golem run gives a program everything,
// because the user trusts it. Here only its submitter does.
func jobEnvironment(all, passed []string) (list []string) {
	needed := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "SYSTEMROOT"}
	for _, one := range all {
		name, _, _ := strings.Cut(one, "=")
		if slices.Contains(needed, name) || strings.HasPrefix(name, "LC_") || slices.Contains(passed, name) {
			list = append(list, one)
		}
	}
	return list
}

// passedSecret returns a function that finds the secrets of the user that jobs may use.
func passedSecret(passed []string) func(name string) (string, error) {
	return func(name string) (string, error) {
		if !slices.Contains(passed, name) {
			return "", usagef("this node does not pass the secret %s to jobs; golem node --pass %s does", sandbox.Shown(name), sandbox.Shown(name))
		}
		return findSecret(name)
	}
}

// jobModels returns the function that opens the models of jobs. A job can name the variable of
// a key only if the user passes it: its project file also names the server that gets the key.
func jobModels(limits *job.Limits) func(*program.Program, string, *network.OwnRequests) (run.Choice, error) {
	return func(p *program.Program, name string, requests *network.OwnRequests) (run.Choice, error) {
		if key := p.Project.ModelServer.Key; key != "" && !slices.Contains(limits.Names, key) {
			return run.Choice{}, usagef("this node does not pass the key %s to jobs; golem node --pass %s does", sandbox.Shown(key), sandbox.Shown(key))
		}
		return openJobModel(p, name, requests, limits.MayReach)
	}
}

// openJobModel opens the model of a job. Files of scripted models are in the job's program.
func openJobModel(p *program.Program, name string, requests *network.OwnRequests, mayUse func(host string) bool) (run.Choice, error) {
	if name == "" {
		name = p.EntryModel()
	}
	if name == "" {
		return run.Choice{}, usageError("the job names no model; submit it again with --model")
	}
	if err := program.CheckModel(p.Project.Ceiling, name, "submit the job again with one of them as --model"); err != nil {
		return run.Choice{}, err
	}
	server := p.Project.ModelServer
	if slices.ContainsFunc(p.Workers, func(w *worker.Worker) bool { return w != p.Entry && w.Model.Text == name }) {
		server = serverFor(p, p.EntryModel(), name)
	}
	root := string(p.Root())
	m, err := models.Open(models.Options{Spec: name, Base: server.URL, KeyName: server.Key, API: models.API(server.API), ByProject: true, MayUse: mayUse, Env: os.LookupEnv,
		Check:   func(server string) error { return program.CheckServer(p.Project.Ceiling, name, server) },
		Keyring: func(_, vendor string) (string, error) { return findSecret(vendor) }, Transport: requests,
		Read: func(file string) ([]byte, error) { return readInside(root, file) }})
	if err != nil {
		return run.Choice{}, err
	}
	return run.Choice{Name: name, Model: model.Retrying(m, model.Retry{Jitter: func() float64 { return 0.5 + rand.Float64()/2 }, Tell: func(*model.Error, int, time.Duration) {}})}, nil
}

// readInside reads a file of a program. A job must not name files of the machine.
func readInside(root, name string) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, usagef("%s is outside the program; a job can use only files of its program", name)
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadFile(name)
}
