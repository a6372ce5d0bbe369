package cli

import (
	"errors"
	"os"
	"slices"
)

// A colorFlag is the value of --color.
type colorFlag string

// These are the values of --color. auto is colour at a terminal.
const (
	colorAuto   colorFlag = "auto"
	colorAlways colorFlag = "always"
	colorNever  colorFlag = "never"
)

var colorWords = []string{string(colorAuto), string(colorAlways), string(colorNever)}

// Set implements pflag.Value.
func (f *colorFlag) Set(text string) error {
	if !slices.Contains(colorWords, text) {
		return errors.New("it is auto, always or never")
	}
	*f = colorFlag(text)
	return nil
}

// String implements pflag.Value.
func (f *colorFlag) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *colorFlag) Type() string { return "auto|always|never" }

// paints reports whether golem prints colours to a stream. The flag counts first, then
// NO_COLOR, then CLICOLOR_FORCE, then the user's configuration.
func (f colorFlag) paints(terminal bool) bool {
	forced := os.Getenv("CLICOLOR_FORCE")
	switch {
	case f == colorAlways:
		return true
	case f == colorNever, os.Getenv("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	}
	if chosen := colorFlag(preferences().Color); chosen == colorAlways || chosen == colorNever {
		return chosen == colorAlways
	}
	return terminal && colours && os.Getenv("TERM") != "dumb" && os.Getenv("CLICOLOR") != "0"
}
