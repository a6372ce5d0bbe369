package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A days is the value of a flag for a duration in which d and w are days and weeks.
type days time.Duration

// String implements pflag.Value.
func (d *days) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *days) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *days) Set(text string) error {
	for unit, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > 36500 {
				return errors.New("it is a time such as 30d, 2w or 720h")
			}
			*d = days(time.Duration(n*hours) * time.Hour)
			return nil
		}
	}
	parsed, err := time.ParseDuration(text)
	if err == nil && parsed <= 0 {
		err = errors.New("it is above 0")
	}
	*d = days(parsed)
	return err
}

// isOlder reports whether a session was not used for this long.
func (d days) isOlder(w *workSession) bool { return time.Since(w.LastUsed) > time.Duration(d) }

func newSessionsRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm [SESSION…]",
		Aliases: []string{"remove"},
		Short:   "Remove sessions and their changes",
		Long: `Remove sessions by their names, their ids, or last. golem skips a session that
another golem uses. It asks before it removes a session with changes that were not
applied, or with a run that waits for an approval. Without a terminal it skips such a
session, unless you give --yes.

Exit code 0: all removed; 1: some skipped; 3: declined.`,
		Example: "  golem sessions rm fix-login\n  golem sessions rm last\n  golem sessions rm --older 30d --yes",
	}
	flags := addProgramFlags(cmd)
	var older days
	yes := false
	cmd.Flags().BoolVar(&yes, "yes", false, "also remove sessions with changes that were not applied or with a run that waits, without asking")
	cmd.Flags().Var(&older, "older", "sessions that were not used for this long: 30d, 720h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && older <= 0 {
			return usageError("remove which? type the name of a session, or --older 30d; golem sessions lists them")
		}
		all, err := flags.sessionsHere()
		if err != nil {
			return err
		}
		var chosen []*workSession
		for _, id := range args {
			w, err := naming.Find(all, id)
			if err != nil {
				return err
			}
			if !slices.Contains(chosen, w) {
				chosen = append(chosen, w)
			}
		}
		for _, w := range all {
			if older > 0 && older.isOlder(w) && !slices.Contains(chosen, w) {
				chosen = append(chosen, w)
			}
		}
		r := &removal{cmd: cmd, yes: yes}
		if err := r.remove(chosen); err != nil {
			return err
		}
		return r.report()
	}
	return cmd
}

func newSessionsPrune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old and empty sessions",
		Long: `Remove sessions that were not used for 30 days, or for the time of --older. With --clean
golem removes only sessions without changes, of any age unless you give --older. golem
lists the sessions and asks first. It asks a second time for sessions with changes that
were not applied. It never removes a session that runs or waits for an approval, or one
that golem undo can return changes to: golem sessions rm NAME removes such a session.

Without a terminal golem removes nothing, unless you give --yes. --yes removes only sessions
without changes. golem sessions rm --yes NAME removes one with changes.

Exit code 0: removed, or nothing to remove; 1: some skipped; 3: declined, or no terminal to
ask at.`,
		Example: "  golem sessions prune\n  golem sessions prune --older 7d\n  golem sessions prune --clean --yes",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	var older days
	clean, yes := false, false
	cmd.Flags().Var(&older, "older", "only sessions that were not used for this long: 7d, 720h; 30d if you give neither --older nor --clean")
	cmd.Flags().BoolVar(&clean, "clean", false, "only sessions without changes")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask, and remove only sessions that have no changes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := flags.sessionsHere()
		if err != nil {
			return err
		}
		if older == 0 && !clean {
			older = days(30 * 24 * time.Hour)
		}
		var empty, changed []*workSession
		r := &removal{cmd: cmd}
		for _, w := range all {
			state := w.program.Storage.StateOf(w.Session)
			switch {
			case older > 0 && !older.isOlder(w):
			case state == storage.SessionClean && session.NeedsSession(w.program.Storage.Sessions, w.Session):
				r.forUndo = append(r.forUndo, w)
			case state == storage.SessionClean:
				empty = append(empty, w)
			case state == storage.SessionChanges && !clean:
				changed = append(changed, w)
			}
		}
		return r.prune(empty, changed, yes)
	}
	return cmd
}

// prune shows sessions without and with changes, asks for each group, and removes them.
func (r *removal) prune(empty, changed []*workSession, yes bool) error {
	cmd := r.cmd
	if len(empty)+len(changed) == 0 {
		if wantsJSON(cmd) {
			return r.report()
		}
		fmt.Fprintln(cmd.OutOrStdout(), "nothing to remove; golem sessions lists the sessions")
		r.printForUndo()
		return nil
	}
	for _, group := range []struct {
		list     []*workSession
		what     string
		changed  bool
		question string
	}{
		{empty, "without changes", false, "remove %s without changes"},
		{changed, "with changes that were not applied", true, "delete %s with changes that were never applied"},
	} {
		if len(group.list) == 0 {
			continue
		}
		rows, err := groupRows(group.list)
		if err != nil {
			return err
		}
		asks := !yes && !wantsJSON(cmd)
		if !wantsJSON(cmd) && !(asks && findTerminal(false) != nil) { // otherwise the question shows them
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s:\n", visible.Count(len(group.list), "session"), group.what)
			printColumns(cmd.OutOrStdout(), rows)
		}
		ok := yes && !group.changed
		if asks {
			if ok, err = r.ask(group.list, fmt.Sprintf(group.question, visible.Count(len(group.list), "session")), rows); err != nil {
				return err
			}
		}
		if !ok {
			r.decline(group.list, group.changed)
			if r.stopped {
				break
			}
			continue
		}
		for _, w := range group.list {
			if err := r.removeOne(w, !group.changed); err != nil {
				return err
			}
		}
	}
	return r.report()
}

// groupRows describes sessions that prune would remove.
func groupRows(list []*workSession) (rows [][]string, err error) {
	for _, w := range list {
		d, err := w.about()
		if err != nil {
			return nil, err
		}
		rows = append(rows, w.listRow(d))
	}
	return rows, nil
}

// A removal removes sessions and records which were skipped.
type removal struct {
	cmd *cobra.Command
	yes bool // also sessions with changes, without asking

	removed, busy, kept []*workSession
	reasons             []string       // why each of kept was skipped
	gone                []*workSession // removed by another golem meanwhile
	forUndo             []*workSession // kept because golem undo can return changes to them
	lost                []*workSession // removed, so that golem undo cannot return changes to them
	busyWith            []string       // what uses each of busy
	declined            bool           // the user said no
	stopped             bool           // the user wants no more questions
}

// ask asks whether to delete sessions. The summary completes "You are about to …", and rows
// describe the sessions. golem shows every change that would be lost. Without a terminal the
// answer is no, unless the user gave --yes.
func (r *removal) ask(list []*workSession, summary string, rows [][]string) (bool, error) {
	if err := checkUnseen("sessions rm", list[0].program, r.yes); err != nil {
		return false, err
	}
	request, err := removeQuestion(list, summary, rows)
	if err != nil {
		return false, err
	}
	var seen map[string]string // with --yes nobody saw the changes
	if !r.yes {
		if seen, err = digests(list); err != nil {
			return false, err
		}
	}
	d := decision{cmd: r.cmd, program: list[0].program, terminal: findTerminal(false), out: r.cmd.ErrOrStderr(), yes: r.yes}
	if d.terminal == nil && !d.yes {
		return false, nil
	}
	yes, reply, err := d.decide(request, func() error {
		if r.yes {
			return nil
		}
		now, err := digests(list)
		if err != nil {
			return err
		}
		for id, digest := range now {
			if digest == seen[id] {
				continue
			}
			return &sandbox.Error{Op: "sessions rm", Code: sandbox.ErrConflict, Hint: "a session has changed since its changes were shown; nothing was removed; type the command again"}
		}
		return nil
	})
	r.declined, r.stopped = r.declined || err == nil && !yes, reply.Stop
	return yes, explainFull(list[0].program, err)
}

// digests returns the digest of the changes of each session that has some. A session that
// another golem emptied or removed while golem asked has none, so nothing more can be lost.
func digests(list []*workSession) (map[string]string, error) {
	all := make(map[string]string)
	for _, w := range list {
		request, err := removeQuestion([]*workSession{w}, "", nil)
		if err != nil {
			return nil, err
		}
		if len(request.Changes)+len(request.Details) > 0 {
			all[w.ID] = request.Digest
		}
	}
	return all, nil
}

// removeQuestion returns the request to delete sessions, with every change that would be
// lost.
func removeQuestion(list []*workSession, summary string, rows [][]string) (tool.Request, error) {
	var details, ids []string
	var changes []tool.Change
	for _, row := range rows {
		details = append(details, strings.Join(strings.Fields(strings.Join(row, " ")), " "))
	}
	for _, w := range list {
		before := ""
		if len(list) > 1 {
			before = w.label() + ": "
		}
		lost, more := w.lost(before)
		if w.isPaused() {
			more = append(more, before+"a run that waits for an approval; golem run --resume "+w.label()+" continues it")
		}
		changes, details, ids = append(changes, lost...), append(details, more...), append(ids, w.ID)
	}
	return tool.NewCommandRequest("sessions rm", summary, nil, details, changes, map[string]string{"sessions": strings.Join(ids, " ")})
}

// lost returns the changes of a session that were not applied, and further lines about them.
// Each path gets a text before it.
func (w *workSession) lost(before string) (changes []tool.Change, more []string) {
	r, err := w.program.Storage.Sessions.Review(w.Session, nil, true, nil)
	if errors.Is(err, fs.ErrNotExist) { // it is gone already
		return nil, nil
	}
	if err != nil {
		return []tool.Change{{Path: before + "/", Op: tool.Update, About: "golem cannot read the changes: " + err.Error(), Omitted: "unreadable"}}, nil
	}
	for _, c := range r.Files {
		one := tool.Change{Path: before + w.pathOf(c.Path) + slash(c), Op: tool.Op(c.Op), Diff: c.Diff}
		if one.Op != tool.Create && one.Op != tool.Delete {
			one.Op = tool.Update
		}
		switch {
		case c.Diff != "":
		case c.Binary || c.Unread:
			one.About, one.Omitted = visible.Amount(c.Size), "binary or too large"
		default:
			one.About = strings.Trim(what(c), "()")
		}
		changes = append(changes, one)
	}
	if r.Unfit != "" {
		changes = append(changes, tool.Change{Path: before + "/", Op: tool.Update, About: r.Unfit, Omitted: "names that cannot be shown"})
	}
	for _, target := range r.Others {
		changes = append(changes, tool.Change{Path: before + target, Op: tool.Update, About: "the changes of a directory that is not mounted now", Omitted: "not mounted"})
	}
	if r.Git > 0 {
		more = append(more, before+visible.Count(r.Git, "changed file")+" in .git, not shown; golem diff --commits --session "+w.label()+" shows the commits")
	}
	return changes, more
}

// isPaused reports whether the run of a session waits for an approval.
func (w *workSession) isPaused() bool {
	return w.program.Storage.StateOf(w.Session) == storage.SessionPaused
}

// holds says what a session holds that would be lost, "" for nothing.
func (w *workSession) holds() string {
	var list []string
	if w.program.Storage.Sessions.HasWork(w.Session) {
		list = append(list, "changes that were never applied")
	}
	if w.isPaused() {
		list = append(list, "a run that waits for an approval")
	}
	return strings.Join(list, " and ")
}

// remove removes sessions, except those that are in use, and those that hold something unless
// the user agrees.
func (r *removal) remove(list []*workSession) error {
	for _, w := range list {
		hasWork := w.program.Storage.Sessions.HasWork(w.Session)
		if holds := w.holds(); holds != "" {
			ok := false
			if !r.stopped {
				var err error
				if ok, err = r.ask([]*workSession{w}, "delete "+w.title()+", with "+holds, nil); err != nil {
					return err
				}
			}
			if !ok {
				r.keep(w)
				continue
			}
		}
		if err := r.removeOne(w, !hasWork); err != nil {
			return err
		}
	}
	return nil
}

// removeOne removes a session, unless another golem uses it, or the user saw it as clean and
// it has changes now.
func (r *removal) removeOne(w *workSession, clean bool) error {
	needed := session.NeedsSession(w.program.Storage.Sessions, w.Session)
	switch err := w.program.Storage.RemoveSession(w.Session, clean, secrets(os.Environ())); {
	case errors.Is(err, changes.ErrBusy):
		r.busy, r.busyWith = append(r.busy, w), append(r.busyWith, w.whyBusy())
	case errors.Is(err, storage.ErrChanged):
		r.keep(w)
	case errors.Is(err, fs.ErrNotExist): // another golem removed it while this one asked
		r.gone = append(r.gone, w)
	case err != nil:
		return &sandbox.Error{Op: "sessions", Path: w.label(), Code: sandbox.CodeOf(err), Hint: explainFull(w.program, err).Error()}
	default:
		if r.removed = append(r.removed, w); needed {
			r.lost = append(r.lost, w)
		}
	}
	return nil
}

// whyBusy says why golem cannot remove a session now.
func (w *workSession) whyBusy() string {
	switch process, is := session.UndoInto(w.program.Storage.Sessions, w.Session); {
	case process > 0:
		return fmt.Sprintf("golem undo (process %d) returns changes to it", process)
	case is:
		return "golem undo returns changes to it; type the command again when that is done"
	}
	if h, ok := w.program.Storage.Sessions.Holder(w.Session); ok && h.Process != 0 {
		return visible.Line(describeHolder(h), maxColumns) + ", works in it"
	}
	return "another golem uses it"
}

// printForUndo prints which sessions prune keeps for golem undo.
func (r *removal) printForUndo() {
	if len(r.forUndo) > 0 {
		fmt.Fprintf(r.cmd.OutOrStdout(), "kept %s that golem undo can return changes to: %s; golem sessions rm NAME removes one\n", visible.Count(len(r.forUndo), "session"), strings.Join(visible.Each(r.forUndo, (*workSession).label), ", "))
	}
}

// decline records that the user does not want to remove sessions.
func (r *removal) decline(list []*workSession, changed bool) {
	for _, w := range list {
		if changed {
			r.keep(w)
		}
	}
	r.declined = r.declined || !changed
}

// keep records that a session was skipped because of what it holds.
func (r *removal) keep(w *workSession) {
	r.kept = append(r.kept, w)
	remove := "golem sessions rm --yes " + w.label()
	if w.program.Storage.UnseenOff != "" { // --yes is refused
		remove = "golem sessions rm " + w.label() + " at a terminal"
	}
	why := "it has changes that were not applied; golem diff --session " + w.label() + " shows them, " + remove + " removes them"
	if w.isPaused() {
		why = "its run waits for an approval; golem approve and then golem run --resume " + w.label() + " continue it, " + remove + " removes it"
	}
	r.reasons = append(r.reasons, why)
}

// report prints which sessions were removed and skipped, and returns the exit code.
func (r *removal) report() error {
	out, id := r.cmd.OutOrStdout(), func(w *workSession) string { return w.ID }
	if wantsJSON(r.cmd) {
		if err := printJSON(out, map[string]any{"removed": visible.Each(r.removed, id), "busy": visible.Each(r.busy, id), "kept": visible.Each(r.kept, id), "for_undo": visible.Each(r.forUndo, id)}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "removed %s\n", visible.Count(len(r.removed), "session"))
		for _, w := range r.lost {
			fmt.Fprintf(out, "golem undo can no longer return the changes that were applied from session %s to it\n", w.label())
		}
		for _, w := range r.gone {
			fmt.Fprintf(out, "session %s is gone already: another golem removed it\n", w.label())
		}
		for i, w := range r.busy {
			fmt.Fprintf(out, "skipped session %s: %s\n", w.label(), r.busyWith[i])
		}
		for i, w := range r.kept {
			fmt.Fprintf(out, "skipped session %s: %s\n", w.label(), r.reasons[i])
		}
		r.printForUndo()
		if r.declined && findTerminal(false) == nil {
			fmt.Fprintln(out, "no terminal to ask at; --yes removes the sessions without changes")
		}
	}
	switch {
	case r.declined:
		return exit(exitDenied)
	case len(r.busy)+len(r.kept) > 0:
		return exit(exitFailed)
	}
	return nil
}
