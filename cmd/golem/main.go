// Command golem runs workers and foreign agents in a sandbox.
package main

import (
	"os"

	_ "github.com/golem-forge/golem/internal/files/part" // processes of a jail end here, before Go initialises the other packages
	"github.com/golem-forge/golem/internal/front/cli"
	"github.com/golem-forge/golem/internal/front/desk"
	"github.com/golem-forge/golem/internal/front/mcp"
	"github.com/golem-forge/golem/internal/front/tui"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr, mcp.Serve, desk.Serve, tui.Explore)) }
