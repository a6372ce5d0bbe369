package shell

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Place is where the commands of a session continue: in the directory where the last one
// ended, with the variables that it had exported.
type Place struct {
	keep func(Standing) error // nil where it is not written down

	mu  sync.Mutex
	now Standing
}

// A Standing is a place at one moment.
type Standing struct {
	Dir   string            `json:"dir,omitempty"`   // a canonical name; "" for the first directory
	Set   map[string]string `json:"set,omitempty"`   // variables besides those of every command
	Unset []string          `json:"unset,omitempty"` // and those of every command that are taken away
}

// NewPlace returns a place that begins so, and is written down by keep, if that is not
// nil, whenever it has changed.
func NewPlace(begin Standing, keep func(Standing) error) *Place {
	maps.DeleteFunc(begin.Set, func(name, _ string) bool { return !stays(name) })
	if begin.Set == nil {
		begin.Set = make(map[string]string)
	}
	return &Place{keep: keep, now: begin}
}

// here returns where a command begins. Without a place that is nowhere special.
func (p *Place) here() Standing {
	if p == nil {
		return Standing{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Standing{p.now.Dir, maps.Clone(p.now.Set), slices.Clone(p.now.Unset)}
}

// env returns the variables for a command.
func (s Standing) env() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		env = append(env, name+"="+s.Set[name])
	}
	return append(env, s.Unset...)
}

// The most that stays of variables, so that every command can be given them.
const (
	maxVariables = 200
	maxBytes     = 32 << 10
)

// size is how much room variables take.
func (s Standing) size() (n int) {
	for _, e := range s.env() {
		n += len(e) + 1
	}
	return n
}

// leave makes what a command has left the place, as far as it differs from where it
// began: of two that run at once each brings what it has changed. Dir is "" where it
// ended in no directory that could be kept. It returns what there is to say about it.
func (p *Place) leave(began Standing, dir string, l *jail.Left) (notes []string) {
	var lost []string
	p.mu.Lock()
	defer p.mu.Unlock()
	next := Standing{p.now.Dir, maps.Clone(p.now.Set), slices.Clone(p.now.Unset)}
	if dir != "" && dir != began.Dir {
		next.Dir = dir
	}
	for _, e := range l.Set {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case silent(name):
		case !stays(name) || !utf8.ValidString(value):
			lost = append(lost, name)
		default:
			next.Set[name] = value
			next.Unset = slices.DeleteFunc(next.Unset, func(n string) bool { return n == name })
		}
	}
	for _, name := range l.Gone {
		switch {
		case silent(name):
		case !stays(name):
			lost = append(lost, name)
		case !slices.Contains(next.Unset, name):
			next.Unset = append(next.Unset, name)
			delete(next.Set, name)
		}
	}
	if len(next.Set)+len(next.Unset) > maxVariables || next.size() > maxBytes {
		next.Set, next.Unset = p.now.Set, p.now.Unset
		notes = append(notes, "the variables that it has exported do not stay: they are too many, or too long")
	}
	if len(lost) > 0 {
		notes = append(notes, "not kept for the next command, for it could change what that runs: "+variables(lost)+"; set it in the line that needs it")
	}
	if next.Dir == p.now.Dir && maps.Equal(next.Set, p.now.Set) && slices.Equal(next.Unset, p.now.Unset) {
		return notes
	}
	p.now = next
	if p.keep != nil && p.keep(next) != nil {
		notes = append(notes, "the folder and the variables could not be written down: they hold as long as this golem runs")
	}
	return notes
}

// variables names some.
func variables(names []string) string {
	const most = 8
	slices.Sort(names)
	var list []string
	for _, n := range names[:min(len(names), most)] {
		list = append(list, sandbox.Shown(n))
	}
	if len(names) > most {
		list = append(list, "others")
	}
	return strings.Join(list, ", ")
}

// silent reports whether a variable is one that a shell sets by itself.
func silent(name string) bool { return slices.Contains(own, name) }

var own = []string{"PWD", "OLDPWD", "SHLVL", "_", "REPLY"}

// stays reports whether a variable may hold for the next command. One that says what
// programs run, load or read first may not: a command that is allowed by its words would
// be another one. The line that needs it says it.
func stays(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false // exported functions among them
		}
	}
	if name == "" || len(name) > 255 {
		return false
	}
	has := func(list []string, match func(s, part string) bool) bool {
		return slices.ContainsFunc(list, func(part string) bool { return match(strings.ToUpper(name), part) })
	}
	if has(harmlessBegins, strings.HasPrefix) {
		return true
	}
	return !slices.Contains(harmful, strings.ToUpper(name)) && !has(harmfulBegins, strings.HasPrefix) && !has(harmfulEnds, strings.HasSuffix)
}

// What may change what a command does, in capitals: of shells, of the loader, of
// languages, compilers, build and test tools, of git, and whatever names a program, a
// directory to look for one in, options or a file of settings.
var (
	harmful = []string{
		"ENV", "IFS", "SHELLOPTS", "POSIXLY_CORRECT", "GLOBIGNORE", "EXECIGNORE", "FCEDIT", "ZDOTDIR", "TMPDIR", "TERMINFO", "TERMINFO_DIRS", "TERMCAP",
		"CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "FC", "F77", "AWK", "SED", "LEX", "YACC", "INSTALL",
		"GOENV", "GOROOT", "GOTOOLCHAIN", "GOTOOLDIR", "GOPROXY", "GOAUTH", "GOVCS", "GOWORK",
		"NODE_REPL_EXTERNAL_MODULE", "NODE_CHANNEL_FD", "ELECTRON_RUN_AS_NODE", "RSYNC_RSH", "CVS_RSH", "GZIP", "BZIP2", "KUBECONFIG",
		"INPUTRC", "NETRC", "WGETRC", "ACKRC", "SCREENRC", "PYLINTRC", "PSQLRC", "VIMINIT", "EXINIT", "GVIMINIT", "MYVIMRC",
	}
	harmfulBegins = []string{
		"BASH", "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT", "HIST", "COMP_", "LD_", "DYLD_", "GLIBC_", "GCONV_", "MALLOC_", "OPENSSL_", "XDG_", "GOLEM_",
		"GIT_", "SSH_", "GPG_", "SUDO_", "DOCKER_", "LESS", "GREP_", "RIPGREP_", "FZF_", "TAR_", "XZ_",
		"PYTHON", "PYTEST_", "PIP_", "UV_", "PERL", "RUBY", "GEM_", "BUNDLE_", "LUA_", "PHP", "COMPOSER_", "R_", "ERL_", "JULIA_", "NPM_", "YARN_", "PNPM_", "BUN_", "DENO_",
		"JAVA", "_JAVA", "JDK_", "MAVEN_", "MVN_", "GRADLE_", "ANT_", "SBT_", "DOTNET_", "CORECLR_", "MSBUILD", "CARGO_", "RUSTC", "RUSTDOC", "RUSTUP",
		"MAKE", "CMAKE_", "NINJA_", "MESON_", "CCACHE_", "GCC_", "CLANG_", "PKG_CONFIG", "TF_",
	}
	harmfulEnds = []string{
		"PATH", "HOME", "FLAGS", "OPTIONS", "OPTS", "_OPT", "_COMMAND", "_CMD", "PAGER", "EDITOR", "VISUAL", "BROWSER", "SHELL", "ASKPASS", "WRAPPER", "LAUNCHER",
		"PRELOAD", "_PROXY", "_RC", "_CONF", "_CONFIG", "_CONFIG_FILE", "STARTUP", "LINKER", "RUNNER", "_BIN", "_EXE", "_PROGRAM",
	}
	harmlessBegins = []string{"GIT_AUTHOR_", "GIT_COMMITTER_", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"}
)
