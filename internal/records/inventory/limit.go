package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
)

// defaultLimit is how much golem stores if the user's configuration does not say.
const defaultLimit = 50 << 30

// Use says how much golem stores, for all directories together.
type Use struct {
	Bytes int64     `json:"bytes"`
	Limit int64     `json:"-"`
	From  string    `json:"-"` // where the limit is written, "" for the default
	At    time.Time `json:"at"`
}

// usageName is a file beside the state of all programs, with the last Use.
const usageName = "usage.json"

// usageLasts is how long golem uses the last measurement: it takes long if there is much.
const usageLasts = 10 * time.Minute

// A Limit is how much golem may store.
type Limit struct {
	Base  string // the directory with the state of all programs
	Bytes int64  // 0 for the default
	From  string // where the limit is written
}

// Measure measures how much golem stores.
func (l Limit) Measure(now time.Time) Use {
	u := Use{Limit: defaultLimit, At: now}
	if l.Bytes > 0 {
		u.Limit, u.From = l.Bytes, l.From
	}
	base := l.Base
	if u.Bytes = state.Usage(base); u.Bytes > 0 {
		if data, err := json.Marshal(u); err == nil {
			durable.WriteFile(filepath.Join(base, usageName), data, 0o600) // without it, the next golem measures again
		}
	}
	return u
}

// Check returns an error if golem stores too much to start another session. It uses the last
// measurement if that is recent.
func (l Limit) Check(now time.Time) error {
	limit := cmp.Or(l.Bytes, defaultLimit)
	var last Use
	data, err := os.ReadFile(filepath.Join(l.Base, usageName))
	age := now.Sub(last.At)
	if err == nil && json.Unmarshal(data, &last) == nil {
		age = now.Sub(last.At)
	}
	if err == nil && age >= 0 && age < usageLasts && last.Bytes <= limit {
		return nil
	}
	u := l.Measure(now)
	if u.Bytes <= u.Limit {
		return nil
	}
	from := "the default"
	if u.From != "" {
		from = visible.Text(u.From)
	}
	return fmt.Errorf("golem's state takes %s, and at most %s are allowed (state.max_bytes, %s); golem sessions lists what this directory keeps, and golem sessions rm ID removes a session; golem config edit --user changes the limit",
		visible.Amount(u.Bytes), visible.Amount(u.Limit), from)
}
