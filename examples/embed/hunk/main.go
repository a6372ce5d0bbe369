// Command hunk runs a command over the current directory: hunk FILE COMMAND [ARGUMENT …]. It shows
// the first change of the file, and applies that change, and nothing else, after a yes.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/golem-forge/golem"
)

func main() {
	ctx := context.Background()
	ws, err := golem.Open(".", golem.FromEnvironment())
	check(err)
	_, err = ws.Exec(ctx, golem.Command{Args: os.Args[2:], Out: os.Stdout})
	check(err)
	changes, err := ws.Changes(ctx)
	check(err)
	hunk := changes.PickHunks(os.Args[1], 1)
	check(hunk.Err())
	view := hunk.Request().Render(80, 24)
	view.WriteTo(os.Stdout)
	seen, err := view.Seen()
	check(err)
	var answer string
	fmt.Print("Apply it? [y/n] ")
	if fmt.Scanln(&answer); answer == "y" {
		check(ws.Apply(ctx, hunk, seen.Approve("me")))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
