package jail

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// seatbelt returns the profile for sandbox-exec that confines a command on macOS to a
// policy. It does not look at the machine. Sources must be free of symlinks
// (/private/tmp, not /tmp), because the kernel compares real paths. temp is a directory
// for this command only.
//
// If two rules match, the later one holds. Everything that no rule names is denied. So
// there are no rules against the clipboard, Apple events, or opening other programs:
// commands would reach them through services that are not in the list. Commands see the
// paths of the host, as at the level Landlock.
func seatbelt(p Policy, temp sandbox.Host) string {
	var b profile
	b.text.WriteString(seatbeltSystem)
	b.read(string(temp))
	b.write(string(temp))
	for _, r := range regions(p.Mounts) {
		b.region(r)
	}
	// A hard link would give a file a second name that its rules do not cover.
	b.line("(deny file-link)")
	if !p.Network {
		b.line("(deny network*)")
		return b.text.String()
	}
	b.line("(allow network*)")
	b.line("(allow system-socket)")
	b.line(`(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.SystemConfiguration.DNSConfiguration") (global-name "com.apple.dnssd.service") (global-name "com.apple.trustd.agent"))`)
	// Sockets in the file system are not the network: allow only the one for name
	// lookups.
	b.line(`(deny network-outbound (subpath "/"))`)
	b.line(`(allow network-outbound (literal "/private/var/run/mDNSResponder"))`)
	return b.text.String()
}

// seatbeltSystem is the start of every profile: what programs need to start, and the
// parts of macOS that correspond to the steps of system on Linux. Nothing in it says who
// uses the machine.
const seatbeltSystem = `(version 1)
(deny default)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read (sysctl-name-prefix "hw.") (sysctl-name-prefix "kern.os") (sysctl-name "kern.version") (sysctl-name "kern.argmax") (sysctl-name "kern.maxfilesperproc") (sysctl-name "vm.loadavg"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read* (literal "/"))
(allow file-read* file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
(allow file-read-metadata (literal "/Library") (literal "/Library/Developer") (literal "/private") (literal "/private/etc") (literal "/private/etc/ssl") (literal "/private/var") (literal "/private/var/db") (literal "/etc") (literal "/var") (literal "/tmp"))
(allow file-read* (literal "/private/etc/hosts") (literal "/private/etc/protocols") (literal "/private/etc/services") (literal "/private/etc/localtime") (literal "/private/etc/ssl/cert.pem") (literal "/private/etc/ssl/openssl.cnf") (subpath "/private/etc/ssl/certs"))
(allow file-read* (subpath "/private/var/db/dyld") (subpath "/private/var/db/timezone") (subpath "/private/var/select"))
(allow file-read* process-exec (subpath "/bin") (subpath "/sbin") (subpath "/usr") (subpath "/System") (subpath "/Library/Apple") (subpath "/Library/Developer/CommandLineTools"))
`

// A region is a directory of the host and the access to it.
type region struct {
	place  string
	access sandbox.Access
	inside string // the writable directory that contains it, if it allows less
}

// regions returns the rules for mounts on a system that cannot mount. It hides a
// directory that a mount would cover. Deeper directories come later, and so does the
// lesser access to the same directory.
func regions(mounts []Mount) []region {
	var list []region
	for i, m := range mounts {
		var outer Mount
		for j, o := range mounts {
			if j != i && o.Source != "" && strings.HasPrefix(m.Target, o.Target+"/") && len(o.Target) > len(outer.Target) {
				outer = o
			}
		}
		covered := ""
		if outer.Source != "" {
			covered = path.Join(string(outer.Source), strings.TrimPrefix(m.Target, outer.Target))
		}
		if covered != "" && covered != string(m.Source) {
			list = append(list, region{place: covered, access: sandbox.None})
		}
		if m.Source == "" {
			continue
		}
		r := region{place: string(m.Source), access: sandbox.ReadOnly}
		if m.Write {
			r.access = sandbox.ReadWrite
		}
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b region) int {
		return cmp.Or(cmp.Compare(strings.Count(a.place, "/"), strings.Count(b.place, "/")), cmp.Compare(a.place, b.place), cmp.Compare(b.access, a.access))
	})
	for i := range list {
		r := &list[i]
		at := slices.IndexFunc(list, func(o region) bool { return o.access == sandbox.ReadWrite && strings.HasPrefix(r.place, o.place+"/") })
		if at >= 0 && r.access < sandbox.ReadWrite {
			r.inside = list[at].place
		}
	}
	return list
}

// profile builds the text of a profile.
type profile struct{ text strings.Builder }

func (b *profile) line(text string) { b.text.WriteString(text + "\n") }

func (b *profile) rule(answer, what, filter, name string) {
	b.line(fmt.Sprintf("(%s %s (%s %s))", answer, what, filter, quoted(name)))
}

// read allows reading a directory, running programs in it, and seeing that the
// directories above it exist.
func (b *profile) read(name string) {
	for _, dir := range above(name) {
		b.rule("allow", "file-read-metadata", "literal", dir)
	}
	b.rule("allow", "file-read* process-exec", "subpath", name)
}

// write allows changing a directory, but not moving or removing the directory itself.
func (b *profile) write(name string) {
	b.rule("allow", "file-write*", "subpath", name)
	b.rule("deny", "file-write-unlink", "literal", name)
}

// region writes the rules of a region. A directory above one with less access cannot be
// moved: its content would get a path that the rules do not cover.
func (b *profile) region(r region) {
	switch r.access {
	case sandbox.ReadWrite:
		b.read(r.place)
		b.write(r.place)
	case sandbox.ReadOnly:
		b.read(r.place)
		b.rule("deny", "file-write*", "subpath", r.place)
	default:
		b.rule("deny", "file* process-exec", "subpath", r.place)
	}
	for dir := path.Dir(r.place); r.inside != "" && strings.HasPrefix(dir, r.inside+"/"); dir = path.Dir(dir) {
		b.rule("deny", "file-write-unlink", "literal", dir)
	}
}

// quoted returns a name as a string in the language of profiles. It escapes quotes,
// backslashes and control characters.
func quoted(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(name) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
