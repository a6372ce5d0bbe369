package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/node"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

// skewedNode is a node whose clock is wrong: skewed-node CREDENTIALS DIR HOURS.
func skewedNode() {
	var hours int
	fmt.Sscan(os.Args[3], &hours)
	now := func() time.Time { return time.Now().Add(time.Duration(hours) * time.Hour) }
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	creds, err := hub.ReadCredentials(os.Args[1])
	fail(err)
	client, err := hub.Connect(context.Background(), creds, hub.Options{})
	fail(err)
	limits := &job.Limits{}
	fail(limits.ParseReach("all"))
	fail(node.Run(context.Background(), node.Options{Client: client, Dir: os.Args[2], Slots: 1, Hold: 100 * time.Millisecond, Now: now, Tell: func(text string) { fmt.Println(text) },
		Program: program.Options{StateHome: os.Args[2], Environ: os.Environ(), Now: now}, Limits: limits,
		OpenModel: func(p *program.Program, name string, _ *network.OwnRequests) (run.Choice, error) {
			m, err := models.Open(models.Options{Spec: name, Env: os.LookupEnv, Read: func(file string) ([]byte, error) {
				return os.ReadFile(filepath.Join(string(p.Root()), file))
			}})
			return run.Choice{Name: name, Model: m}, err
		}}))
}

// TestSkew lets jobs move between nodes whose clocks are one hour fast and one hour slow.
func TestSkew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	w.approving()
	for name, hours := range map[string]string{"fast": "1", "slow": "-1"} {
		creds := filepath.Join(s.dir, name+".creds")
		must(t, s.invite(hub.Node, name).Write(creds))
		s.nodes[name] = s.start(name, "skewed-node", creds, filepath.Join(s.dir, "node-"+name), hours)
	}
	var ids []string
	for i := range 8 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	jobs := w.await(ids, 2*time.Minute)
	w.check(jobs)
	for id, j := range jobs {
		if j.State != hub.Done {
			t.Errorf("job %s: got %s, %s", id, j.State, j.Result.Why)
		}
	}
}
