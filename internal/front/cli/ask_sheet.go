package cli

import (
	"io"
	"math"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// These constants limit how much of a request is shown at once.
const (
	maxRows    = 40  // rows of the body, if the screen has room
	maxColumns = 200 // characters in one line
)

// showRequest prints all of a request.
func showRequest(w io.Writer, r tool.Request) {
	newScreen(w).show(approval.NewSheet(r, math.MaxInt).All())
}
