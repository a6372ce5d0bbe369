package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/sandbox"
)

// explainRefused prints which hosts a command that failed could not reach, and the line
// that allows them. At the level landlock golem does not see which hosts a command without a
// network asks for.
func (f *execFlags) explainRefused(w io.Writer, hosts policy.Hosts, args []string, ran jail.Result) {
	r := ran.Refused
	if len(r.Hosts) == 0 {
		if hosts.IsEmpty() && ran.Level == jail.Landlock {
			fmt.Fprintln(w, "golem: the network was off; if the command needs a host: "+typeAgain(args, []string{f.net}, "--net", "HOST"))
		}
		return
	}
	why := "golem refused what is not on the list of hosts"
	if hosts.IsEmpty() {
		why = "the network was off"
	}
	fmt.Fprintf(w, "golem: %s; %s %s\n", why, visible.Text(sandbox.Shown(filepath.Base(args[0]))), r)
	if r.Denied != "" {
		fmt.Fprintf(w, "golem: it is %s; golem explain --net HOST says what decides about a host\n", visible.Text(r.Denied))
	}
	if len(r.Add) == 0 {
		if r.Denied != "" {
			return
		}
		fmt.Fprintln(w, "golem: golem audit show --net lists them; --net +HOST allows one")
		return
	}
	net := strings.Join(r.Add, ",")
	if list := strings.TrimPrefix(f.net, "+"); list != "" && list != "off" { // keep those of the user
		net = "+" + strings.ReplaceAll(list, ",", ",+") + "," + net
		net = strings.ReplaceAll(net, "++", "+")
	}
	them := "them"
	if len(r.Hosts) == 1 {
		them = "it"
	}
	fmt.Fprintf(w, "golem: to allow %s: %s\n", them, typeAgain(args, []string{f.net}, "--net", net))
}

// explainLimits prints which limits a command reached, and the line that doubles them.
func (f *execFlags) explainLimits(w io.Writer, args []string, ran jail.Result) {
	if len(ran.Hit) == 0 {
		return
	}
	var limits []string
	for _, l := range ran.Hit {
		limits = append(limits, string(l)+", "+ran.Describe(l))
	}
	text := "it reached its limit of " + strings.Join(limits, ", and of ")
	settings := slices.DeleteFunc(ran.Settings(), func(set string) bool { return !strings.HasPrefix(set, "limits.") })
	if len(settings) == 0 {
		fmt.Fprintln(w, "golem: "+text)
		return
	}
	var old []string // the settings of the user that these replace
	for _, set := range f.set {
		name, _, _ := strings.Cut(set, "=")
		if slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			old = append(old, set)
		}
	}
	fmt.Fprintf(w, "golem: %s; to raise it: %s\n", text, typeAgain(args, old, "--set", settings...))
}

// explainReadOnly says where a command may write, and the line that lets it write in a
// directory that the user showed it read-only.
func (f *execFlags) explainReadOnly(w io.Writer, args []string) {
	const where = "golem: that place is read-only; a command can write in its home directory, /tmp and what is mounted copy-on-write; "
	typed := os.Args[:max(1, len(os.Args)-len(args))]
	for i, word := range typed {
		for _, flag := range []string{"--root", "--mount"} {
			value, ok := strings.CutPrefix(word, flag+"=")
			if ok = ok || typed[max(0, i-1)] == flag; !ok {
				continue
			}
			if dir, ok := strings.CutSuffix(value, ":ro"); ok {
				fmt.Fprintf(w, "%sto let it change %s: %s\n", where, visible.Text(dir), typeAgain(args, []string{value}, flag, dir+":overlay"))
				return
			}
		}
	}
	fmt.Fprintln(w, where+"golem exec --root .:overlay --mount DIR:/DST:overlay adds a directory")
}

// maxTyped is the longest command line that golem prints for the user to type.
const maxTyped = 400

// typeAgain returns the command line of the user with values of one more flag, in place of
// its old values. It returns only what to add if the line would be long, or
// the user could not copy it, or it has a secret, because logs keep what golem prints.
func typeAgain(args, old []string, flag string, values ...string) string {
	var more []string
	for _, value := range values {
		more = append(more, flag, value)
	}
	short := "add " + visible.CommandLine(more...)
	typed := slices.Clone(os.Args[1:])
	n := len(typed) - len(args)
	if n < 1 || typed[0] != "exec" || !slices.Equal(typed[n:], args) {
		return short
	}
	typed = typed[1:n]
	if len(typed) > 0 && typed[len(typed)-1] == "--" {
		typed = typed[:len(typed)-1]
	}
	for _, value := range old {
		if i := slices.Index(typed, flag+"="+value); i >= 0 {
			typed = slices.Delete(typed, i, i+1)
		} else if i := slices.Index(typed, value); i > 0 && typed[i-1] == flag {
			typed = slices.Delete(typed, i-1, i+1)
		}
	}
	words := slices.Concat([]string{"golem", "exec"}, typed, more, []string{"--"}, args)
	for i, w := range words {
		if visible.Quote(w) != w || holdsSecret(w) {
			return short
		}
		if words[i] = visible.CommandLine(w); sandbox.Shown(w) != w { // with quotation marks, or long
			words[i] = jail.QuoteWord(w)
		}
	}
	if line := strings.Join(words, " "); len(line) <= maxTyped {
		return line
	}
	return short
}

// holdsSecret reports whether a word looks like a secret, or sets a variable for one.
func holdsSecret(word string) bool {
	name, _, set := strings.Cut(strings.TrimPrefix(word, "--env="), "=")
	return set && secret.IsVariable(name) || len(secret.AppendSpans(nil, word)) > 0
}
