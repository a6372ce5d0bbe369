//go:build !demo

package web

import "embed"

// Package is empty without the build tag demo.
var Package embed.FS
