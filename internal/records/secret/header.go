package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

var headerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`) })

// IsHeader reports whether a text is the name of a header.
func IsHeader(name string) bool { return headerName().MatchString(name) }

// IsOwnedHeader reports whether golem sets a header itself, so that no file may.
func IsOwnedHeader(name string) bool {
	return slices.Contains([]string{"content-type", "content-length", "host", "transfer-encoding", "connection", "user-agent", "upgrade", "trailer", "te"}, strings.ToLower(name))
}

// CheckHeader returns what is wrong with the header that carries a credential, such as
// "Authorization: Bearer ${value}", and "" if it is valid. It does not quote the text, which
// may have a secret in it.
func CheckHeader(text string) string {
	name, value, ok := strings.Cut(text, ":")
	switch {
	case !ok || !IsHeader(name):
		return "no name of a header before a colon"
	case IsOwnedHeader(name):
		return name + " is not for you to set"
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return "a character that is not plain ASCII"
	}
	found := 0
	for rest := value; ; found++ {
		_, after, ok := strings.Cut(rest, "$")
		if !ok {
			break
		}
		inner, closed := strings.CutPrefix(after, "{")
		variable, more, ended := strings.Cut(inner, "}")
		user, isBasic := strings.CutPrefix(variable, "basic:")
		if !closed || !ended || variable != "value" && (!isBasic || user == "" || strings.Contains(user, ":")) {
			return "a $ that is neither ${value} nor ${basic:USER}"
		}
		rest = more
	}
	if found != 1 {
		return "it has no ${value}, or more than one"
	}
	return ""
}
