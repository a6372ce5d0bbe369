//go:build demo

package web

import "embed"

// Package holds the files of the npm package in the directory package, where scripts/npm --files
// makes them. The program has them only with the build tag demo.
//
//go:embed package
var Package embed.FS
