package inbox

import (
	"os"
	"time"

	"github.com/golem-forge/golem/internal/tool"
)

// ExploreOptions are the options of a front that shows the changes of a session, full
// screen at a terminal.
type ExploreOptions struct {
	Terminal *os.File
	Environ  []string
	Colours  bool
	// Session is the session to show, and Names are those of the changes to show; all if
	// there are none.
	Session *Session
	Names   []string
	// Path returns the path by which the user can name a file of a session. Local and
	// Result return a request and a result of the user with such paths.
	Path    func(s Session, name string) string
	Local   func(s Session, r tool.Request) tool.Request
	Result  func(s Session, r tool.Result) tool.Result
	Secrets []string      // values that must not get into the journal
	Front   string        // where the user answers, for the journal
	Settle  time.Duration // how long a question is on screen before an answer is accepted
}
