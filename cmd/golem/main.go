// Command golem is a boundary around programs that are not trusted: they get
// the files they were given, and nothing else.
package main

import (
	"os"

	"github.com/golem-forge/golem/internal/front/cli"
	"github.com/golem-forge/golem/internal/front/mcp"
	_ "github.com/golem-forge/golem/internal/front/part" // a process of a jail ends here, before the rest is initialised
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr, mcp.Serve)) }
