package shell

import (
	"regexp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// Patterns of messages: something was refused, a host could not be reached, nobody
// listened on a port, and so on.
const (
	refused   = `(?i)permission denied|read-only file system|operation not permitted|not found|no such file or directory|\b(EROFS|EACCES|EPERM|ENOENT)\b`
	unreached = `(?i)network is unreachable|network unreachable|no route to host|address family not supported|name resolution|temporary failure resolving|(could not|couldn't|unable to|failed to|cannot) resolve|` +
		`name or service not known|no such host|server misbehaving|failed to lookup address|unknown ?host|getaddrinfo|no matching distribution found|\b(EAI_AGAIN|ENOTFOUND|ENETUNREACH)\b|lookup \S+ on `
	unheard = `(?i)connection refused|failed to connect|couldn't connect|ECONNREFUSED`
	noUnix  = `(?i)address family not supported|socket type not supported|\b(EAFNOSUPPORT|ESOCKTNOSUPPORT)\b`
	noTrace = `(?i)ptrace|could not trace|could not attach`
	near    = `(?i)\blocalhost\b|\b127\.0\.0\.1\b|::1\b`
)

// A sign is a pattern of messages that programs print when the jail lacks something, with
// an explanation.
type sign struct{ words, means string }

// signs returns the signs that mean the same at every level.
func signs() []sign {
	return []sign{
		{`(?i)value too large for defined data type`, "a directory here has a group other than yours, and the overlay cannot create files in it; give it your group (chgrp -R)"},
		{`(?i)dubious ownership`, "golem runs as a different user than the owner of the directory; run it as the owner"},
		{`(?i)no new privileges|must be setuid root|effective uid is not 0|are you root\?|superuser privilege|must be (run as )?root|sudo: (command )?not found|not in the sudoers|you need to be root`,
			"no command here can become root or change the system; use installed programs, or install into the project or the home directory"},
		{`(?i)a terminal is required|no tty present|not (a|from a|to a) (tty|terminal)|failed tty get|/dev/tty|inappropriate ioctl for device|could not read (username|password)|terminal prompts disabled|must be run from a terminal|TERM environment variable`,
			"commands here have no terminal, and nobody answers prompts; give the answers as options (-y, -m, --batch)"},
		{`(?i)no usable sandbox|without --no-sandbox|failed to move to new namespace|creating new namespace|no permissions to create (a )?new namespace`,
			"programs cannot create their own sandbox here; turn it off (--no-sandbox), golem already runs them in one"},
		{`(?i)cannot connect to the docker daemon|docker\.sock|could not connect to (the )?(d-?bus|display)|cannot open display`, "commands here cannot reach a daemon or display of the machine"},
	}
}

// limitSigns returns patterns of messages about a reached limit. They also find limits
// that only a part of the command reached, which the exit code does not show.
func limitSigns() []struct {
	jail.Limit
	words, means string
} {
	return []struct {
		jail.Limit
		words, means string
	}{
		{jail.FileSizeLimit, `(?i)file too large|file size limit exceeded`, "the largest file that a command here may write: "},
		{jail.CPULimit, `(?i)cpu time limit exceeded`, "limit of processor time for a command here: "},
		{jail.TempLimit, `(?i)no space left on device`, "/dev/shm has 64 MiB, other directories what is free on the disk, /tmp "},
		{jail.FilesLimit, `(?i)too many open files`, "open files: "},
		{jail.MemoryLimit, `(?i)cannot allocate memory|memoryerror|out of ?memory|memory exhausted|bad_alloc`, "memory limit of commands here: "},
		{jail.ProcessesLimit, `(?i)resource temporarily unavailable|can't start new thread|cannot fork|native thread|new OS thread`, "limit of processes for a command here: "},
	}
}

// matches reports whether an output matches a pattern.
func matches(output, words string) bool { return regexp.MustCompile(words).MatchString(output) }

// hints returns notes that explain what the command may do, if the output looks as if the
// jail refused something. It also notes that the level is landlock.
func (v view) hints(stdout, stderr string) []string {
	var hints []string
	output := stderr
	if v.Code != 0 { // the output of a command that succeeds is what it was asked for
		output = stdout + stderr
	}
	if v.Level == jail.Landlock {
		hints = append(hints, "commands run at the level landlock here: it isolates less than namespaces, and directories are at their real paths; use relative paths; golem doctor explains why")
	}
	switch missed := matches(output, unheard); {
	case v.hasFailed() && len(v.Refused.Hosts) > 0:
		hints = append(hints, v.describeRefused())
	case v.network() == "off" && missed && matches(output, near) && !matches(output, unreached):
		hints = append(hints, "localhost here is private to commands; run the server in the same command line, or as a service")
	case v.network() == "off" && (missed || matches(output, unreached)):
		hints = append(hints, "commands here have no network")
	case v.isLimited() && (missed || matches(output, unreached)):
		hints = append(hints, "commands here reach "+v.network())
	case matches(output, refused) && v.Level == jail.Namespaces:
		called := func(name string) string { return jail.Inside(v.files, name) }
		write := "/tmp"
		if listTargets(v.effects, policy.Write, called) != "" {
			write = listTargets(v.effects, policy.Write, called) + ", /tmp"
		}
		read := strings.TrimPrefix(listTargets(v.effects, policy.Read, called)+", the system's programs", ", ")
		hints = append(hints, "commands here may read "+read+"; write "+write+"; network "+v.network()+writeAdvice(output))
	}
	if v.NoNetwork != "" {
		hints = append(hints, "commands here have no network: "+v.NoNetwork)
	}
	if v.NoRunsc {
		hints = append(hints, noRunsc)
	}
	if v.NoSockets != "" && matches(output, noUnix) {
		hints = append(hints, "commands here have no Unix sockets: "+v.NoSockets)
	}
	if v.Level == jail.Landlock && matches(output, noTrace) {
		hints = append(hints, "commands cannot trace processes at the level landlock")
	}
	for _, s := range signs() {
		if matches(output, s.words) {
			hints = append(hints, s.means)
		}
	}
	for _, r := range limitSigns() {
		bare := r.Limit == jail.TempLimit && v.Level != jail.Namespaces // /tmp is a directory on the disk
		if !bare && !slices.Contains(v.Hit, r.Limit) && matches(output, r.words) {
			hints = append(hints, r.means+v.Describe(r.Limit))
		}
	}
	return append(hints, v.suggestPath(output)...)
}

// noRunsc says that commands on untrusted content run without the runsc that the user named.
const noRunsc = "jail.runsc names no usable runsc, so commands on untrusted content run at a weaker level; golem doctor says why"

// writeAdvice says how a command may write at more places, if it failed at a read-only one.
func writeAdvice(output string) string {
	if !matches(output, `(?i)read-only file system|\bEROFS\b`) {
		return ""
	}
	return "; the user can let them write elsewhere: golem config edit, mode: overlay of a mount"
}

// describeRefused says which hosts the command could not reach.
func (v view) describeRefused() string {
	text := "commands here reach " + v.network()
	if v.network() == "off" {
		text = "commands here have no network"
	}
	return text + "; it " + v.Refused.String()
}

// suggestPath returns the path inside commands of a file that the command looked for
// under its name in other tools. It says nothing about files that commands do not see.
func (v view) suggestPath(output string) []string {
	missing := regexp.MustCompile(`(/[^\s:'"‘’]+)['"’]?: No such file or directory|(?i:No such file or directory)[^'\n]*'(/[^\s']+)'`)
	for _, m := range missing.FindAllStringSubmatch(output, 8) {
		name, inside, ok := jail.Elsewhere(v.files, m[1]+m[2]) // before the words, or after them as Python and Node print it
		if ok && policy.ReadsFile(v.effects, name) {
			return []string{"in commands " + sandbox.Shown(name) + " is " + sandbox.Shown(inside) + "; relative paths are the same everywhere"}
		}
	}
	return nil
}
