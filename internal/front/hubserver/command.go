// Package hubserver is the command line of golem-hub.
package hubserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/serve"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/version"
)

// flags are the flags of golem-hub.
type flags struct {
	data, listen, tls, storage, clusterListen, name string
	public, cluster                                 []string
	deadline                                        time.Duration
	replicas, maxJobs                               int
	restored, version                               bool
}

// Main runs golem-hub and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	out, errs := visible.NewWriter(stdout), visible.NewWriter(stderr)
	defer out.Close()
	defer errs.Close()
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := cmd.Execute()
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(errs, "golem hub:", err)
		return 2
	}
	fmt.Fprintln(errs, "golem hub:", err)
	return 1
}

// A usageError describes what is wrong with the arguments.
type usageError string

func (e usageError) Error() string { return string(e) }

func newCommand() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "golem-hub",
		Short: "Keep the jobs of a team, and give them to its machines",
		Long: `Keep the jobs of a team, and give them to its machines. golem hub starts this program.

The hub keeps everything in the directory of --data. What it has acknowledged is on disk.
On its first start it makes the credentials of an administrator there, in admin.creds.
golem hub invite makes credentials for nodes, submitters and approvers with them.

Connections from other machines are encrypted. Without --tls the hub makes a certificate of
its own, and puts it into the credentials.

Three hubs are one cluster: each has its own --data, with a copy of the first one's hub.json
and certificate.pem, and names the others with --cluster. One of them may die. Connections
between them are encrypted with a key that they derive from hub.json.`,
		Example: `  golem hub --data /var/lib/golem-hub
  golem hub --data /var/lib/golem-hub --listen :4222 --public hub.example.org:4222
  golem hub --data /var/lib/golem-hub --nats nats://nats.example.org:4222`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] != "version" || len(args) > 1) {
				return usageError(fmt.Sprintf("golem hub has no command %s; the commands are invite, users, revoke, nodes, prune and version, and golem hub without one starts a hub", visible.Line(args[0], 60)))
			}
			return nil
		},
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageError(err.Error() + "; golem-hub --help lists the flags")
	})
	cmd.Flags().StringVar(&f.data, "data", "", "the directory of the hub (default golem-hub in your state directory)")
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:4222", "the address for people and nodes")
	cmd.Flags().StringSliceVar(&f.public, "public", nil, "the HOST:PORT by which others reach the hub, for credentials")
	cmd.Flags().StringVar(&f.tls, "tls", "", "a certificate and its key, as CERT.pem,KEY.pem")
	cmd.Flags().StringVar(&f.storage, "nats", "", "the URL of a NATS server with JetStream, 2.10 or later, instead of the one in the hub")
	cmd.Flags().IntVar(&f.replicas, "replicas", 1, "with --nats: how many servers of its cluster keep each stream: 1, 3 or 5")
	cmd.Flags().IntVar(&f.maxJobs, "max-jobs", 0, "how many jobs of one submitter the hub keeps (default any number)")
	cmd.Flags().StringSliceVar(&f.cluster, "cluster", nil, "the other hubs of a cluster, as HOST:PORT")
	cmd.Flags().StringVar(&f.clusterListen, "cluster-listen", ":6222", "the address for the other hubs")
	cmd.Flags().StringVar(&f.name, "name", "", "the name of this hub in its cluster (default the name of the machine)")
	cmd.Flags().BoolVar(&f.restored, "restored", false, "the data is an older backup: put all jobs that are not over in doubt")
	cmd.Flags().DurationVar(&f.deadline, "deadline", 30*time.Second, "how long a node may be silent until its job is given to another")
	cmd.Flags().BoolVar(&f.version, "version", false, "print the version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.version || len(args) > 0 {
			fmt.Fprintln(cmd.OutOrStdout(), version.Current().Text("golem-hub"))
			return nil
		}
		return f.run(cmd)
	}
	return cmd
}

// run starts the hub, and stops it at a signal.
func (f *flags) run(cmd *cobra.Command) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	errs := cmd.ErrOrStderr()
	o.Tell = func(text string) { fmt.Fprintln(errs, "golem hub:", text) }
	s, err := serve.Start(o) // until it has started, a signal ends the process
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(errs, "golem hub: listening at %s, with its data in %s\n", strings.Join(s.Addresses(), ", "), o.Data)
	if host, _, _ := net.SplitHostPort(f.listen); len(f.public) == 0 && !hub.IsLoopback(host) && !isOneAddress(host) {
		fmt.Fprintln(errs, "golem hub: credentials name 127.0.0.1, which only this machine reaches; --public HOST:PORT names the address for others")
	}
	fmt.Fprintf(errs, "next: golem hub invite --data %s --role node --name NAME --out node.creds\n", o.Data)
	<-ctx.Done()
	fmt.Fprintln(errs, "golem hub: stopping")
	s.Close()
	return nil
}

// isOneAddress reports whether a host to listen at is a name or one address, not all of them.
func isOneAddress(host string) bool {
	ip := net.ParseIP(host)
	return host != "" && (ip == nil || !ip.IsUnspecified())
}

// options reads the flags.
func (f *flags) options() (o serve.Options, err error) {
	if f.data == "" {
		if f.data, err = DefaultData(); err != nil {
			return o, err
		}
	}
	if f.data, err = filepath.Abs(f.data); err != nil {
		return o, err
	}
	if f.deadline < time.Second || f.deadline > time.Hour {
		return o, usageError("--deadline is a time from 1s to 1h")
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return o, usageError(fmt.Sprintf("--listen %q is no address; an address is HOST:PORT, or :PORT for all addresses of this machine", f.listen))
	}
	o = serve.Options{Data: f.data, Listen: f.listen, Storage: f.storage, Deadline: f.deadline, Replicas: f.replicas, MaxJobs: f.maxJobs, Restored: f.restored, Now: time.Now}
	switch {
	case f.replicas != 1 && f.replicas != 3 && f.replicas != 5:
		return o, usageError("--replicas is 1, 3 or 5")
	case f.replicas > 1 && f.storage == "":
		return o, usageError("--replicas is for --nats; with --cluster every hub keeps everything")
	case f.maxJobs < 0:
		return o, usageError("--max-jobs is a number above 0")
	}
	scheme := "nats://"
	if f.tls != "" || !hub.IsLoopback(host) {
		scheme = "tls://"
		if o.TLS, o.CA, err = f.certificate(); err != nil {
			return o, err
		}
	}
	for _, at := range f.public {
		if _, _, err := net.SplitHostPort(at); err != nil {
			return o, usageError(fmt.Sprintf("--public %q is no address; an address is HOST:PORT", at))
		}
		o.Public = append(o.Public, scheme+at)
	}
	if len(f.cluster) > 0 {
		if f.storage != "" {
			return o, usageError("--nats names a server that has a cluster of its own; use --nats or --cluster")
		}
		if f.name == "" {
			if f.name, err = os.Hostname(); err != nil {
				return o, err
			}
		}
		o.Cluster = &serve.Cluster{Name: f.name, Listen: f.clusterListen, Routes: f.cluster}
	}
	return o, nil
}

// DefaultData returns the directory of a hub that was not given one.
func DefaultData() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "golem-hub"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usageError("no home directory; name a directory with --data")
	}
	return filepath.Join(home, ".local", "state", "golem-hub"), nil
}
