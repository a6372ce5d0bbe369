package jail

import (
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// etcNames returns the parts of the host's /etc that commands see, if they exist.
// Programs need them to start and to find their fonts, certificates, catalogs and
// modules. A name may have a *.
//
// It is an allowlist, because any other file there may hold a token or a password, or may
// identify the user. Examples are pip.conf, npmrc, gitconfig, wgetrc, maven/settings.xml,
// environment, profile.d and the start-up files of shells.
func etcNames() []string {
	return []string{
		"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
		// Certificates, but not the keys in the same directories.
		"ca-certificates", "ca-certificates.conf", "crypto-policies", "gnutls/config", "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
		"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
		// Names and numbers.
		"ethertypes", "gai.conf", "host.conf", "netconfig", "networks", "protocols", "rpc", "services", "shells",
		// Which system this is.
		"alpine-release", "arch-release", "centos-release", "debian_version", "fedora-release", "gentoo-release", "issue", "lsb-release", "os-release", "redhat-release", "SuSE-release", "system-release",
		// Language, time and terminals.
		"inputrc", "locale.alias", "locale.conf", "locale.gen", "terminfo", "timezone", "DIR_COLORS",
		// Kinds of files, documents and manuals.
		"groff", "magic", "magic.mime", "mailcap", "mailcap.order", "man_db.conf", "manpath.config", "mime.types", "papersize", "sgml", "texmf", "xml",
		// Fonts, graphics and sound.
		"X11/rgb.txt", "X11/xkb", "ImageMagick-*", "OpenCL", "alsa", "asound.conf", "dictionaries-common", "drirc", "egl", "fonts", "ghostscript", "glvnd", "gtk-2.0", "gtk-3.0", "gtk-4.0",
		"libreoffice", "pango", "pulse/client.conf", "vulkan", "xdg/menus", "xdg/user-dirs.conf", "xdg/user-dirs.defaults",
		// Browsers without their policies, which may hold a token.
		"chromium.d", "chromium/initial_preferences", "chromium/master_preferences", "firefox/pref", "firefox-esr",
		// Languages and their tools.
		"ant", "ant.conf", "gdb", "gprofng.rc", "java", "java-*", "jvm", "maven/logging", "maven/m2.conf", "maven/toolchains.xml", "perl/Net", "perl/XML", "python2*", "python3*", "dpkg/origins",
		// Databases and libraries of parallel programs.
		"libibverbs.d", "libnl-3", "odbcinst.ini", "openmpi", "postgresql-common",
		// Editors and what runs in a terminal.
		"emacs", "gnupg", "nanorc", "screenrc", "tmux.conf", "vim",
	}
}

// synthetic are the files of /etc that golem writes for commands.
func synthetic() []string {
	return []string{"group", "hostname", "hosts", "localtime", "nsswitch.conf", "passwd", "resolv.conf"}
}

// CheckEtc returns an error if commands cannot be shown a name of /etc in addition to the
// names that all commands see.
func CheckEtc(name string) error {
	hint := ""
	switch {
	case name == "" || name == "." || path.Clean("/"+name) != "/"+name || strings.ContainsAny(name, "\x00\n"):
		hint = "it is a file or directory of /etc, such as php or maven/settings.xml"
	case strings.ContainsAny(name, `*?[\`):
		hint = "write the name in full, without * or ?"
	case slices.Contains(synthetic(), name):
		hint = "commands have an /etc/" + name + " that golem writes"
	}
	if hint == "" {
		return nil
	}
	return &sandbox.Error{Op: "jail.etc", Path: name, Code: sandbox.ErrInvalid, Hint: hint}
}
