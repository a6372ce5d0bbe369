package jail

import "time"

// A Usage is what processes use.
type Usage struct {
	CPU       time.Duration `json:"cpu"`    // processor time so far
	Memory    int64         `json:"memory"` // bytes that only they use
	Processes int           `json:"processes"`
}
