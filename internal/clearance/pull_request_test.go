package clearance_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
)

// TestSplitHub checks which repository on which server an address means.
func TestSplitHub(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/o/r.git":           "https://github.com o/r",
		"https://github.com/o/r/":              "https://github.com o/r",
		"git@github.com:o/r.git":               "https://github.com o/r",
		"github.com:o/r":                       "https://github.com o/r",
		"ssh://git@github.com:22/o/r.git":      "https://github.com o/r",
		"https://me:secret@github.com/o/r.git": "https://github.com o/r",
		"o/r":                                  "https://github.com o/r",
		"github.example.com/o/r":               "https://github.example.com o/r",
		"https://github.example.com:8443/o/r":  "https://github.example.com:8443 o/r",
		"http://127.0.0.1:4711/o/r":            "http://127.0.0.1:4711 o/r",
		"http://github.com/o/r":                "",
		"file:///o/r":                          "",
		"/o/r":                                 "",
		"../o/r":                               "",
		"C:/o/r":                               "https://C o/r",
		"https://gitlab.com/a/b/c":             "",
		"o":                                    "",
		"":                                     "",
		"https://github.com/o/..":              "",
		"git@-x:o/r":                           "",
	} {
		server, repo, ok := clearance.SplitHub(address)
		got := server + " " + repo
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
