// Command golem runs workers and foreign agents in a sandbox.
package main

import (
	_ "github.com/golem-forge/golem/internal/files/part" // processes of a jail end here, before Go initialises the other packages
	"github.com/golem-forge/golem/internal/front/acp"
	"github.com/golem-forge/golem/internal/front/cli"
	"github.com/golem-forge/golem/internal/front/desk"
	"github.com/golem-forge/golem/internal/front/mcp"
	"github.com/golem-forge/golem/internal/front/tui"
	"os"
)

func main() { os.Exit(cli.Main(mcp.Serve, desk.Serve, tui.Explore, acp.New)) }
