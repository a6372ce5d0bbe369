package cli

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

func newAuditReport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write a page about what happened, for a colleague",
		Long: `Write one page from the journal: the commands that ran, by session, who approved what,
which hosts commands reached and which golem refused, the cost of runs if it is known, which
files were applied, which were changed and not applied, what golem refused, and whether the
journal is unchanged.

--html writes a page without scripts that needs no other file. --json writes a document.

Exit code 0: the journal is unchanged; 1: it was changed, and the page says where, or it has
no record of the session.`,
		Example: "  golem audit report --since yesterday\n  golem audit report --since 7d --html > report.html\n  golem audit report --session claude-otter",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	var filter filterFlags
	asHTML := false
	cmd.Flags().Var(&filter.since, "since", "from then on: 2h, 7d or 2w (ago), today, yesterday, monday (the last one), 2026-11-15, 2026-11-15T10:42:00Z")
	cmd.Flags().Var(&filter.until, "until", "before then")
	cmd.Flags().StringVar(&filter.Session, "session", "", "only a session: its id, or its name while the session exists")
	cmd.Flags().BoolVar(&asHTML, "html", false, "write a page for a browser")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if asHTML && wantsJSON(cmd) {
			return usageError("--html and --json exclude each other")
		}
		if err := filter.check(); err != nil {
			return err
		}
		r, err := flags.readReport(cmd, &filter)
		if err != nil {
			return err
		}
		if filter.Session != "" && r.Records == 0 && r.Whole {
			return &sandbox.Error{Op: "audit report", Path: filter.Session, Code: sandbox.ErrNotFound,
				Hint: "the journal has no record of this session in that time; a name finds only a session that still exists, and golem audit show lists the ids of all"}
		}
		switch {
		case wantsJSON(cmd):
			err = printJSON(cmd.OutOrStdout(), r)
		case asHTML:
			err = r.writeHTML(cmd.OutOrStdout())
		default:
			page := newPageBuffer(cmd.OutOrStdout())
			safe := visible.NewWriter(page)
			r.print(safe)
			err = cmp.Or(safe.Close(), page.flush())
		}
		return cmp.Or(err, exitIf(!r.Whole, exitFailed))
	}
	return cmd
}

// A journalReport is the page of golem audit report.
type journalReport struct {
	Program string    `json:"program"`
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to"`
	Whole   bool      `json:"whole"`   // the journal is unchanged
	Verdict []string  `json:"verdict"` // what golem audit verify says
	*audit.Overview
	Use []sessionUse `json:"use"` // of runs whose session still exists
	// Names are the names of sessions that still exist, by id.
	Names sessionNames `json:"session_names,omitempty"`
	about string       // the session that the page is about, "" for all
}

// A sessionUse is what a run has used.
type sessionUse struct {
	Session string `json:"session"`
	inbox.WorkerUse
}

// readReport reads the journal of the program.
func (f *programFlags) readReport(cmd *cobra.Command, filter *filterFlags) (*journalReport, error) {
	r := &journalReport{From: filter.since.time, To: filter.until.time, Overview: &audit.Overview{}, Use: []sessionUse{}}
	if r.To.IsZero() {
		r.To = time.Now()
	}
	folder, where, err := f.journal()
	if err != nil {
		return nil, err
	}
	all, broken := f.sessionsHere()
	if r.Names, err = filter.findSession(f); err != nil {
		return nil, err
	}
	if filter.Session != "" {
		r.about = r.Names.beside(filter.Session)
	}
	dir, err := f.realDir()
	if err != nil {
		return nil, err
	}
	r.Program = visible.Text(dir)
	verdict := audit.Report{}
	if folder != nil {
		defer folder.Close()
		if verdict, err = audit.Verify(cmd.Context(), folder, nil); err != nil {
			return nil, err
		}
		err = audit.Read(folder, audit.Filter{Since: r.From, Until: filter.until.time, Session: filter.Session}, func(record audit.Record, _ []byte) error {
			r.Add(record)
			return nil
		})
		if err != nil && verdict.Bad == nil { // the verdict says what is damaged
			return nil, err
		}
	}
	r.Finish()
	var text strings.Builder
	printVerdict(&text, verdict, where)
	r.Whole, r.Verdict = verdict.Bad == nil, strings.Split(strings.TrimSpace(text.String()), "\n")
	if broken != nil {
		return r, nil // the sessions only add the cost
	}
	for _, w := range all {
		for _, s := range r.Sessions {
			if s.ID != w.ID {
				continue
			}
			if contents, err := w.program.Storage.Sessions.OpenContents(w.Session); err == nil {
				s.Revert(contents.Has)
				contents.Close()
			}
		}
		about, err := inbox.ProgramSession{Session: w.Session, Program: w.program}.About()
		if err == nil && filter.during(w.LastUsed) && about.Total.Turns > 0 && (filter.Session == "" || w.ID == filter.Session) {
			r.Use = append(r.Use, sessionUse{w.ID, about.Total})
		}
	}
	return r, nil
}

// A reportPart is a part of the page. All its texts are visible text.
type reportPart struct {
	title, none string
	head        []string
	rows        [][]string
	more        []string // lines below the table
}

// maxReportRows is how many rows of a table the page has, and maxReportCommand how many characters
// of a command. --json has all.
const (
	maxReportRows    = 500
	maxReportCommand = 300
)

// add adds a row.
func (p *reportPart) add(cells ...string) { p.rows = append(p.rows, cells) }

// cut limits the number of rows.
func (p *reportPart) cut() {
	if n := len(p.rows) - maxReportRows; n > 0 {
		p.rows = p.rows[:maxReportRows]
		p.more = append(p.more, "and "+visible.Count(n, "more row")+"; golem audit report --json has all")
	}
}

// parts returns the page in parts.
func (r *journalReport) parts() []reportPart {
	at := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	ran := reportPart{title: "What ran", none: "no commands", head: []string{"n", "time", "session", "command", "outcome", "changed"}}
	applied := reportPart{title: "Files applied", none: "none", head: []string{"time", "session", "file"}}
	kept := reportPart{title: "Files changed and not applied", none: "none", head: []string{"time", "session", "file", "what became of it"}}
	for _, s := range r.Sessions {
		id := r.Names.beside(s.ID)
		for _, c := range s.Commands {
			outcome, changed := "not finished: it still runs, or golem was killed", ""
			if c.Outcome != nil {
				outcome = cmp.Or(visible.Line(c.Outcome.Note, maxColumns), c.Outcome.KindText())
			}
			if c.Outcome != nil && !c.Outcome.Files.IsEmpty() {
				changed = c.Outcome.Files.String()
			}
			ran.add(fmt.Sprint(c.Intent.Number), at(c.Intent.Time), id, visible.Line(c.Intent.Command(), maxReportCommand), outcome, changed)
		}
		if s.Calls > 0 {
			ran.more = append(ran.more, fmt.Sprintf("session %s: %s", id, visible.Count(s.Calls, "other call")))
		}
		for _, f := range s.Files {
			name := audit.File{Op: f.Op}.Letter() + " " + visible.Name(f.Path)
			if f.Ignored > 0 {
				name = audit.Ignored{Path: f.Path, Files: f.Ignored}.String()
			}
			switch f.State {
			case audit.FileApplied:
				applied.add(at(f.Time), id, name)
			case audit.FileChanged:
				kept.add(at(f.Time), id, name, "in the session")
			case audit.FileDiscarded:
				kept.add(at(f.Time), id, name, "discarded")
			case audit.FileReverted:
				kept.add(at(f.Time), id, name, "a later command made it as it was")
			default:
				kept.add(at(f.Time), id, name, "written by a file tool")
			}
		}
		if s.Unnamed > 0 {
			kept.more = append(kept.more, fmt.Sprintf("session %s: the journal does not name %s", id, visible.Count(s.Unnamed, "more change")))
		}
	}
	decided := reportPart{title: "Who approved what", none: "nobody was asked", head: []string{"time", "decision", "who", "what", "seen"}}
	for _, d := range r.Decisions {
		what := []string{d.CallText()}
		if d.Tool == "" {
			what = nil
		}
		for _, text := range []string{d.TrustText(), visible.Line(d.Command(), maxCommand), strings.Join(shownAll(d.Effects), ", "), visible.Line(d.Note, maxColumns)} {
			if text != "" {
				what = append(what, text)
			}
		}
		decided.add(at(d.Time), sandbox.Shown(d.Decision), d.DeciderText(), strings.Join(what, ": "), d.SeenText())
	}
	hosts := reportPart{title: "Hosts", none: "no connections; golem records those of commands whose network is a list of hosts", head: []string{"host", "reached", "refused", "sent", "received"}}
	for _, h := range r.Hosts {
		hosts.add(visible.Line(h.Host, maxColumns), visible.Number(h.Reached), visible.Number(h.Refused), visible.Amount(h.Sent), visible.Amount(h.Received))
	}
	cost := reportPart{title: "Cost", none: "not known: golem counts it for golem run, and for agents to whose requests it adds a key", head: []string{"session", "turns", "tokens in", "tokens out", "cost"}}
	for _, u := range r.Use {
		price := fmt.Sprintf("$%.2f", u.Cost)
		if u.Unpriced {
			price += " and usage without a known price"
		}
		cost.add(r.Names.beside(u.Session), visible.Number(u.Turns), visible.Number(u.Tokens.Input), visible.Number(u.Tokens.Output), price)
	}
	refused := reportPart{title: "What golem refused", none: "nothing", head: []string{"time", "session", "call", "why"}}
	for _, d := range r.Refused {
		call := d.CallText()
		if command := visible.Line(d.Command(), maxCommand); command != "" {
			call += ": " + command
		}
		why := strings.TrimSuffix(d.KindText()+": "+visible.Line(d.Note, maxColumns), ": ")
		refused.add(at(d.Time), r.Names.beside(d.Session), call, why)
	}
	list := []reportPart{ran, decided, hosts, cost, applied, kept, refused}
	for i := range list {
		list[i].cut()
	}
	return list
}

// title names the program and the time.
func (r *journalReport) title() string {
	from := "the beginning"
	if !r.From.IsZero() {
		from = r.From.Local().Format(time.DateTime)
	}
	program := r.Program
	if r.about != "" {
		program += ", session " + r.about
	}
	return fmt.Sprintf("%s, from %s to %s: %s", program, from, r.To.Local().Format(time.DateTime), visible.Count(r.Records, "record"))
}

// print prints the page for a terminal.
func (r *journalReport) print(w io.Writer) {
	printLine(w, "", r.title())
	for _, p := range r.parts() {
		fmt.Fprintf(w, "\n%s\n", strings.ToUpper(p.title))
		if len(p.rows) == 0 && len(p.more) == 0 {
			fmt.Fprintln(w, "  "+p.none)
		}
		if len(p.rows) > 0 {
			printColumns(w, append([][]string{p.head}, p.rows...))
		}
		for _, line := range p.more {
			printLine(w, "  ", line)
		}
	}
	fmt.Fprint(w, "\nTHE JOURNAL\n")
	for _, line := range r.Verdict {
		printLine(w, "  ", visible.Text(line))
	}
}

// reportStyle is the style of the page for a browser.
const reportStyle = `body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#1a1a1a;background:#fff}` +
	`h1{font-size:1.3em;overflow-wrap:anywhere}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}` +
	`th,td{text-align:left;vertical-align:top;padding:.25em .75em .25em 0;border-bottom:1px solid #ddd;overflow-wrap:anywhere;unicode-bidi:isolate}` +
	`td{font-family:ui-monospace,monospace;font-size:.9em}.bad{color:#a00;font-weight:bold}`

// writeHTML writes the page for a browser. It has no scripts and loads nothing.
func (r *journalReport) writeHTML(w io.Writer) error {
	var b strings.Builder
	text := func(s string) string { return html.EscapeString(visible.Text(s)) }
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n" +
		"<meta name=\"referrer\" content=\"no-referrer\">\n<title>golem: what happened</title>\n<style>" + reportStyle + "</style>\n</head>\n<body>\n")
	fmt.Fprintf(&b, "<h1>%s</h1>\n", text(r.title()))
	class := ""
	if !r.Whole {
		class = ` class="bad"`
	}
	for _, line := range r.Verdict {
		fmt.Fprintf(&b, "<p%s>The journal: %s</p>\n", class, text(line))
	}
	for _, p := range r.parts() {
		fmt.Fprintf(&b, "<h2>%s</h2>\n", text(p.title))
		if len(p.rows) == 0 && len(p.more) == 0 {
			fmt.Fprintf(&b, "<p>%s</p>\n", text(p.none))
		}
		if len(p.rows) > 0 {
			b.WriteString("<table>\n<tr>")
			for _, cell := range p.head {
				b.WriteString("<th>" + text(cell) + "</th>")
			}
			for _, row := range p.rows {
				b.WriteString("</tr>\n<tr>")
				for _, cell := range row {
					b.WriteString("<td>" + text(cell) + "</td>")
				}
			}
			b.WriteString("</tr>\n</table>\n")
		}
		for _, line := range p.more {
			fmt.Fprintf(&b, "<p>%s</p>\n", text(line))
		}
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
