package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show, verify or export the journal, or report from it",
		Long: `The journal records every call: who made it, its effects, the decision, who decided, and
the outcome. It holds no file contents and no secrets. golem only appends to it. golem
audit verify finds records that somebody changed. It cannot detect changes by somebody who
can read the signing key.`,
		Example: "  golem audit show --since 1h\n  golem audit report --since yesterday\n  golem audit verify",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditShow(), newAuditReport(), newAuditVerify(), newAuditExport())
	return cmd
}

// journal opens the directory of the journal, or returns nil if there is none yet. It
// creates nothing. where is the path of the state, for the user.
func (f *programFlags) journal() (folder *state.Dir, where string, err error) {
	p, err := f.open(opening{strict: true, otherwise: sessionState})
	if p == nil {
		return nil, "", err
	}
	if p.Content.Hash == "" && !p.Storage.Exists() {
		return nil, "", f.hintElsewhere(noProgram(p))
	}
	folder, err = p.Storage.OpenJournal()
	return folder, string(p.Storage.Dir()), err
}

// A timeFlag is a flag with a point in time: a time, a day, or a duration before now.
type timeFlag struct {
	time time.Time
	text string
}

// Set implements pflag.Value.
func (f *timeFlag) Set(text string) (err error) {
	f.text = text
	f.time, err = parseTime(text, time.Now())
	return err
}

// parseTime reads a point in time. A day is its first moment. The name of a weekday is the last
// such day, which may be today.
func parseTime(text string, now time.Time) (time.Time, error) {
	day := func(ago int) time.Time {
		year, month, day := now.Date()
		return time.Date(year, month, day-ago, 0, 0, 0, 0, now.Location())
	}
	word := strings.ToLower(strings.TrimSpace(text))
	if ago := slices.Index([]string{"today", "yesterday"}, word); ago >= 0 {
		return day(ago), nil
	}
	for ago := range 7 {
		if name := strings.ToLower(day(ago).Weekday().String()); len(word) >= 3 && strings.HasPrefix(name, word) {
			return day(ago), nil
		}
	}
	if ago, err := time.ParseDuration(word); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		number, ok := strings.CutSuffix(word, unit)
		if n, err := strconv.ParseUint(number, 10, 16); ok && err == nil {
			return now.AddDate(0, 0, -int(n)*days), nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, strings.TrimSpace(text), now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("it is a time such as 2h, 7d or 2w (ago), today, yesterday, monday, 2026-11-15 or 2026-11-15T10:42:00Z")
}

// String implements pflag.Value.
func (f *timeFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *timeFlag) Type() string { return "time" }

type filterFlags struct {
	audit.Filter
	since, until timeFlag
	last         int
	all          bool // of all programs
}

func addFilterFlags(cmd *cobra.Command) *filterFlags {
	f := &filterFlags{}
	flags := cmd.Flags()
	flags.Var(&f.since, "since", "records since then: 2h, 7d or 2w (ago), today, yesterday, monday (the last one), 2026-11-15, 2026-11-15T10:42:00Z")
	flags.Var(&f.until, "until", "records before then")
	flags.StringVar(&f.Origin, "origin", "", "calls by the user, by a model, or by a peer, which is another agent")
	flags.StringVar(&f.Worker, "worker", "", "calls by this worker, or by one that it called")
	flags.StringVar(&f.Tool, "tool", "", "calls of this tool")
	flags.StringVar(&f.Path, "path", "", "effects on this path, or below it")
	flags.StringVar(&f.Session, "session", "", "a session: its id, or its name while the session exists")
	flags.StringVar(&f.Decision, "decision", "", "preApproved, yes, no, pending, blocked")
	flags.StringVar(&f.Kind, "kind", "", "intent, outcome, refusal, answer, repair (of the journal itself)")
	flags.StringVar(&f.Call, "call", "", "the records of one call")
	flags.IntVar(&f.last, "last", 0, "only the last N of what is shown: records, with --net connections, with PATH changes of the file")
	flags.BoolVar(&f.all, "all", false, "records of all programs")
	return f
}

// These are the words that the filter flags accept.
var (
	decisions = []string{"preApproved", "yes", "no", "pending", "blocked", "revoked"}
	origins   = []string{policy.User.String(), policy.Model.String(), policy.Peer.String()}
	kinds     = []string{string(audit.Intent), string(audit.Outcome), string(audit.Refusal), string(audit.Answer), "repair", string(audit.Repair)}
)

// check refuses flags that no record can match.
func (f *filterFlags) check() error {
	if f.Kind == "repair" {
		f.Kind = string(audit.Repair) // the journal keeps the older word
	}
	for _, flag := range []struct {
		name, word string
		known      []string
	}{{"--decision", f.Decision, decisions}, {"--origin", f.Origin, origins}, {"--kind", f.Kind, kinds}} {
		if flag.word != "" && !slices.Contains(flag.known, flag.word) {
			return usagef("%s %s: it is %s", flag.name, sandbox.Shown(flag.word), strictyaml.OneOf(flag.known))
		}
	}
	if f.last < 0 {
		return usagef("--last %d: it is a number of records", f.last)
	}
	if !f.since.time.IsZero() && !f.until.time.IsZero() && !f.since.time.Before(f.until.time) {
		return usageError("--since is not before --until: there is no time between them")
	}
	if f.Path != "" && !strings.HasPrefix(f.Path, "/") {
		f.Path = "/" + f.Path // the tools use absolute paths
	}
	return nil
}

// read calls yield for the records that the flags select.
func (f *filterFlags) read(folder *state.Dir, yield func(audit.Record, []byte) error) error {
	if folder == nil {
		return nil
	}
	defer folder.Close()
	f.Since, f.Until = f.since.time, f.until.time
	if f.last == 0 {
		return audit.Read(folder, f.Filter, yield)
	}
	return audit.Last(folder, f.Filter, f.last, yield)
}

func newAuditShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [ID | PATH]",
		Short: "Show records of the journal, or one decision in words",
		Long: `Show the records of the journal, one per line: number, time, session, kind, origin (user,
model, or peer: another agent), worker, tool, the command that ran, effects, the decision
and who decided, and the outcome. The flags select records.

With --net, list the connections of commands to hosts instead: the host, whether golem
allowed it, how many bytes went each way, and how long it took.

With ID, show one decision in words: who decided, where, and the text that was on screen. ID
is the number of a record, the id of a request or of a call, or the start of a digest.

With PATH, list every command, file tool, apply and discard that changed the file, in the
order of time, also those of sessions that are gone. The last decisions about it follow in
words.`,
		Example: "  golem audit show --since monday --last 20\n  golem audit show src/main.c\n  golem audit show --net --since 7d",
		Args:    takesArgs(0, 1, "audit show takes one ID or PATH; golem audit show --path PATH lists the records of a directory"),
	}
	flags := addProgramFlags(cmd)
	filter := addFilterFlags(cmd)
	asCSV, net := false, false
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values for a spreadsheet")
	cmd.Flags().BoolVar(&net, "net", false, "list the connections of commands: host, decision, bytes and time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 1:
			page := newPageBuffer(cmd.OutOrStdout())
			safe := visible.NewWriter(page)
			if err := filter.check(); err != nil {
				return err
			}
			err := flags.showDecision(safe, args[0], filter, wantsJSON(cmd))
			return cmp.Or(err, safe.Close(), page.flush())
		case net && (asCSV || filter.Tool != ""):
			return usageError("--net lists connections; do not use it with --csv or --tool")
		case net:
			return flags.printConnections(cmd, filter)
		case asCSV && wantsJSON(cmd):
			return usageError("--csv and --json exclude each other")
		case asCSV:
			return flags.printCSV(cmd, filter)
		case wantsJSON(cmd):
			list, known := []any{}, sessionNames{}
			err := flags.eachRecord(cmd, filter, func(r inbox.JournalRecord, names sessionNames) error {
				list, known = append(list, r), names
				return nil
			})
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), map[string]any{"records": list, "session_names": known})
		}
		return flags.printRecords(cmd, filter)
	}
	return cmd
}

// A sessionNames has the names of the sessions that still exist, by id. The journal has only ids.
type sessionNames map[string]string

// namesBeside returns the names of some sessions.
func namesBeside(all []*workSession) sessionNames {
	names := make(sessionNames)
	for _, w := range all {
		if w.Name != "" {
			names[w.ID] = w.Name
		}
	}
	return names
}

// beside returns the id of a session with its name, "-" for no session.
func (n sessionNames) beside(id string) string {
	return strings.TrimSuffix(cmp.Or(sandbox.Shown(id), "-")+" "+n[id], " ")
}

// width returns how many columns a session takes.
func (n sessionNames) width() int {
	most := len("session ")
	for id := range n {
		most = max(most, len(n.beside(id)))
	}
	return most
}

// findSession puts the id of a session into a filter that has the name of one in this directory.
// It returns the names of all. A word that means none here can be the id of one that is gone, or
// of one elsewhere.
func (f *filterFlags) findSession(p *programFlags) (sessionNames, error) {
	f.Session = strings.TrimPrefix(f.Session, naming.Mark)
	all, err := p.sessionsHere()
	if err != nil { // the journal is enough
		return nil, nil
	}
	if f.Session != "" {
		switch w, err := naming.Find(all, f.Session); {
		case err == nil:
			f.Session = w.ID
		case sandbox.CodeOf(err) != sandbox.ErrNotFound:
			return nil, err
		}
	}
	return namesBeside(all), nil
}

// eachRecord calls yield for the records that the flags select, of this program or of
// all, with the names of sessions. The records of all programs are sorted by time.
func (f *programFlags) eachRecord(cmd *cobra.Command, filter *filterFlags, yield func(inbox.JournalRecord, sessionNames) error) error {
	if err := filter.check(); err != nil {
		return err
	}
	names, err := filter.findSession(f)
	if err != nil {
		return err
	}
	if !filter.all {
		folder, where, err := f.journal()
		if err != nil {
			return err
		}
		return filter.read(folder, func(r audit.Record, line []byte) error {
			return yield(inbox.JournalRecord{Program: inventory.NameOf(where), Record: r, Line: line}, names)
		})
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	filter.Since, filter.Until = filter.since.time, filter.until.time
	list, problems, err := inbox.ReadJournals(o, "", filter.Filter, filter.last)
	if err != nil {
		return err
	}
	for _, p := range problems { // the journals of other programs may be whole
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: skipped the journal of %s: %s\n", p.Directory, p.Text)
	}
	for _, r := range list {
		if err := yield(r, names); err != nil {
			return err
		}
	}
	return nil
}

func (f *programFlags) printCSV(cmd *cobra.Command, filter *filterFlags) error {
	c, err := audit.NewCSVWriter(cmd.OutOrStdout())
	if err != nil {
		return err
	}
	err = f.eachRecord(cmd, filter, func(r inbox.JournalRecord, _ sessionNames) error { return c.Write(r.Program, r.Record) })
	return cmp.Or(err, c.Flush())
}

// recordsHead is the line above the records.
const recordsHead = "   n  time                 %s%-*s  kind     from   worker  tool  what"

// printRecords prints records below a line of column names. At a terminal it uses the
// pager if they do not fit.
func (f *programFlags) printRecords(cmd *cobra.Command, filter *filterFlags) error {
	var text strings.Builder
	to, s := cmd.OutOrStdout(), newScreen(cmd.OutOrStdout())
	if s.file != nil {
		to = &text
	}
	shown := 0
	column := func(program string) string {
		if !filter.all {
			return ""
		}
		return fmt.Sprintf("%-12s  ", visible.Name(program))
	}
	err := f.eachRecord(cmd, filter, func(r inbox.JournalRecord, names sessionNames) error {
		if shown++; shown == 1 {
			if err := s.page().Line(to, fmt.Sprintf(recordsHead, column("program"), names.width(), "session")); err != nil {
				return err
			}
		}
		return s.page().Line(to, formatRecord(r.Record, column(r.Program), names))
	})
	if err != nil {
		return err
	}
	if shown == 0 {
		said := "no records"
		if filter.Filter != (audit.Filter{}) {
			said += " match the flags; golem audit show lists all"
			if filter.Session != "" {
				said += "; a name finds only a session that still exists, its id also finds one that is gone"
			}
		}
		fmt.Fprintln(to, said)
	}
	if s.file == nil {
		return nil
	}
	return s.print(text.String())
}

// formatRecord returns a record as one line. program is a column, or "".
func formatRecord(r audit.Record, program string, names sessionNames) string {
	parts := []string{fmt.Sprintf("%4d", r.Number), r.Time.Local().Format(time.DateTime), program + fmt.Sprintf("%-*s", names.width(), names.beside(r.Session)),
		fmt.Sprintf("%-7s", sandbox.Shown(string(r.Kind))), fmt.Sprintf("%-5s", cmp.Or(sandbox.Shown(r.Origin), "-"))}
	if len(r.Workers) > 0 {
		parts = append(parts, strings.Join(shownAll(r.Workers), " → "))
	}
	if r.Tool != "" {
		parts = append(parts, sandbox.Shown(r.Tool))
	}
	if command := r.Command(); command != "" && !slices.Contains(r.Effects, policy.Run.String()+" "+command) {
		parts = append(parts, "$ "+visible.Line(command, maxCommand))
	}
	if about := r.TrustText(); about != "" {
		parts = append(parts, about)
	}
	if len(r.Effects) > 0 {
		parts = append(parts, strings.Join(shownAll(r.Effects), ", "))
	} else if wanted := namesIn(r.Args); len(wanted) > 0 {
		parts = append(parts, strings.Join(wanted, ", "))
	}
	if r.Decision != "" {
		word := sandbox.Shown(r.Decision)
		about := sandbox.Shown(r.By)
		if r.Decision == "pending" && r.By == "nobody" {
			word, about = "waits for approval", ""
		}
		switch {
		case r.Seen == "unseen":
			about += "; approved unseen"
		case r.Seen != "":
			about += "; " + sandbox.Shown(r.Seen) + " shown"
		}
		if about = strings.TrimPrefix(about, "; "); about != "" {
			word += " (" + about + ")"
		}
		parts = append(parts, word)
	}
	switch {
	case r.Decision == "pending" && r.Code == "declined": // the decision says it
	case r.Code != "":
		parts = append(parts, sandbox.Shown(r.Code))
	case r.Kind == audit.Outcome:
		parts = append(parts, "ok")
	}
	if !r.Files.IsEmpty() {
		parts = append(parts, filesWord(r)+" "+r.Files.String())
	}
	if r.Request != "" {
		parts = append(parts, "request "+sandbox.Shown(r.Request))
	}
	if r.Note != "" {
		parts = append(parts, sandbox.Shown(r.Note))
	}
	return strings.Join(parts, "  ")
}

// maxCommand is how many characters of a command golem audit show prints. --json and
// --csv have all that the journal holds.
const maxCommand = 120

// namesIn returns the paths among the arguments, or the commit, target and branch. For a
// call without effects they show what the call was about.
func namesIn(args map[string]any) []string {
	var names []string
	for _, key := range []string{"path", "from", "to", "commitId", "target", "branch"} {
		name, ok := args[key].(string)
		if !ok {
			continue
		}
		if key == "commitId" {
			key, name = "commit", name[:min(len(name), 12)]
		}
		names = append(names, key+" "+sandbox.Shown(name))
	}
	return names
}

func newAuditVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [EXPORT]",
		Short: "Check that nothing in the journal was changed",
		Long: `Check that every record is in its place in the hash chain and has a valid seal, and that
the sealed head names the last record. golem prints the first record that was changed.

With EXPORT, a file of golem audit export or of exportJournal in a browser, golem checks the
chain of that file. An export has no key, so golem cannot check seals, and not whether lines
are missing at the end. It prints the hash of the last line, to compare with one that you
keep.

Exit code 0: unchanged; 1: changed.`,
		Example: "  golem audit verify\n  golem audit verify --json\n  golem audit verify journal.jsonl",
		Args:    takesArgs(0, 1, "audit verify takes one EXPORT, got %d"),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return verifyExport(cmd, args[0])
		}
		folder, where, err := flags.journal()
		if err != nil {
			return err
		}
		if folder == nil {
			return printReport(cmd, audit.Report{}, where)
		}
		defer folder.Close()
		report, err := audit.Verify(cmd.Context(), folder, nil)
		if err != nil {
			return err
		}
		return printReport(cmd, report, where)
	}
	return cmd
}

// verifyExport checks the chain of an export.
func verifyExport(cmd *cobra.Command, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	r, last, err := audit.VerifyExport(file)
	if err != nil {
		return err
	}
	doc := map[string]any{"ok": r.Bad == nil, "records": r.Records, "export": name, "mended": len(r.Repairs), "last": last}
	if r.Bad != nil {
		doc["bad"] = map[string]any{"record": r.Bad.Number, "what": r.Bad.What}
	}
	return cmp.Or(printOr(cmd, doc, func(w io.Writer) {
		if r.Bad != nil {
			fmt.Fprintf(w, "not whole: %s\n", visible.Line(r.Bad.String(), maxCommand)) // it may quote the file
			return
		}
		fmt.Fprintf(w, "%s, chain whole; an export has no key, so seals were not checked\n", visible.Count(int(r.Records), "record"))
		fmt.Fprintf(w, "the last line has the SHA-256 %s\n", last)
	}), exitIf(r.Bad != nil, exitFailed))
}

func printReport(cmd *cobra.Command, r audit.Report, where string) error {
	doc := map[string]any{"ok": r.Bad == nil, "records": r.Records, "state": where, "mended": len(r.Repairs), "behind": r.Behind, "unfinished": len(r.Open)}
	if !r.Head.IsZero() {
		doc["head"] = r.Head
	}
	if r.Bad != nil {
		doc["bad"] = map[string]any{"record": r.Bad.Number, "what": r.Bad.What}
	}
	return cmp.Or(printOr(cmd, doc, func(w io.Writer) { printVerdict(w, r, where) }), exitIf(r.Bad != nil, exitFailed))
}

func printVerdict(w io.Writer, r audit.Report, folder string) {
	switch {
	case r.Bad != nil:
		fmt.Fprintf(w, "not whole: %s\n", r.Bad)
		if r.Records == 0 {
			return // the message already says what to do
		}
		if r.Bad.Before {
			fmt.Fprintln(w, "the records before it are unchanged")
		}
		fmt.Fprintf(w, "golem continues this journal, and the error stays in it; to start a new one, move the files journal* and clock.json out of %s\n", folder)
		return // a changed journal cannot show which calls have no outcome
	case r.Records == 0:
		fmt.Fprintln(w, "no records yet")
	default:
		fmt.Fprintf(w, "%s, chain whole, head sealed %s\n", visible.Count(int(r.Records), "record"), r.Head.Local().Format("2006-01-02 15:04 MST"))
	}
	if r.Behind > 0 {
		fmt.Fprintf(w, "the sealed head is %s behind: a process was killed, the power failed, or somebody restored an older head\n", visible.Count(int(r.Behind), "record"))
	}
	for _, m := range r.Repairs {
		fmt.Fprintf(w, "repaired at record %d: %s\n", m.Number, m.Note)
	}
	for _, u := range r.Open {
		fmt.Fprintf(w, "no outcome: record %d, %s, started %s; it still runs, or was interrupted\n", u.Number, sandbox.Shown(u.Tool), u.Time.Local().Format(time.DateTime))
	}
}

func newAuditExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the journal for other programs",
		Long: `Print the records exactly as they are in the journal, one JSON object per line. Anybody can
check the chain of a whole export: prev is the SHA-256 of the line before, without its
line end.

--format csv prints comma-separated values for a spreadsheet. golem writes a ' before a cell
that a spreadsheet would take for a formula.`,
		Example: "  golem audit export > journal.jsonl\n  golem audit export --all --since 30d --format csv > journal.csv",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	filter := addFilterFlags(cmd)
	format := "jsonl"
	cmd.Flags().StringVar(&format, "format", format, "jsonl or csv")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != "jsonl" && format != "csv" {
			return usagef("--format %s: it is jsonl or csv", sandbox.Shown(format))
		}
		if format == "csv" {
			return flags.printCSV(cmd, filter)
		}
		return flags.eachRecord(cmd, filter, func(r inbox.JournalRecord, _ sessionNames) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", r.Line)
			return err
		})
	}
	return cmd
}
