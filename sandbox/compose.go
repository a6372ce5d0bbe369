//go:build !js

package sandbox

import "golang.org/x/text/unicode/norm"

// compose returns a text in normal form NFC.
func compose(text string) string {
	if norm.NFC.IsNormalString(text) { // String allocates
		return text
	}
	return norm.NFC.String(text)
}
