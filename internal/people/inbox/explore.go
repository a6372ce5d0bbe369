package inbox

import (
	"context"
	"os"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
)

// ExploreOptions are the options of a front that shows what waits for the user, full screen
// at a terminal: the changes of a session, or a list of items.
type ExploreOptions struct {
	Terminal *os.File
	Environ  []string
	Colours  bool
	// Session is the session to show, and Names are those of the changes to show; all if
	// there are none.
	Session *ProgramSession
	Names   []string
	// Items reads the list to show, if there is no session. Options open the programs of
	// the items.
	Items    func(ctx context.Context) ([]Item, []Problem, error)
	Options  program.Options
	OpenOnly bool // open the item of the list, if there is only one
	// Hub watches a hub, to list what waits there too. It is nil for none.
	Hub *HubWatcher
	// Gate has the options for the calls of the user.
	Gate program.WorkerOptions
	// Path returns the path by which the user can name a file of a program. Local and
	// Result return a request and a result of the user with such paths.
	Path   func(p *program.Program, name string) string
	Local  func(p *program.Program, r tool.Request) tool.Request
	Result func(p *program.Program, r tool.Result) tool.Result
	Resume Starter
	Front  string                 // where the user answers, for the journal
	Settle time.Duration          // how long a question is on screen before an answer is accepted
	Age    func(time.Time) string // describes how long ago a time was
}

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
	// Devices serves pages for paired devices too, unless its URL is "".
	Devices project.Desk
	Demo    bool // serves the demo of the npm package instead
}
