package desk

import (
	"cmp"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// maxRecords is how many records a page shows.
const maxRecords = 300

// A journalView is the journal on a page.
type journalView struct {
	Programs                        []inbox.JournalState
	Program                         string // the key of the chosen program, "" for all
	Session, Worker, Tool, Decision string
	Decisions                       []string
	Records                         []journalRow
	Problems                        []inbox.Problem
	Cut                             bool         // there are more records
	Query                           template.URL // the filters, for an export
}

// A journalRow is a record in a table.
type journalRow struct {
	Key, ID, Program      string
	Number                uint64
	Time                  time.Time
	Session, Worker, Tool string
	What                  string
	Effects               string
	Decision, By, Seen    string
	Failed                bool
	Job                   bool // the session is a job of a hub
	Linked                bool // the session has a page; an answer names the process that made it
}

// journalFilter returns what a page filters by.
func journalFilter(q url.Values) (key string, f audit.Filter) {
	return q.Get("program"), audit.Filter{Session: strings.TrimSpace(q.Get("session")), Worker: strings.TrimSpace(q.Get("worker")), Tool: strings.TrimSpace(q.Get("tool")), Decision: q.Get("decision")}
}

// showJournal shows the records of the journals, the last first, and whether they are whole.
func (s *server) showJournal(w http.ResponseWriter, r *http.Request) error {
	key, f := journalFilter(r.URL.Query())
	v := journalView{Program: key, Session: visible.Text(f.Session), Worker: visible.Text(f.Worker), Tool: visible.Text(f.Tool), Decision: visible.Text(f.Decision),
		Decisions: []string{"preApproved", "yes", "no", "pending", "blocked", "revoked"}, Query: encodeFilter(key, f)}
	list, problems, err := inbox.ReadJournals(s.options, key, f, maxRecords+1)
	if err == nil {
		v.Programs, err = inbox.VerifyJournals(r.Context(), s.options, "")
	}
	if err != nil {
		return err
	}
	if v.Problems = problems; len(list) > maxRecords {
		v.Cut, list = true, list[len(list)-maxRecords:]
	}
	for _, one := range slices.Backward(list) {
		v.Records = append(v.Records, newJournalRow(one))
	}
	return s.render(w, http.StatusOK, "journal", view{Title: "Journal", Data: v})
}

// encodeFilter returns what a page filters by as the query of an address. A string would
// not do: a template escapes the = and & of strings.
func encodeFilter(key string, f audit.Filter) template.URL {
	return template.URL(url.Values{"program": {key}, "session": {f.Session}, "worker": {f.Worker}, "tool": {f.Tool}, "decision": {f.Decision}}.Encode())
}

func newJournalRow(r inbox.JournalRecord) journalRow {
	var workers []string
	for _, name := range r.Workers {
		if name != policy.NoWorker {
			workers = append(workers, sandbox.Shown(name))
		}
	}
	row := journalRow{Key: r.Key, ID: cmp.Or(r.Request, r.Call), Program: visible.Text(r.Program), Number: r.Number, Time: r.Time, Session: sandbox.Shown(r.Session), Worker: strings.Join(workers, " › "), Tool: sandbox.Shown(r.Tool),
		What: r.KindText(), Effects: strings.Join(visible.Each(r.Effects, noteText), ", "), Decision: sandbox.Shown(r.Decision), By: visible.Line(r.DeciderText(), maxNote), Seen: r.SeenText(),
		Failed: r.Decision != "pending" && (r.Code != "" || r.Kind == audit.Refusal), Job: inbox.IsHubKey(r.Key), Linked: r.Kind != audit.Answer}
	if row.Effects == "" {
		row.Effects = visible.Line(r.Command(), maxNote)
	}
	return row
}

// exportJournal sends the records that the filters choose: the same data as golem audit
// show --csv and --json.
func (s *server) exportJournal(w http.ResponseWriter, r *http.Request) error {
	key, f := journalFilter(r.URL.Query())
	list, _, err := inbox.ReadJournals(s.options, key, f, 0)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="journal.`+r.PathValue("format")+`"`)
	switch r.PathValue("format") {
	case "csv":
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		to, err := audit.NewCSVWriter(w)
		for _, one := range list {
			if err == nil {
				err = to.Write(one.Program, one.Record)
			}
		}
		if err == nil {
			to.Flush() // an error means that the browser is gone
		}
	case "json":
		w.Header().Set("Content-Type", "application/json")
		to := json.NewEncoder(w)
		to.SetIndent("", "  ")
		to.Encode(map[string]any{"records": append([]inbox.JournalRecord{}, list...)})
	default:
		w.Header().Del("Content-Disposition")
		return &sandbox.Error{Op: "export", Path: r.PathValue("format"), Code: sandbox.ErrNotFound, Hint: "the formats are csv and json"}
	}
	return nil
}
