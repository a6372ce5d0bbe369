//go:build !js

package visible

import "golang.org/x/text/unicode/norm"

// decompose returns a character in normal form NFKC, such as "K" for the Kelvin sign.
func decompose(r rune) string { return norm.NFKC.String(string(r)) }
