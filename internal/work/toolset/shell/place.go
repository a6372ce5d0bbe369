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

// A Place remembers where the next command of a session starts: in the directory where
// the last one ended, with the variables that it exported.
type Place struct {
	keep func(Standing) error // saves the place; nil if it is not saved

	mu  sync.Mutex
	now Standing
}

// A Standing is the content of a Place at one moment.
type Standing struct {
	Dir   string            `json:"dir,omitempty"`   // a canonical name; "" for the first directory
	Set   map[string]string `json:"set,omitempty"`   // variables in addition to those of every command
	Unset []string          `json:"unset,omitempty"` // variables of every command that were unset
}

// NewPlace returns a place with the given content. It calls keep, unless that is nil,
// after every change.
func NewPlace(begin Standing, keep func(Standing) error) *Place {
	maps.DeleteFunc(begin.Set, func(name, _ string) bool { return !canKeep(name) })
	if begin.Set == nil {
		begin.Set = make(map[string]string)
	}
	return &Place{keep: keep, now: begin}
}

// here returns the current content. A nil place has none.
func (p *Place) here() Standing {
	if p == nil {
		return Standing{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Standing{p.now.Dir, maps.Clone(p.now.Set), slices.Clone(p.now.Unset)}
}

// env returns the variables for a command: NAME=VALUE to set, NAME to unset.
func (s Standing) env() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		env = append(env, name+"="+s.Set[name])
	}
	return append(env, s.Unset...)
}

// Limits of the variables that are kept, so that every command can get them.
const (
	maxVariables = 200
	maxBytes     = 32 << 10
)

// size returns the bytes that the variables need.
func (s Standing) size() (n int) {
	for _, e := range s.env() {
		n += len(e) + 1
	}
	return n
}

// leave records the directory and the variables that a command has changed. It leaves the
// rest as it is, because two commands may run at once. Dir is "" if the command ended in
// no directory that can be kept. It returns notes for the result.
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
		case isSetByShell(name):
		case !canKeep(name) || !utf8.ValidString(value):
			lost = append(lost, name)
		default:
			next.Set[name] = value
			next.Unset = slices.DeleteFunc(next.Unset, func(n string) bool { return n == name })
		}
	}
	for _, name := range l.Gone {
		switch {
		case isSetByShell(name):
		case !canKeep(name):
			lost = append(lost, name)
		case !slices.Contains(next.Unset, name):
			next.Unset = append(next.Unset, name)
			delete(next.Set, name)
		}
	}
	if len(next.Set)+len(next.Unset) > maxVariables || next.size() > maxBytes {
		next.Set, next.Unset = p.now.Set, p.now.Unset
		notes = append(notes, "its exported variables are not kept for the next command: they are too many or too long")
	}
	if len(lost) > 0 {
		notes = append(notes, "not kept for the next command, because it could change what that command runs: "+listVariables(lost)+"; set it in the command line that needs it")
	}
	if next.Dir == p.now.Dir && maps.Equal(next.Set, p.now.Set) && slices.Equal(next.Unset, p.now.Unset) {
		return notes
	}
	p.now = next
	if p.keep != nil && p.keep(next) != nil {
		notes = append(notes, "the directory and the variables could not be saved; they hold until this golem process ends")
	}
	return notes
}

// listVariables lists the first names.
func listVariables(names []string) string {
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

// isSetByShell reports whether shells set a variable by themselves.
func isSetByShell(name string) bool { return slices.Contains(shellVariables, name) }

var shellVariables = []string{"PWD", "OLDPWD", "SHLVL", "_", "REPLY"}

// canKeep reports whether a variable may be kept for the next command. Variables that
// decide what programs run, load or read first may not: they would let an allowed command
// line do something else. A command line that needs such a variable must set it itself.
func canKeep(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false // this also excludes exported functions
		}
	}
	if name == "" || len(name) > 255 {
		return false
	}
	has := func(list []string, match func(s, part string) bool) bool {
		return slices.ContainsFunc(list, func(part string) bool { return match(strings.ToUpper(name), part) })
	}
	if has(harmlessPrefixes, strings.HasPrefix) {
		return true
	}
	return !slices.Contains(harmful, strings.ToUpper(name)) && !has(harmfulPrefixes, strings.HasPrefix) && !has(harmfulSuffixes, strings.HasSuffix)
}

// Variables that may change what a command does, in capitals. They belong to shells, the
// loader, languages, compilers, build and test tools and git, or name a program, a search
// path, options or a settings file.
var (
	harmful = []string{
		"ENV", "IFS", "SHELLOPTS", "POSIXLY_CORRECT", "GLOBIGNORE", "EXECIGNORE", "FCEDIT", "ZDOTDIR", "TMPDIR", "TERMINFO", "TERMINFO_DIRS", "TERMCAP",
		"CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "FC", "F77", "AWK", "SED", "LEX", "YACC", "INSTALL",
		"GOENV", "GOROOT", "GOTOOLCHAIN", "GOTOOLDIR", "GOPROXY", "GOAUTH", "GOVCS", "GOWORK",
		"NODE_REPL_EXTERNAL_MODULE", "NODE_CHANNEL_FD", "ELECTRON_RUN_AS_NODE", "RSYNC_RSH", "CVS_RSH", "GZIP", "BZIP2", "KUBECONFIG",
		"INPUTRC", "NETRC", "WGETRC", "ACKRC", "SCREENRC", "PYLINTRC", "PSQLRC", "VIMINIT", "EXINIT", "GVIMINIT", "MYVIMRC",
	}
	harmfulPrefixes = []string{
		"BASH", "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT", "HIST", "COMP_", "LD_", "DYLD_", "GLIBC_", "GCONV_", "MALLOC_", "OPENSSL_", "XDG_", "GOLEM_",
		"GIT_", "SSH_", "GPG_", "SUDO_", "DOCKER_", "LESS", "GREP_", "RIPGREP_", "FZF_", "TAR_", "XZ_",
		"PYTHON", "PYTEST_", "PIP_", "UV_", "PERL", "RUBY", "GEM_", "BUNDLE_", "LUA_", "PHP", "COMPOSER_", "R_", "ERL_", "JULIA_", "NPM_", "YARN_", "PNPM_", "BUN_", "DENO_",
		"JAVA", "_JAVA", "JDK_", "MAVEN_", "MVN_", "GRADLE_", "ANT_", "SBT_", "DOTNET_", "CORECLR_", "MSBUILD", "CARGO_", "RUSTC", "RUSTDOC", "RUSTUP",
		"MAKE", "CMAKE_", "NINJA_", "MESON_", "CCACHE_", "GCC_", "CLANG_", "PKG_CONFIG", "TF_",
	}
	harmfulSuffixes = []string{
		"PATH", "HOME", "FLAGS", "OPTIONS", "OPTS", "_OPT", "_COMMAND", "_CMD", "PAGER", "EDITOR", "VISUAL", "BROWSER", "SHELL", "ASKPASS", "WRAPPER", "LAUNCHER",
		"PRELOAD", "_PROXY", "_RC", "_CONF", "_CONFIG", "_CONFIG_FILE", "STARTUP", "LINKER", "RUNNER", "_BIN", "_EXE", "_PROGRAM",
	}
	harmlessPrefixes = []string{"GIT_AUTHOR_", "GIT_COMMITTER_", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"}
)
