package command

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// An entry is a command of a ready-made set. More words may follow, except those that
// make it another command.
type entry struct {
	words string
	// only lists the allowed options, nil if all are. An item is a whole word, or a
	// prefix if it ends in *.
	only []string
	// most is the number of operands at which the set refuses the command, so 1 allows
	// none; 0 allows any number.
	most int
	// operands lists the allowed operands, nil if all are.
	operands []string
	// plain refuses operands that may be code or settings, such as NAME=value, and options
	// for another program after --.
	plain bool

	list []string // the fields of words
}

// Sets returns the names of the ready-made sets.
func Sets() []string { return []string{"read_only", "build"} }

// About describes a ready-made set in a few words.
func About(set string) string {
	switch set {
	case "read_only":
		return "commands that only look"
	case "build":
		return "commands that build and test what is in the tree, and run its code"
	}
	return ""
}

// entries returns the commands of each ready-made set, by their first word.
var entries = sync.OnceValue(func() map[string]map[string][]entry {
	all := map[string]map[string][]entry{}
	for set, list := range map[string][]entry{"read_only": readOnly(), "build": build()} {
		all[set] = map[string][]entry{}
		for _, e := range list {
			e.list = strings.Fields(e.words)
			all[set][e.list[0]] = append(all[set][e.list[0]], e)
		}
	}
	return all
})

// plainEntries returns entries for commands that may have any option, except those in the table
// of turns.
func plainEntries(commands string) []entry {
	var list []entry
	for c := range strings.FieldsSeq(commands) {
		list = append(list, entry{words: c})
	}
	return list
}

// gitEntries returns entries for subcommands of git.
func gitEntries(commands ...string) []entry {
	var list []entry
	for _, c := range commands {
		list = append(list, entry{words: "git " + c})
	}
	return list
}

// exactEntries returns entries for commands that allow no further words.
func exactEntries(commands ...string) []entry {
	var list []entry
	for _, c := range commands {
		list = append(list, entry{words: c, only: []string{}, most: 1})
	}
	return list
}

// readOnly returns the entries of commands that only read.
func readOnly() []entry {
	branch := []string{"-a", "-r", "-v", "-vv", "-l", "-i", "--all", "--remotes", "--list", "--verbose", "--no-color", "--color*", "--column*", "--sort=*",
		"--format=*", "--ignore-case", "--no-abbrev", "--abbrev=*", "--omit-empty", "--show-current"}
	config := []string{"--global", "--local", "--system", "--worktree", "--show-origin", "--show-scope", "--name-only", "--null", "-z", "--all", "--type=*",
		"--default=*", "--includes", "--no-includes"}
	return slices.Concat(
		plainEntries("ls dir vdir cat tac nl head tail wc cut tr uniq sort comm join paste column fold fmt expand unexpand rev od hexdump strings "+
			"grep egrep fgrep rg fd fdfind tree diff cmp stat file du df basename dirname realpath readlink "+
			"md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base64 base32 seq expr jq sed awk gawk mawk date "+
			"echo printf pwd cd true false : test [ sleep read which type id whoami groups uname arch nproc uptime free ps printenv locale"),
		gitEntries("status", "log", "diff", "show", "whatchanged", "shortlog", "describe", "blame", "annotate", "grep", "ls-files", "ls-tree", "cat-file", "rev-parse",
			"rev-list", "merge-base", "name-rev", "for-each-ref", "show-ref", "show-branch", "count-objects", "diff-tree", "diff-index", "diff-files",
			"check-ignore", "check-attr", "check-mailmap", "cherry", "range-diff", "stash list", "stash show", "worktree list", "reflog show",
			"remote get-url", "version"),
		[]entry{
			{words: "find", only: strings.Fields("-L -H -P -O0 -O1 -O2 -O3 -maxdepth -mindepth -depth -d -xdev -mount -follow -daystart -regextype -noleaf -warn -nowarn " +
				"-ignore_readdir_race -noignore_readdir_race -name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size " +
				"-mtime -atime -ctime -mmin -amin -cmin -newer -newer* -anewer -cnewer -used -user -group -uid -gid -nouser -nogroup -perm -empty -links -inum " +
				"-samefile -readable -writable -executable -fstype -true -false -not -o -or -a -and -print -print0 -printf -ls -prune -quit " +
				"-0* -1* -2* -3* -4* -5* -6* -7* -8* -9*")},
			{words: "git branch", only: branch, most: 1},
			{words: "git branch --list", only: branch},
			{words: "git branch -l", only: branch},
			{words: "git branch --contains", only: branch},
			{words: "git branch --merged", only: branch},
			{words: "git branch --no-merged", only: branch},
			{words: "git tag", only: []string{"-n*", "--sort=*", "--format=*", "--column*", "--color*"}, most: 1},
			{words: "git tag --list", only: []string{"-n*", "-i", "--sort=*", "--format=*", "--column*", "--color*"}},
			{words: "git tag -l", only: []string{"-n*", "-i", "--sort=*", "--format=*", "--column*", "--color*"}},
			{words: "git tag --contains", only: []string{"-n*", "--sort=*", "--format=*"}},
			{words: "git remote", only: []string{"-v", "--verbose"}, most: 1},
			{words: "git reflog", only: []string{"-n*", "-0", "-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9", "--date=*", "--oneline"}, most: 1},
			{words: "git config get", only: config},
			{words: "git config list", only: config},
			{words: "git config --get", only: config},
			{words: "git config --get-all", only: config},
			{words: "git config --list", only: config},
			{words: "git config -l", only: config},
			{words: "git --version", only: []string{}, most: 1},
			{words: "set", only: []string{"-e", "-u", "-x", "-eu", "-ex", "-ux", "-eux", "-o", "-euo", "-eo", "-uo", "-euxo"}, operands: []string{"pipefail", "errexit", "nounset"}},
			{words: "command -v"}, {words: "command -V"},
		},
		exactEntries("env", "exit", "exit 0", "exit 1", "break", "continue", "return", "wait", "go version", "node --version", "node -v",
			"npm --version", "npm -v", "python --version", "python3 --version", "cargo --version", "rustc --version", "gcc --version", "make --version",
			"java -version"),
	)
}

// OnlyReads reports whether a line has only commands of the set read_only, and leaves the
// next command as it is: in the same directory, with the same variables.
func OnlyReads(line string) bool {
	if ok, _ := Matches(policy.ShellRule{Use: "read_only", Approval: policy.PreApproved}, line); !ok {
		return false
	}
	parsed := Parse(line)
	return len(parsed.Writes) == 0 && !slices.ContainsFunc(parsed.Parts, func(p Part) bool {
		return p.writes || p.sets || len(p.Assigns) > 0 || slices.Contains([]string{"", "cd", "read", "set"}, name(p.Words))
	})
}

// build returns the entries of commands that build and test the code in the tree. They
// run that code: they are meant for the jail, with the network off.
func build() []entry {
	var list []entry
	for _, c := range []string{"build", "test", "vet", "fmt", "list", "doc", "generate", "install", "mod tidy", "mod verify", "mod graph", "mod why", "mod download", "env"} {
		list = append(list, entry{words: "go " + c})
	}
	for _, c := range []string{"build", "test", "check", "clippy", "fmt", "doc", "bench", "metadata", "tree", "nextest"} {
		list = append(list, entry{words: "cargo " + c})
	}
	scripts := strings.Fields("-s --silent --if-present --workspaces -w* --workspace* -r --recursive")
	for _, tool := range []string{"npm", "yarn", "pnpm"} {
		list = append(list, entry{words: tool + " test", only: scripts, plain: true})
		for _, script := range []string{"build", "test", "lint", "format", "check", "typecheck", "compile"} {
			list = append(list, entry{words: tool + " run " + script, only: scripts, plain: true})
		}
	}
	for _, script := range []string{"build", "lint"} {
		list = append(list, entry{words: "yarn " + script, only: scripts, plain: true}, entry{words: "pnpm " + script, only: scripts, plain: true})
	}
	goals := []string{"clean", "compile", "test", "test-compile", "package", "verify", "build", "check", "assemble", "testClasses", "classes"}
	quiet := []string{"-q", "-o", "-B", "--offline", "--quiet", "--info", "--stacktrace", "--no-daemon", "-DskipTests"}
	for _, tool := range []string{"mvn", "./mvnw", "gradle", "./gradlew"} {
		list = append(list, entry{words: tool, only: quiet, operands: goals})
	}
	for words, only := range buildOptions {
		list = append(list, entry{words: words, only: strings.Fields(only + " --version --help"), plain: true})
	}
	return list
}

// buildOptions lists the options that the set build allows for tools that also take code,
// plugins, settings or programs as options: a rule for the set is about the code in the
// tree.
var buildOptions = func() map[string]string {
	const (
		pytest = "-v -vv -vvv -q -qq -x -s -l -xvs -vs -sv -xv -vx -k* -m* -n* -r* --lf --ff --last-failed --failed-first --maxfail* --tb* --durations* --collect-only --co " +
			"--color* --no-header --no-summary --cov --cov=* --cov-report=* --showlocals --strict-markers --deselect* --ignore* --timeout* --exitfirst --verbose --quiet"
		unittest = "-v -q -f -b -k* -s* -t* -p* --verbose --quiet --failfast --buffer --locals"
		rspec    = "-f -fd -fp -e* --example* --fail-fast* -t* --tag* --seed* --order* -b --backtrace --color --no-color --only-failures --next-failure"
		rake     = "-T -n -m -q -s -t -P -j* --tasks --trace --dry-run --quiet --silent"
		make     = "-j* -k -n -s -B -i -w -l* -O* -C* -q --jobs* --keep-going --dry-run --silent --quiet --always-make --no-print-directory --output-sync* --directory* --trace"
		dotnet   = "-c --configuration* --no-restore --no-build -v* --verbosity* --nologo --filter* -f --framework*"
	)
	return map[string]string{
		"make": make, "gmake": make, "pytest": pytest, "python -m pytest": pytest, "python3 -m pytest": pytest, "python -m unittest": unittest, "python3 -m unittest": unittest,
		"rspec": rspec, "bundle exec rspec": rspec, "rake": rake, "bundle exec rake": rake, "dotnet build": dotnet, "dotnet test": dotnet,
		"cmake --build": "-j* --parallel* --target* -t --config* --clean-first -v --verbose",
		"cmake -S":      "-B* -G* -DCMAKE_BUILD_TYPE=* --fresh -Wno-dev", "cmake -B": "-S* -G* -DCMAKE_BUILD_TYPE=* --fresh -Wno-dev",
		"ninja": "-j* -k* -n -v -C* --quiet --verbose", "ctest": "-j* -R* -E* -L* -C* -V -VV -N -Q --output-on-failure --test-dir* --parallel* --rerun-failed --verbose --quiet",
		"meson setup": "-C* --buildtype=* --reconfigure --wipe", "meson compile": "-C* -j* -v --verbose --clean", "meson test": "-C* -j* -v -q --verbose --quiet --print-errorlogs --suite* --list",
		"gofmt": "-l -w -d -s -e", "rustfmt": "--check --edition* -l -q -v --quiet --verbose",
		"tox": "-e* -q -v -p* -r -l --recreate --parallel*", "mypy": "--strict --ignore-missing-imports --show-error-codes --no-error-summary -p* -m* --pretty -v --python-version* --check-untyped-defs",
		"ruff":   "--fix --diff --select* --ignore* --show-fixes --statistics --exit-zero -q -v --check --line-length* --output-format* --no-cache --unsafe-fixes --quiet --verbose",
		"flake8": "--select* --ignore* --extend-ignore* --max-line-length* --count --statistics --show-source -q -v --exclude* -j*",
		"black":  "--check --diff -l* --line-length* -q -v --color --no-color -S --quiet --verbose",
		"tsc":    "--noEmit -p* --project* -b --build --strict --pretty* --skipLibCheck -v", "eslint": "--fix --fix-dry-run --quiet --ext* --max-warnings* --cache --no-cache --color --no-color -v",
		"prettier": "--check --write -c -w -l --list-different --ignore-unknown -u --log-level*",
		"jest": "-t* --testNamePattern* --testPathPattern* -i --runInBand --coverage --coverage=* --no-coverage --watchAll=false --ci --verbose -u --updateSnapshot --bail* -w* --maxWorkers* --silent " +
			"--passWithNoTests --findRelatedTests --onlyChanged -o --listTests",
		"vitest": "-t* --testNamePattern* --run --coverage --silent --bail* --passWithNoTests -u --update --reporter=default --reporter=verbose --reporter=dot --reporter=json",
		"mocha":  "-g* -f* --grep* --fgrep* -b --bail --exit -t* --timeout* --recursive --parallel",
	}
}()

// allowedVariables lists the variables, with their values, that the sets allow for a command.
var allowedVariables = map[string][]string{
	"LC_ALL": {"C", "POSIX", "C.UTF-8", "en_US.UTF-8"}, "LANG": {"C", "POSIX", "C.UTF-8", "en_US.UTF-8"}, "TZ": {"UTC"},
	"NO_COLOR": {"1"}, "CI": {"1", "true"}, "GIT_OPTIONAL_LOCKS": {"0"},
}

// allows reports whether a set allows a part. If the part only starts like a command of
// the set, why says what differs.
func allows(set string, p *Part) (ok bool, why string) {
	words := p.words()
	for _, e := range entries()[set][name(words)] {
		if !e.begins(words) {
			continue
		}
		if why = findVariable(p); why != "" {
			continue
		}
		if why = e.explainRefusal(words); why == "" && set == "build" {
			why = findOutside(p, words)
		}
		if why == "" {
			return true, ""
		}
	}
	return false, why
}

// findVariable names a variable of a part that may change what the command does.
func findVariable(p *Part) string {
	for _, a := range p.Assigns {
		if a.Name == "IFS" && name(p.Words) == "read" {
			continue
		}
		if !a.Value.Literal || !slices.Contains(allowedVariables[a.Name], a.Value.Text) {
			return a.Name + " is set for it"
		}
	}
	return ""
}

// begins reports whether words start with those of the entry.
func (e entry) begins(words []Word) bool {
	if len(e.list) > len(words) {
		return false
	}
	for i, w := range e.list {
		if i > 0 && !words[i].is(w) {
			return false
		}
	}
	return name(words) == e.list[0]
}

// explainRefusal explains why the set does not allow the words; "" if it does.
func (e entry) explainRefusal(words []Word) string {
	n := len(e.list)
	if why := findTurn(words, n); why != "" {
		return why
	}
	ended, count := false, 0
	for _, w := range words[n:] {
		switch {
		case !ended && w.is("--"):
			ended = true
		case !ended && w.mayBeOption() && e.only != nil:
			if !w.Literal {
				return w.Text + " could be an option"
			}
			if !slices.ContainsFunc(e.only, func(o string) bool { return matchesOption(o, w.Text) }) {
				return w.Text + " is not among the options that the set allows"
			}
		case ended || !w.mayBeOption():
			count++
			if e.plain && w.Literal && !plainOperand().MatchString(w.Text) && !w.is(harmlessAfter...) {
				return w.Text + " may be code or a setting"
			}
			if e.operands != nil && !w.is(e.operands...) {
				return w.Text + " is not an operand that the set allows"
			}
			if !w.isOne() && (e.most > 0 || e.operands != nil) {
				return w.Text + " could become several words"
			}
		}
	}
	if e.most > 0 && count >= e.most {
		return "with " + words[len(words)-1].Text + " it does something else"
	}
	return ""
}

// harmlessAfter lists options that scripts of a tree get after --.
var harmlessAfter = []string{"--watch=false", "--watchAll=false", "--run", "--ci", "--coverage", "--verbose", "--silent", "--fix", "--nocapture"}

// plainOperand matches names of files, targets and tests.
var plainOperand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z0-9_./@+%*?,^|][A-Za-z0-9_./@+%*?,^| -]*)?(::[A-Za-z0-9_\[\]., -]+)*(:[a-z]+)*$`)
})

// matchesOption reports whether an option equals an item of entry.only, or has it as a prefix.
func matchesOption(only, text string) bool {
	if begin, ok := strings.CutSuffix(only, "*"); ok {
		return strings.HasPrefix(text, begin)
	}
	return only == text
}
