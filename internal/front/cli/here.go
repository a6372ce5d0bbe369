package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/ignored"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A workSession is a session with the program that it belongs to.
type workSession struct {
	*session.Session
	program  *program.Program
	hasEnded bool           // its command is not running
	isNamed  bool           // commands about it need --session
	isTwice  bool           // another session here has the same name
	where    string         // more options that commands about it need, "" for none
	others   []*workSession // the other sessions of the directory
	hunks    []string       // the values of --hunks
	inChat   bool           // the user types /apply, and not golem apply
	unfolded bool           // lists have ignored files one by one
	*paths
}

// newWorkSession returns a session for a command that runs in dir.
func newWorkSession(p *program.Program, s *session.Session, dir string) *workSession {
	return &workSession{Session: s, program: p, paths: newPaths(p, dir)}
}

// golem returns how a command to type next begins.
func (w *workSession) golem() string {
	if w.inChat {
		return "/"
	}
	return "golem "
}

// option returns the option that names the session in a command to type next, "" if the
// command finds it without.
func (w *workSession) option() string {
	if !w.isNamed {
		return w.where
	}
	return w.where + " --session " + w.label()
}

// nameOf returns the name in the sandbox of a path that the user typed. The path is
// relative to the current directory, or begins with /. If a path with / is in no mount,
// it is already a name.
func (w *workSession) nameOf(typed string) (string, error) {
	if typed == "" {
		return "", usageError("an empty path names no file; . is the current directory")
	}
	if !utf8.ValidString(typed) {
		return "", usagef("%s is not UTF-8 text, so golem cannot apply it or name it alone; golem discard%s without a path discards it, with all other changes", sandbox.Shown(typed), w.option())
	}
	host := typed
	if !filepath.IsAbs(host) {
		host = filepath.Join(w.dir, host)
	}
	if name, ok := nameIn(w.mounts, realPath(host)); ok {
		return name, nil
	}
	if strings.HasPrefix(typed, "/") {
		return jail.Outside(path.Clean(typed)), nil
	}
	return "", usagef("%s is in no directory of session %s; golem diff%s --name-only lists the files that it changed", sandbox.Shown(typed), w.label(), w.option())
}

// title describes a session in a few words.
func (w *workSession) title() string { return "session " + w.describe() + ", " + age(w.LastUsed) }

// label returns the word by which to name the session in a text: its name, or its id if it has
// none, or if it shares the name with a session of another directory.
func (w *workSession) label() string {
	if w.isTwice {
		return w.ID
	}
	return naming.Label(w)
}

// describe returns the name of a session, and what started it.
func (w *workSession) describe() string {
	if what := w.what(); what != "" {
		return w.label() + " (" + what + ")"
	}
	return w.label()
}

// of returns the session with its program, as package inbox knows it.
func (w *workSession) of() inbox.ProgramSession {
	return inbox.ProgramSession{Session: w.Session, Program: w.program}
}

// what returns the program that started a session, or the input of its first run.
func (w *workSession) what() string { return w.of().What() }

// awaitCalls waits at a terminal until no command works in the session. It says for what
// it waits, and Ctrl-C ends the wait. done says what the user's command does not do then.
func (w *workSession) awaitCalls(cmd *cobra.Command, done string) error {
	errs := cmd.ErrOrStderr()
	if newScreen(errs).file == nil {
		return nil // the call waits for a few seconds, and fails
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	err := w.program.Storage.Sessions.AwaitCalls(ctx, w.Session, func(changes.Holder) {
		who := "another golem works in session " + w.label()
		if h, ok := w.of().Holder(); ok {
			who = describeHolder(h) + ", works in session " + w.label()
		}
		fmt.Fprintf(errs, "golem: waiting: %s; golem continues when it ends; Ctrl-C stops waiting\n", who)
	})
	if caught, is := errors.AsType[signaled](err); is {
		fmt.Fprintf(errs, "\ngolem: stopped waiting; nothing was %s\n", done)
		return caught.code()
	}
	return err
}

// describeHolder says what works in a session, and since when.
func describeHolder(h changes.Holder) string {
	text := h.Command
	if h.Process != 0 {
		text += fmt.Sprintf(" (process %d)", h.Process)
	}
	if !h.Since.IsZero() {
		layout := "15:04"
		if time.Since(h.Since) > 12*time.Hour {
			layout = "2006-01-02 15:04"
		}
		text += ", since " + h.Since.Local().Format(layout)
	}
	return text
}

// maxWhat is how many characters of a command or an input are shown.
const maxWhat = 30

// sessionsHere returns the sessions of the program in this directory. It also returns
// sessions that golem exec started without a program, in this directory or in one above
// that they show. The newest comes first.
func (f *programFlags) sessionsHere() ([]*workSession, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	dir, err := f.realDir()
	if err != nil {
		return nil, err
	}
	p, err := f.open(opening{otherwise: emptyProgram})
	if err != nil {
		return nil, err
	}
	var all []*workSession
	if p.Content.Hash != "" {
		list, err := inbox.ProgramSessions(p)
		if err != nil {
			return nil, err
		}
		all = workSessions(list, dir)
	}
	for at := dir; ; at = filepath.Dir(at) {
		o.Dir = at
		list, err := inbox.BareSessions(o, dir)
		if err != nil && (at == dir || errors.Is(err, fs.ErrPermission)) {
			return nil, err
		}
		for _, w := range workSessions(list, dir) {
			same := func(v *workSession) bool {
				return v.ID == w.ID && v.program.Storage.Sessions.State == w.program.Storage.Sessions.State
			}
			if i := slices.IndexFunc(all, same); i >= 0 { // with a profile of this directory, the program has it without its mounts
				all[i] = w
			} else {
				all = append(all, w)
			}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b *workSession) int { return b.LastUsed.Compare(a.LastUsed) })
	if f.recovered != nil { // completion in a shell removes nothing
		all = withoutUnused(all)
	}
	named := make(map[string]*workSession)
	for _, w := range all {
		if first := named[w.Name]; first != nil {
			first.isTwice, w.isTwice = true, true
		} else if w.Name != "" {
			named[w.Name] = w
		}
	}
	return all, nil
}

// withoutUnused removes sessions that hold nothing, such as those of a killed golem, and
// returns the others.
func withoutUnused(all []*workSession) []*workSession {
	gone := make(map[*program.Program][]string)
	return slices.DeleteFunc(all, func(w *workSession) bool {
		if _, done := gone[w.program]; !done {
			gone[w.program] = removeUnused(w.program, agentUser(), "")
		}
		return slices.Contains(gone[w.program], w.ID)
	})
}

// realDir returns the current directory, or the one of -C, without symlinks.
func (f *programFlags) realDir() (string, error) {
	if err := checkDir(f.dir); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(f.dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", usagef("-C %s: no such directory; golem status --all lists the directories in which something waits", sandbox.Shown(f.dir))
	}
	return dir, err
}

// pathsOf returns the paths of a program as the user types them here.
func (f *programFlags) pathsOf(p *program.Program) (*paths, error) {
	dir, err := f.realDir()
	if err != nil {
		return nil, err
	}
	return newPaths(p, dir), nil
}

// workSessions returns sessions for a command that runs in dir.
func workSessions(list []inbox.ProgramSession, dir string) (all []*workSession) {
	for _, s := range list {
		all = append(all, newWorkSession(s.Program, s.Session, dir))
	}
	return all
}

// addChoiceFlags adds the flags of commands that work on the changes of one session.
func addChoiceFlags(cmd *cobra.Command) *gateFlags {
	f := &gateFlags{programFlags: addProgramFlags(cmd), wait: patience}
	cmd.Flags().StringVar(&f.session, "session", "", "the session: its name, its id, the beginning of its id, or last (the last used session), also as an argument: @NAME; the newest session with changes if not given, which without a terminal needs to be the only one (GOLEM_SESSION)")
	return f
}

// A noChangesError is the error if no session of the directory has changes.
type noChangesError string

func (e noChangesError) Error() string { return string(e) }

// noChanges returns the error if no session here has changes. It names those in
// directories below.
func (f *programFlags) noChanges(command string) error {
	lines := append([]string{"no session here has changes; golem exec CMD starts one"}, f.hintBelow(command)...)
	return noChangesError(strings.Join(lines, "\n"))
}

// inWorkTree reports whether a directory is in a git work tree.
func inWorkTree(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil || git.Above(dir) != ""
}

// choose returns the session that the user named, or the newest session with changes. If
// several sessions have changes, it prints that. Without a terminal it returns an error
// then.
func (f *gateFlags) choose(cmd *cobra.Command) (*workSession, error) {
	all, err := f.sessionsHere()
	if err != nil {
		return nil, err
	}
	var chosen *workSession
	if id := f.sessionID(); id != "" {
		if chosen, err = naming.Find(all, id); err != nil {
			return nil, f.findBelow(id, cmd.CommandPath(), f.meantPath(err))
		}
	} else {
		var names []string
		var taken *workSession // the newest session whose changes are all in taken commits
		for _, w := range all {
			if len(names) > maxListed {
				break
			}
			has, err := f.isWanted(w)
			if err != nil {
				return nil, err
			}
			switch {
			case !has:
			case w.program.Storage.Sessions.HasOnlyTaken(w.Session):
				taken = cmp.Or(taken, w)
			default:
				chosen, names = cmp.Or(chosen, w), append(names, w.label())
			}
		}
		chosen = cmp.Or(chosen, taken)
		switch {
		case chosen == nil && f.commits:
			op, what, files := cmd.Name(), "changes", ""
			if !f.orChanges {
				op, what, files = op+" --commits", "commits that your repository lacks", "golem "+op+" without --commits is for changed files, "
			}
			if dir, err := f.realDir(); err == nil && !inWorkTree(dir) {
				return nil, &sandbox.Error{Op: op, Code: sandbox.ErrNotFound, Hint: "this directory is not in a git repository; " + files + "golem status lists the sessions"}
			}
			return nil, &sandbox.Error{Op: op, Code: sandbox.ErrNotFound, Hint: "no session here has " + what + "; " + files + "golem status lists the sessions"}
		case chosen == nil:
			return nil, f.noChanges(cmd.CommandPath())
		case len(names) > 1 && findTerminal(false) == nil:
			return nil, usagef("%s sessions here have changes: %s; choose one with --session", howMany(len(names)), naming.Some(names))
		case len(names) > 1:
			chosen.isNamed = true
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s is the newest session; %s more %s changes: golem status\n", chosen.label(), howMany(len(names)-1), visible.Verb(len(names)-1, "has", "have"))
		}
	}
	chosen.isNamed = chosen.isNamed || f.sessionID() != ""
	f.session = chosen.ID
	chosen.hasEnded = true
	chosen.others = slices.DeleteFunc(all, func(w *workSession) bool { return w == chosen })
	return chosen, nil
}

// takeSession returns the arguments without the one that begins with @, and chooses the session
// that it names. All others are paths, so that no file can stand for a session. A path that
// begins with @ is typed with ./ before it.
func (f *gateFlags) takeSession(args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		word, isSession := strings.CutPrefix(arg, naming.Mark)
		switch {
		case !isSession:
			paths = append(paths, arg)
		case word == "":
			return nil, usageError("@ names a session: @last, @fix-login; golem sessions lists them")
		case f.session != "":
			return nil, usagef("one session at a time: %s and %s; a path that begins with @ is ./%[2]s", sandbox.Shown(f.session), sandbox.Shown(arg))
		default:
			f.session = arg
		}
	}
	return paths, nil
}

// meantPath adds to the error about a session that an argument names with @ how to type a path
// that begins with @.
func (f *gateFlags) meantPath(err error) error {
	e, is := errors.AsType[*sandbox.Error](err)
	if !is || !strings.HasPrefix(f.session, naming.Mark) {
		return err
	}
	meant := *e
	meant.Hint += "; a path that begins with @ is " + visible.CommandLine("./"+f.session)
	return &meant
}

// isWanted reports whether a command without --session may mean a session: it has changes,
// or for --commits it has changed branches, or for golem pr one of both.
func (f *gateFlags) isWanted(w *workSession) (bool, error) {
	if f.commits {
		if has, err := w.program.Storage.Sessions.MayHaveCommits(w.Session); err != nil || has || !f.orChanges {
			return has, err
		}
	}
	return w.program.Storage.Sessions.HasChanges(w.Session)
}

// howMany returns a number of sessions that golem stopped to count after maxListed.
func howMany(n int) string {
	if n >= maxListed {
		return fmt.Sprintf("at least %d", n)
	}
	return strconv.Itoa(n)
}

// lastSession is the value of --session for the session that was used last.
const lastSession = naming.Last

// review returns the changes of a session at and below the typed paths, or all changes if
// there are no paths. names are the sandbox names of the paths. A path without a change
// is an error. At a terminal it shows its progress there.
func (w *workSession) review(errs io.Writer, op string, paths []string, diffs bool) (r *session.Review, names []string, err error) {
	for _, typed := range paths {
		name, err := w.nameOf(typed)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	report, end := beginReading(errs)
	defer end()
	sessions := w.program.Storage.Sessions
	sessions.Unfolded = w.unfolded
	if r, err = sessions.Review(w.Session, names, diffs, report); err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		if slices.ContainsFunc(r.Files, func(c session.FileChange) bool { return policy.AtOrBelow(name, c.Path) }) ||
			slices.ContainsFunc(r.Ignored, func(f ignored.Files) bool { return policy.AtOrBelow(name, f.Path) }) {
			continue
		}
		return nil, nil, w.unchanged(op, paths[i], name)
	}
	return r, names, nil
}

// changedBy returns the newest other session that has changed a path, nil if there is none.
func (w *workSession) changedBy(typed string) *workSession {
	for _, other := range w.others {
		name, err := other.nameOf(typed)
		if err != nil {
			continue
		}
		if r, err := other.program.Storage.Sessions.Review(other.Session, []string{name}, false, nil); err == nil && len(r.Files) > 0 {
			return other
		}
	}
	return nil
}

// hasChanged reports whether the session has changed a path.
func (w *workSession) hasChanged(typed string) bool {
	name, err := w.nameOf(typed)
	if err != nil {
		return false
	}
	r, err := w.program.Storage.Sessions.Review(w.Session, []string{name}, false, nil)
	return err == nil && len(r.Files) > 0
}

// asTyped returns a path as the user typed it: alone, or with its hunks.
func (w *workSession) asTyped(typed string) string {
	var words []string
	for _, h := range w.hunks {
		if file, _, _ := cutLast(h, ":"); file == typed {
			words = append(words, "--hunks", h)
		}
	}
	if len(words) == 0 {
		words = []string{typed}
	}
	return visible.CommandLine(words...)
}

// unchanged returns the error for a path that a session has not changed. It suggests
// another session that has changed it, or a changed file with a similar name.
func (w *workSession) unchanged(op, typed, name string) error {
	e := &sandbox.Error{Op: op, Path: typed, Code: sandbox.ErrNotFound, Hint: "session " + w.label() + " has not changed it; golem diff --stat" + w.option() + " lists the changes"}
	switch _, err := os.Lstat(typed); {
	case err == nil:
	case typed == "last":
		e.Hint = "it is taken as a path; golem " + op + " --session last names the session"
	case typed == "HEAD" || strings.HasPrefix(typed, "HEAD~") || strings.HasPrefix(typed, "HEAD^"):
		e.Hint = "golem " + op + " takes paths, and no commits; golem diff compares a session with your directory"
	}
	if slices.Contains(strings.Split(name, "/"), ".git") {
		e.Hint = "golem never applies changes in .git"
		return e
	}
	if i := slices.IndexFunc(append(w.others, w), func(one *workSession) bool { return typed == one.Name || typed == one.ID }); i >= 0 {
		e.Hint = "a bare word is a path; golem " + op + " " + naming.Mark + typed + " means the session"
		return e
	}
	if other := w.changedBy(typed); other != nil {
		e.Hint = "session " + w.label() + " has not changed it, but session " + other.describe() + " has: golem " + op + " " + w.asTyped(typed) + " --session " + other.label()
		return e
	}
	file, numbers, isHunk := cutLast(typed, ":")
	if isHunk = isHunk && numbers != "" && strings.Trim(numbers, "0123456789,") == ""; isHunk {
		if other := w.changedBy(file); other != nil && !w.hasChanged(file) {
			e.Hint = "session " + w.label() + " has not changed " + sandbox.Shown(file) + ", but session " + other.describe() + " has: golem apply --hunks " + visible.CommandLine(typed) + " --session " + other.label()
			return e
		}
	}
	all, err := w.program.Storage.Sessions.Review(w.Session, nil, false, nil)
	if err != nil {
		return e
	}
	if isHunk && w.hasChanged(file) {
		e.Hint = "golem apply --hunks " + visible.CommandLine(typed) + w.option() + " applies these hunks, golem apply -p " + visible.CommandLine(file) + w.option() + " asks about each"
		return e
	}
	base := func(p string) string { return path.Base(filepath.ToSlash(p)) }
	for _, c := range all.Files {
		p := w.pathOf(c.Path)
		if found := sandbox.Nearest(base(typed), []string{base(p)}); len(found) > 0 {
			e.Hint = "session " + w.label() + " has not changed it; did you mean " + sandbox.Shown(p) + "?"
			break
		}
	}
	return e
}
