package program

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
)

// defaultStateLimit is how much golem stores if the user's configuration does not say.
const defaultStateLimit = 50 << 30

// A StateUse says how much golem stores, for all directories together.
type StateUse struct {
	Bytes int64     `json:"bytes"`
	Limit int64     `json:"-"`
	From  string    `json:"-"` // where the limit is written, "" for the default
	At    time.Time `json:"at"`
}

// usageName is a file beside the state of all programs, with the last StateUse.
const usageName = "usage.json"

// usageLasts is how long golem uses the last measurement: it takes long if there is much.
const usageLasts = 10 * time.Minute

// MeasureState measures how much golem stores.
func MeasureState(p *Program) StateUse {
	u := StateUse{Limit: defaultStateLimit, At: p.options.Now()}
	if own := p.Project.Ceiling.Preferences(); own.StateLimit > 0 {
		u.Limit, u.From = own.StateLimit, own.StateFrom.String()
	}
	base := p.options.stateBase()
	if u.Bytes = state.Usage(base); u.Bytes > 0 {
		if data, err := json.Marshal(u); err == nil {
			durable.WriteFile(filepath.Join(base, usageName), data, 0o600) // without it, the next golem measures again
		}
	}
	return u
}

// CheckStateLimit returns an error if golem stores too much to start another session.
func CheckStateLimit(p *Program) error {
	limit := int64(defaultStateLimit)
	if own := p.Project.Ceiling.Preferences(); own.StateLimit > 0 {
		limit = own.StateLimit
	}
	var last StateUse
	data, err := os.ReadFile(filepath.Join(p.options.stateBase(), usageName))
	age := p.options.Now().Sub(last.At)
	if err == nil && json.Unmarshal(data, &last) == nil {
		age = p.options.Now().Sub(last.At)
	}
	if err == nil && age >= 0 && age < usageLasts && last.Bytes <= limit {
		return nil
	}
	u := MeasureState(p)
	if u.Bytes <= u.Limit {
		return nil
	}
	from := "the default"
	if u.From != "" {
		from = visible.Text(u.From)
	}
	return fmt.Errorf("golem's state takes %s, and at most %s are allowed (state.max_bytes, %s); golem sessions lists what this directory keeps, and golem sessions rm ID removes a session; golem config edit --user changes the limit",
		tool.FormatSize(u.Bytes), tool.FormatSize(u.Limit), from)
}
