//go:build !linux

package session

func (*Session) markMaker() error   { return nil }
func (*Session) unmarkMaker() error { return nil }
func (*Session) isAbandoned() bool  { return false }
