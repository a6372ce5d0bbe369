package desk

import (
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// readDecision returns what a journal has about a decision.
func readDecision(folder *state.Dir, id string, atHub bool) (v decisionView, err error) {
	v.ID, v.Outcome = id, "Call"
	list, err := audit.Related(folder, id)
	store, wrong := approval.Open(folder)
	texts := make(map[string]bool)
	for _, r := range list {
		if r.Kind != audit.Answer { // an answer names the process that made it
			v.Session = r.Session
		}
		if atHub {
			v.Job = sandbox.Shown(r.Session)
		}
		switch {
		case atHub && r.Code != "":
			v.Outcome = "Not counted"
		case r.Decision == "yes":
			v.Outcome = "Approved"
		case r.Decision == "no":
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
		one.Shown, one.Effects = visible.Each(r.Shown, noteText), visible.Each(r.Effects, noteText)
		v.Records = append(v.Records, one)
	}
	return v, err
}
