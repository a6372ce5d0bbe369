//go:build !linux

package steps

import (
	"errors"

	"github.com/golem-forge/golem/internal/files/layers"
)

// A Moment is what a session held at a step.
type Moment struct{}

var errNoOverlays = errors.New("sessions need Linux")

// MomentOf returns an error.
func MomentOf(string, *layers.Step) (Moment, error) { return Moment{}, errNoOverlays }

// Differences returns an error.
func Differences(Moment, Moment) ([]Difference, error) { return nil, errNoOverlays }
