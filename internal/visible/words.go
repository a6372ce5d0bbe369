package visible

import (
	"fmt"
	"path/filepath"
	"time"
)

// Age says how long before now a time was; "" for no time.
func Age(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return Count(int(d.Hours()), "hour") + " ago"
	default:
		return Count(int(d.Hours()/24), "day") + " ago"
	}
}

// HomeRelative returns a host path as ~/… if it is in the user's home directory.
func HomeRelative(name, home string) string {
	if below, err := filepath.Rel(home, name); err == nil && home != "" && filepath.IsLocal(below) {
		return filepath.Join("~", below)
	}
	return name
}
