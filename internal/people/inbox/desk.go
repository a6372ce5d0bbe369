package inbox

import "github.com/golem-forge/golem/internal/work/program"

// DeskOptions are the options of a front that serves what waits for the user as pages in a
// browser.
type DeskOptions struct {
	Options program.Options
	Listen  string   // the address to listen on
	Front   string   // where the user answers, for the journal
	Secrets []string // that the journal must not show
	// Ready gets the address that logs a browser in, and a file that leads there. Only the
	// user can read that file.
	Ready  func(address, file string)
	Resume Starter
	Hub    *HubWatcher // nil for none
}
