package profile

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/records/secret"
)

// A Key is a credential with which a program logs in at some hosts. If the network of the
// program is limited, golem adds the credential to requests, and the program gets a
// placeholder. The value comes from one of Variable, File and Secret.
type Key struct {
	Name     string   // of the credential
	Variable string   // an environment variable
	File     string   // a file of the home, in JSON, or lines NAME=value
	Field    string   // the field of the file: "tokens.access_token"
	Shared   bool     // the file may hold keys for other purposes, which stay as they are
	Secret   string   // a secret of golem secret
	As       string   // the variable in which the program gets the placeholder of a Secret
	Header   string   // as in the key credentials of the configuration
	Hosts    []string // the hosts that it is for
	Server   string   // the user's variable with the URL of another server instead
}

// Source describes where the value of a key comes from.
func (k Key) Source() string {
	switch {
	case k.Variable != "":
		return "$" + k.Variable
	case k.File != "":
		return "the login in ~/" + k.File
	}
	return "your secret " + k.Secret
}

// gitHosts are hosts from which every agent can clone and fetch. They take no data of
// somebody else by such requests.
func gitHosts() []string { return []string{"github.com", "gitlab.com"} }

// isTokenName reports whether a field of a file, or a variable, holds a credential.
func isTokenName(name string) bool {
	return slices.Contains([]string{"access", "refresh", "key"}, strings.ToLower(name)) || secret.IsName(name)
}
