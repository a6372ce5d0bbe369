package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	_ "github.com/golem-forge/golem/internal/files/part" // processes of a jail end here
	"github.com/golem-forge/golem/internal/front/cli"
)

// TestMain makes golem and golem-hub commands of this test binary.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"golem":     func() { os.Exit(cli.Main(nil, nil, nil, nil)) },
		"golem-hub": main, "nats-server": natsServer, "skewed-node": skewedNode,
	})
}
