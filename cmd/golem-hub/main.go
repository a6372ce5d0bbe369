// Command golem-hub keeps the jobs of a team and gives them to its machines.
package main

import (
	"os"

	"github.com/golem-forge/golem/internal/front/hubserver"
)

func main() { os.Exit(hubserver.Main(os.Args[1:], os.Stdout, os.Stderr)) }
