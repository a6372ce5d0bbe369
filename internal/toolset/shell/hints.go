package shell

import (
	"regexp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// Words by which programs say that something was refused, that they could not reach a
// host, and that nobody listened there.
const (
	refused   = `(?i)permission denied|read-only file system|operation not permitted|not found|no such file or directory|\b(EROFS|EACCES|EPERM|ENOENT)\b`
	unreached = `(?i)network is unreachable|network unreachable|no route to host|address family not supported|name resolution|temporary failure resolving|(could not|couldn't|unable to|failed to|cannot) resolve|` +
		`name or service not known|no such host|server misbehaving|failed to lookup address|unknown ?host|getaddrinfo|no matching distribution found|\b(EAI_AGAIN|ENOTFOUND|ENETUNREACH)\b|lookup \S+ on `
	unheard = `(?i)connection refused|failed to connect|couldn't connect|ECONNREFUSED`
	noUnix  = `(?i)address family not supported|socket type not supported|\b(EAFNOSUPPORT|ESOCKTNOSUPPORT)\b`
	noTrace = `(?i)ptrace|could not trace|could not attach`
	near    = `(?i)\blocalhost\b|\b127\.0\.0\.1\b|::1\b`
)

// A sign is what programs say where the jail does not give them something, and what that
// means.
type sign struct{ words, means string }

// signs are those that mean the same wherever they are seen.
func signs() []sign {
	return []sign{
		{`(?i)value too large for defined data type`, "a folder here has a group that is not your own, and nothing can be made in it through a layer: give it your own group (chgrp -R)"},
		{`(?i)dubious ownership`, "golem runs as another user than the one who owns the folder: run it as that one"},
		{`(?i)no new privileges|must be setuid root|effective uid is not 0|are you root\?|superuser privilege|must be (run as )?root|sudo: (command )?not found|not in the sudoers|you need to be root`,
			"no command here can become root or change the system: use what is there, or install into the tree or the home"},
		{`(?i)a terminal is required|no tty present|not (a|from a|to a) (tty|terminal)|failed tty get|/dev/tty|inappropriate ioctl for device|could not read (username|password)|terminal prompts disabled|must be run from a terminal|TERM environment variable`,
			"commands here have no terminal, and nobody answers: say in the line what it would ask (-y, -m, --batch)"},
		{`(?i)no usable sandbox|without --no-sandbox|failed to move to new namespace|creating new namespace|no permissions to create (a )?new namespace`,
			"programs cannot make a sandbox of their own here: turn theirs off (--no-sandbox), this is one"},
		{`(?i)cannot connect to the docker daemon|docker\.sock|could not connect to (the )?(d-?bus|display)|cannot open display`, "no daemon and no display of the machine is reached from here"},
	}
}

// reached are words by which programs say that they ran into a limit. The end of
// a command tells nothing of it where a part of the command did.
func reached() []struct {
	jail.Limit
	words, means string
} {
	return []struct {
		jail.Limit
		words, means string
	}{
		{jail.FileSizeLimit, `(?i)file too large|file size limit exceeded`, "a file that a command here writes may have "},
		{jail.CPULimit, `(?i)cpu time limit exceeded`, "processor time of a command here: "},
		{jail.TempLimit, `(?i)no space left on device`, "/dev/shm has 64 MiB, other folders what is left on the disk, /tmp "},
		{jail.FilesLimit, `(?i)too many open files`, "open files: "},
		{jail.MemoryLimit, `(?i)cannot allocate memory|memoryerror|out of ?memory|memory exhausted|bad_alloc`, "commands here may have memory of "},
		{jail.ProcessesLimit, `(?i)resource temporarily unavailable|can't start new thread|cannot fork|native thread|new OS thread`, "processes of a command here at once: "},
	}
}

// tells reports whether an output has words of these.
func tells(output, words string) bool { return regexp.MustCompile(words).MatchString(output) }

// hints say what is allowed where the output tells of something that was not, and
// that the boundary is not what it could be.
func (v view) hints(stdout, stderr string) []string {
	var hints []string
	output := stderr
	if v.Code != 0 { // what it prints otherwise is what was asked for
		output = stdout + stderr
	}
	if v.Level == jail.Landlock {
		hints = append(hints, "commands have the level landlock here, where less is kept from them than by namespaces, and folders are at their real paths: use relative ones; golem doctor says why")
	}
	switch missed := tells(output, unheard); {
	case v.network() == "off" && missed && tells(output, near) && !tells(output, unreached):
		hints = append(hints, "localhost here is that of commands alone: a server must run in the same line, or as a service")
	case v.network() == "off" && (missed || tells(output, unreached)):
		hints = append(hints, "commands here have no network")
	case tells(output, refused) && v.Level == jail.Namespaces:
		called := func(name string) string { return jail.Inside(v.files, name) }
		write := "/tmp"
		if listed(v.effects, policy.Write, called) != "" {
			write = listed(v.effects, policy.Write, called) + ", /tmp"
		}
		read := strings.TrimPrefix(listed(v.effects, policy.Read, called)+", the system's programs", ", ")
		hints = append(hints, "commands here may read "+read+"; write "+write+"; network "+v.network())
	}
	if v.NoSockets != "" && tells(output, noUnix) {
		hints = append(hints, "commands here have no Unix sockets: "+v.NoSockets)
	}
	if v.Level == jail.Landlock && tells(output, noTrace) {
		hints = append(hints, "commands trace no process at the level landlock")
	}
	for _, s := range signs() {
		if tells(output, s.words) {
			hints = append(hints, s.means)
		}
	}
	for _, r := range reached() {
		bare := r.Limit == jail.TempLimit && v.Level != jail.Namespaces // it is a directory on the disk
		if !bare && !slices.Contains(v.Hit, r.Limit) && tells(output, r.words) {
			hints = append(hints, r.means+v.bound(r.Limit))
		}
	}
	return append(hints, v.elsewhere(output)...)
}

// elsewhere says where a name is that a command has looked for by the name that
// the other tools have for it. Of what commands do not see nothing is told.
func (v view) elsewhere(output string) []string {
	missing := regexp.MustCompile(`(/[^\s:'"‘’]+)['"’]?: No such file or directory|(?i:No such file or directory)[^'\n]*'(/[^\s']+)'`)
	for _, m := range missing.FindAllStringSubmatch(output, 8) {
		name, inside, ok := jail.Elsewhere(v.files, m[1]+m[2]) // before the words, or behind them as Python and Node have it
		if ok && policy.ReadsFile(v.effects, name) {
			return []string{"in commands " + sandbox.Shown(name) + " is " + sandbox.Shown(inside) + "; relative paths are the same everywhere"}
		}
	}
	return nil
}
