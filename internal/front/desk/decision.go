package desk

import (
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// readDecision returns what the journal has about a decision.
func readDecision(p *program.Program, id string) (v decisionView, err error) {
	v.ID, v.Outcome = id, "Call"
	folder, err := p.OpenJournal()
	if err != nil || folder == nil {
		return v, err
	}
	defer folder.Close()
	list, err := audit.Related(folder, id)
	store, wrong := approval.Open(folder)
	texts := make(map[string]bool)
	for _, r := range list {
		if r.Kind != audit.Answer { // an answer names the process that made it
			v.Session = r.Session
		}
		switch r.Decision {
		case "yes":
			v.Outcome = "Approved"
		case "no":
			v.Outcome = "Declined"
		}
		one := recordView{Number: r.Number, Time: r.Time.Local().Format(time.DateTime), What: r.KindText(), Front: r.DeciderText(), Seen: r.SeenText(), Call: r.CallText(),
			Note: visible.Line(r.Note, maxNote), Digest: sandbox.Shown(r.Digest), Request: sandbox.Shown(r.Request)}
		if r.Text != "" && !texts[r.Text] && wrong == nil {
			texts[r.Text] = true
			if shown, err := store.FindShown(r.Text); err == nil {
				one.Rows, one.Missing = shown.Rows()
			}
		}
		for _, text := range r.Shown {
			one.Shown = append(one.Shown, visible.Line(text, maxNote))
		}
		for _, text := range r.Effects {
			one.Effects = append(one.Effects, visible.Line(text, maxNote))
		}
		v.Records = append(v.Records, one)
	}
	return v, err
}
