package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// A Set holds the tools and their destinations. A zero Set can only list its tools.
type Set struct {
	// Locate returns the absolute path of the host directory that the user names.
	Locate func(to string) (sandbox.Host, error)
	// Own are the directories that nothing is exported into: mounts, and golem's own.
	Own []sandbox.Host

	Endpoints []Endpoint
	// Client sends requests. It follows no redirect and does not wait forever.
	Client *http.Client

	// Copy copies a text to the user's clipboard, and returns how.
	Copy func(ctx context.Context, text string) (how string, err error)

	// Scanners returns the scanners. It is nil if there are none.
	Scanners func() (*scan.Set, error)
}

// Tools returns the tools.
func (s Set) Tools() []tool.Tool { return []tool.Tool{s.export(), s.send(), s.copy()} }

// newTool returns a tool with what the tools have in common.
func newTool(name, description string) tool.Tool {
	return tool.Tool{Name: name, Toolset: "clearance", Mode: policy.Manual, AlwaysAsk: true, Category: "Clearance", Description: description}
}

// maxText limits how much of a content is examined and shown.
const maxText = 1 << 20

// A held is a file as it was shown.
type heldFile struct {
	name       string // canonical name
	size       int64
	sum        string // SHA-256
	text       []byte // all of it, nil if it is longer than maxText
	executable bool
	warnings   []string // what to look at first
	riskiest   review.Flag
	holds      []string // why scanners hold it back
}

// readAndExamine reads and examines a file.
func (s Set) readAndExamine(ctx context.Context, op string, files *sandbox.Sandbox, name string) (heldFile, error) {
	h, err := read(ctx, op, files, name)
	if err == nil {
		err = s.examine(ctx, op, files, &h)
	}
	return h, err
}

// read reads a file.
func read(ctx context.Context, op string, files *sandbox.Sandbox, name string) (heldFile, error) {
	h := heldFile{name: name}
	f, err := files.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		return h, withOp(op, name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, withOp(op, name, err)
	}
	if info.IsDir() {
		return h, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrIsDir, Hint: "name a file"}
	}
	h.executable = info.Mode()&0o111 != 0
	var start bytes.Buffer
	sum := sha256.New()
	h.size, err = io.Copy(sum, io.TeeReader(contextual{ctx, f}, &most{&start, maxText + 1}))
	if err != nil {
		return h, withOp(op, name, err)
	}
	h.sum = hex.EncodeToString(sum.Sum(nil))
	if h.size <= maxText {
		h.text = append([]byte{}, start.Bytes()...) // not nil for an empty file
	}
	return h, nil
}

// checkUnchanged returns a conflict unless a file is as it was shown.
func (h heldFile) checkUnchanged(ctx context.Context, op string, files *sandbox.Sandbox) error {
	now, err := read(ctx, op, files, h.name)
	if err != nil || now.sum != h.sum {
		return changedError(op, h.name)
	}
	return nil
}

func changedError(op, name string) error {
	return &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrConflict, Hint: "it has changed since golem showed it; nothing was exported; make the call again to see it as it is now"}
}

// withOp returns an error under the name of an operation. It hides errors that are not of the
// sandbox, because they may name paths of the host.
func withOp(op, name string, err error) error {
	if code := sandbox.CodeOf(err); code != sandbox.ErrInternal {
		return &sandbox.Error{Op: op, Path: name, Code: code, Hint: hint(err)}
	}
	return &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInternal, Hint: "it could not be read; look at it with golem tool file_info"}
}

// A contextual reader stops with an error when its context ends.
type contextual struct {
	ctx context.Context
	r   io.Reader
}

func (c contextual) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// A most keeps the first bytes, and drops the others.
type most struct {
	b    *bytes.Buffer
	left int
}

func (m *most) Write(p []byte) (int, error) {
	n := min(len(p), m.left)
	m.b.Write(p[:n])
	m.left -= n
	return len(p), nil
}

// reviewChange returns a file as a change for review.
func (h heldFile) reviewChange() review.FileChange {
	c := review.FileChange{Path: h.name, Operation: "create", OldMode: "000000", Mode: "100644", New: h.text, Size: h.size, Sum: h.sum,
		Cut: h.text == nil, Binary: !filecontent.IsText(h.text)}
	if h.executable {
		c.Mode = "100755"
	}
	return c
}

// isText reports whether all of a file can be shown as text.
func (h heldFile) isText() bool {
	return h.text != nil && filecontent.IsText(h.text) && utf8.Valid(h.text)
}

// toolChange returns a file as it is shown for the approval.
func (h heldFile) toolChange(op tool.Op, to string) tool.Change {
	c := tool.Change{Path: h.name, Op: op, To: to, Becomes: h.sum, About: visible.Amount(h.size)}
	switch {
	case h.text == nil:
		c.Omitted = "too large to show"
	case !filecontent.IsText(h.text):
		c.Omitted = "binary"
	default:
		c.Diff = filecontent.Diff("", h.name, "", filecontent.Decode(h.text, false))
	}
	return c
}

// EndpointsOf returns the services that results are sent to, with the values of
// environment variables in their headers.
func EndpointsOf(p *project.Project, variables []string) (list []Endpoint) {
	for _, e := range p.Endpoints {
		to := Endpoint{Name: e.Name, ForModels: e.ForModels, URL: e.URL, Method: e.Method, Type: e.Type}
		if place, denied := p.Ceiling.DeniedURL(e.URL); denied {
			to.Denied = place.String()
		}
		for _, h := range e.Headers {
			header := Header{Name: h.Name, Shown: h.Text, Value: h.Text}
			if h.Variable != "" {
				value, ok := project.LookupEnv(variables, h.Variable)
				if !ok || value == "" {
					header.Missing = h.Variable
				}
				header.Shown, header.Value = h.Text+"(from "+h.Variable+")", h.Text+value
			}
			to.Headers = append(to.Headers, header)
		}
		list = append(list, to)
	}
	return list
}
