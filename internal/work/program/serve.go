package program

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// ServeOptions say how golem serves other agents: over streams or over HTTP.
type ServeOptions struct {
	In      io.ReadCloser
	Out     io.Writer
	Errs    io.Writer // for the user
	HTTP    *HTTPOptions
	Version string
	// Wait is how long a call waits for an answer of the user.
	Wait time.Duration
	// OnOpen is called when the gate is open, or with the error if it cannot be opened.
	OnOpen func(error)
	// Show returns the text of a request for a person, of at most so many bytes, and the
	// items that the text shows.
	Show func(r tool.Request, most int) (text string, items []string)
}

// HTTPOptions say where golem serves agents over HTTP.
type HTTPOptions struct {
	Address   string
	Anywhere  bool     // the address need not be a loopback address
	Hosts     []string // accepted host names besides the address
	Origins   []string // of web pages that may connect
	Token     string   // "" for a new one
	Cert, Key string   // files, for TLS
}

// Tail returns the last n records in the journal of the session and the worker of this
// gate, since the gate was opened, one line each.
func (d *OpenWorker) Tail(n int) ([]byte, error) {
	var b bytes.Buffer
	err := audit.Last(d.records.Folder, audit.Filter{Session: d.records.Session, Worker: d.Workers[0], Since: d.opened}, n, func(_ audit.Record, line []byte) error {
		b.Write(append(bytes.TrimSpace(line), '\n'))
		return nil
	})
	return b.Bytes(), err
}

// Secret returns the key with a name from the program's state, and makes it if it is
// missing.
func (d *OpenWorker) Secret(name string) (key []byte, err error) {
	err = d.records.Folder.Update(name+".key", func(old []byte) ([]byte, error) {
		if len(old) == 0 {
			key = make([]byte, 32)
			rand.Read(key)
			return fmt.Appendf(nil, "%x\n", key), nil
		}
		var err error
		if key, err = hex.DecodeString(strings.TrimSpace(string(old))); err != nil || len(key) != 32 {
			return nil, fmt.Errorf("%s.key in the state directory holds no key; delete it, and golem makes a new one", name)
		}
		return old, nil
	})
	return key, err
}

// ProxyOptions say between whom a proxy stands, and who answers.
type ProxyOptions struct {
	In   io.ReadCloser // the editor
	Out  io.Writer
	Dir  string            // the directory of the host that the agent sees at the same path
	Tell func(text string) // prints a line for the user
	// Approval answers the agent's own requests for permission. Interactive asks the editor.
	Approval approval.Mode
	Wait     time.Duration // how long a question waits for an answer
	// Show is as in ServeOptions.
	Show func(r tool.Request, most int) (text string, items []string)
}

// A Proxy connects an editor with an agent. It asks the user in the editor.
type Proxy interface {
	approval.Asker
	// Run passes messages on to an agent in the jail until its output ends. It calls end if the
	// agent is to end: the editor is gone, or the agent broke the protocol.
	Run(ctx context.Context, agent io.WriteCloser, output io.Reader, end func())
	// Serve is the agent itself: it runs workers until the editor is gone or ctx ends.
	Serve(ctx context.Context, o AgentOptions)
}

// AgentOptions say how an editor reaches the runs of a program.
type AgentOptions struct {
	Version string
	// Open opens a new run if session is "", or continues the run of the session with this id.
	Open func(session string, asker approval.PendingAsker, tell func(run.Event)) (*AgentRun, error)
	// List returns the sessions whose run can continue, the one used last first.
	List func() ([]AgentSession, error)
}

// An AgentRun is a run that an editor leads.
type AgentRun struct {
	*Run
	// HostPath returns the path of a file of the worker on the host, "" if it has none. Name
	// returns the name that the worker has for a path on the host, "" for none.
	HostPath, Name func(string) string
	// Add returns content as a file for the worker, beside the files that it gets already.
	Add func(name string, data []byte, before []model.File) (model.File, error)
	// Close closes the run, and says what waits in its session.
	Close func() error
}

// An AgentSession is a session for the list of an editor.
type AgentSession struct {
	ID, Title string
	Used      time.Time
}
