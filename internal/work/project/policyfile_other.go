//go:build !unix

package project

// PolicyFile is the administrator's policy; this system has none.
const PolicyFile = ""

// ReadPolicy returns nil: this system has no policy.
func ReadPolicy() ([]byte, error) { return nil, nil }
