//go:build !js

package review

import "golang.org/x/text/unicode/norm"

// compose returns a text in normal form NFC.
func compose(text string) string { return norm.NFC.String(text) }

// decompose returns a text in normal form NFD.
func decompose(text string) string { return norm.NFD.String(text) }
