//go:build !js

package main

import (
	"fmt"
	"os"
)

func serve() {
	fmt.Fprintln(os.Stderr, "golem-wasm: this program is for browsers; build it with GOOS=js GOARCH=wasm")
	os.Exit(2)
}
