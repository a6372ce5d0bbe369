package golem_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/golem-forge/golem"
)

func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)

	ws, err := golem.Open(dir, golem.Options{State: state})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	out, err := ws.Exec(ctx, golem.Command{Args: []string{"sh", "-c", "echo hello >note.txt; echo written"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(out.Stdout)

	changes, err := ws.Changes(ctx)
	if err != nil {
		log.Fatal(err)
	}
	view := changes.Request().Render(72, 24)
	view.WriteTo(os.Stdout) // here somebody reads it
	seen, err := view.Seen()
	if err != nil {
		log.Fatal(err)
	}
	if err := ws.Apply(ctx, changes, seen.Approve("ann")); err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile(dir + "/note.txt")
	fmt.Print(string(content), err)
	// Output:
	// written
	//   You are about to create /note.txt (1 line; 6 bytes)
	//   (tool apply_changes, asked every time)
	//   @ @@ -0,0 +1 @@
	//   + hello
	// hello
	// <nil>
}
