package main

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/opfs"
)

// A server holds the sandboxes of a Worker.
type server struct {
	mu       sync.Mutex
	boxes    map[int]*box
	branches map[int]*branch
	last     int
}

// A box is a sandbox of the page, with its gate.
type box struct {
	id        int
	server    *server
	name      string // of the workspace
	workspace *opfs.Workspace
	journal   *gate.FileJournal
	config    config
	files     *sandbox.Sandbox
	gate      gate.Gate
}

// add gives a box its number.
func (s *server) add(b box) *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	b.id, b.server = s.last, s
	s.boxes[b.id] = &b
	return &b
}

func (s *server) box(id int) *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes[id]
}

// addBranch gives a branch its number.
func (s *server) addBranch(at *branch) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.branches[s.last] = at
	return s.last
}

// branch returns a branch that a box has opened.
func (s *server) branch(b *box, id int) *branch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.branches[id]; at != nil && at.box == b {
		return at
	}
	return nil
}

// open opens a workspace.
func (s *server) open(ctx context.Context, raw json.RawMessage) (any, error) {
	args, err := decode[struct {
		WorkspaceID string  `json:"workspaceId"`
		Config      *config `json:"config"`
		Ask         bool    `json:"ask"` // the page has a function that decides
	}](raw)
	if err != nil {
		return nil, err
	}
	c := config{Zones: map[string]zone{"cache": {Mode: "rw"}, "workspace": {Mode: "rw"}}}
	if args.Config != nil {
		c = *args.Config
	}
	rules, err := c.gateRules()
	if err != nil {
		return nil, err
	}
	w, err := opfs.Open(ctx, args.WorkspaceID, time.Now)
	if err != nil {
		return nil, err
	}
	b := box{name: args.WorkspaceID, workspace: w, config: c}
	if b.files, err = c.files(w); err == nil {
		b.journal, err = openJournal(args.WorkspaceID)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	b.gate = gate.Gate{Tools: gate.FileTools(), Files: b.files, Grant: c.grant(), Rules: rules, Journal: b.journal}
	if args.Ask {
		b.gate.Approver = gate.ApproverFunc(askPage)
	}
	tools, err := b.tools()
	if err != nil {
		w.Close()
		return nil, err
	}
	return opened{s.add(b).id, tools}, nil
}

// opened is a new sandbox, with the tools for a model.
type opened struct {
	ID    int    `json:"id"`
	Tools []tool `json:"tools"`
}

// A method answers a request. It may get and return a content.
type method func(ctx context.Context, b *box, args json.RawMessage, content []byte) (any, []byte, error)

// pathArgs are the arguments of methods for one name.
type pathArgs struct {
	Path string `json:"path"`
}

// check returns an error if the name is missing.
func (a pathArgs) check() error {
	if a.Path == "" {
		return invalid("arguments", "path is missing; the files of the zone workspace are at /workspace")
	}
	return nil
}

// onPath is a method for one name, which returns a value.
func onPath(act func(ctx context.Context, b *box, name string) (any, error)) method {
	return func(ctx context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
		args, err := decode[pathArgs](raw)
		if err == nil {
			err = args.check()
		}
		if err != nil {
			return nil, nil, err
		}
		value, err := act(ctx, b, args.Path)
		return value, nil, err
	}
}

// plainMethod is a method without arguments.
func plainMethod(act func(ctx context.Context, b *box) (any, error)) method {
	return func(ctx context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
		if _, err := decode[struct{}](raw); err != nil {
			return nil, nil, err
		}
		value, err := act(ctx, b)
		return value, nil, err
	}
}

// A stat describes a file for the page.
type stat struct {
	Path     string  `json:"path"`
	Size     int64   `json:"size"`
	IsFile   bool    `json:"isFile"`
	IsDir    bool    `json:"isDirectory"`
	Modified float64 `json:"modified"` // milliseconds since 1970
	Mode     string  `json:"mode"`
	Version  string  `json:"version"`
}

var methods = map[string]method{
	"read": onPath(func(_ context.Context, b *box, name string) (any, error) {
		data, err := b.files.Read(name)
		if err == nil && !utf8.Valid(data) {
			err = &sandbox.Error{Op: "read", Path: name, Code: sandbox.ErrInvalid, Hint: "it is not UTF-8; use readBinary"}
		}
		return string(data), err
	}),
	"readBinary": func(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
		args, err := decode[pathArgs](raw)
		if err != nil {
			return nil, nil, err
		}
		data, err := b.files.Read(args.Path)
		if data == nil {
			data = []byte{}
		}
		return nil, data, err
	},
	"write": func(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
		args, err := decode[struct {
			pathArgs
			Content *string `json:"content"`
		}](raw)
		if err == nil && args.Content == nil {
			err = invalid("write", "content is missing")
		}
		if err == nil {
			_, err = b.files.Write(args.Path, []byte(*args.Content))
		}
		return nil, nil, err
	},
	"writeBinary": func(_ context.Context, b *box, raw json.RawMessage, content []byte) (any, []byte, error) {
		args, err := decode[pathArgs](raw)
		if err == nil && content == nil {
			err = invalid("writeBinary", "content must be a Uint8Array")
		}
		if err == nil {
			_, err = b.files.Write(args.Path, content)
		}
		return nil, nil, err
	},
	"delete": onPath(func(_ context.Context, b *box, name string) (any, error) { return nil, b.files.Delete(name) }),
	"exists": onPath(func(_ context.Context, b *box, name string) (any, error) { return b.files.Exists(name) }),
	"list": onPath(func(_ context.Context, b *box, name string) (any, error) {
		entries, err := b.files.List(name)
		names := make([]string, 0, len(entries))
		for _, e := range entries {
			if names = append(names, e.Name); e.IsDir() {
				names[len(names)-1] += "/"
			}
		}
		return names, err
	}),
	"stat": onPath(func(_ context.Context, b *box, name string) (any, error) {
		i, err := b.files.Stat(name)
		if err != nil {
			return nil, err
		}
		return stat{i.Path(), i.Size(), i.Mode().IsRegular(), i.IsDir(), float64(i.ModTime().UnixMilli()), i.Mode().String(), i.Version().String()}, nil
	}),
	"resolve":     onPath(func(_ context.Context, b *box, name string) (any, error) { return b.files.Canonical(name) }),
	"isValidPath": onPath(func(_ context.Context, b *box, name string) (any, error) { return b.files.CanRead(name), nil }),
	"canWrite":    onPath(func(_ context.Context, b *box, name string) (any, error) { return b.files.CanWrite(name), nil }),
	"getZoneAccess": onPath(func(_ context.Context, b *box, name string) (any, error) {
		return zoneAccess(b.files, name), nil
	}),
	"getAvailableZones": plainMethod(func(_ context.Context, b *box) (any, error) {
		zones := []string{}
		for _, m := range b.files.Mounts() {
			zones = append(zones, path.Base(m.Target))
		}
		return zones, nil
	}),
	"getConfig": plainMethod(func(_ context.Context, b *box) (any, error) { return b.effective(), nil }),
	"restrict":  restrict,
	"call":      callTool,

	"exportJournal": exportJournal,

	"github": openBranch,
	"pull":   pull,
	"stage":  stage,
	"push":   push,
	"verify": plainMethod(func(ctx context.Context, b *box) (any, error) {
		records, err := b.journal.Verify(ctx)
		v := verdict{Records: records, OK: err == nil}
		if err != nil {
			v.Problem = err.Error()
		}
		return v, nil
	}),
	"close": plainMethod(func(_ context.Context, b *box) (any, error) { return nil, b.server.close(b) }),
}

// A verdict says whether the journal is complete.
type verdict struct {
	OK      bool   `json:"ok"`
	Records int    `json:"records"`
	Problem string `json:"problem,omitempty"`
}

// effective returns the configuration with what restrict has taken away.
func (b *box) effective() config {
	c := b.config
	c.Zones = map[string]zone{}
	for name, z := range b.config.Zones {
		if z.Mode = zoneAccess(b.files, name); z.Mode != "" {
			c.Zones[name] = z
		}
	}
	return c
}

// restrict makes a smaller sandbox, as the page chooses: without write access, or with one
// directory only.
func restrict(_ context.Context, b *box, raw json.RawMessage, _ []byte) (any, []byte, error) {
	args, err := decode[struct {
		Restrict *string `json:"restrict"`
		ReadOnly *bool   `json:"readonly"`
	}](raw)
	if err != nil {
		return nil, nil, err
	}
	limit := sandbox.Limit{Path: "/", Access: sandbox.ReadWrite}
	if args.Restrict != nil {
		limit.Path = *args.Restrict
	}
	if args.ReadOnly != nil && *args.ReadOnly {
		limit.Access = sandbox.ReadOnly
	}
	child := *b
	if child.files, err = b.files.Restrict(limit); err != nil {
		return nil, nil, err
	}
	child.gate.Files = child.files
	return b.server.add(child).id, nil, nil
}

// close closes a sandbox. With the last one of its workspace, it gives the workspace back.
func (s *server) close(b *box) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.boxes, b.id)
	maps.DeleteFunc(s.branches, func(_ int, at *branch) bool { return at.box == b })
	for _, other := range s.boxes {
		if other.workspace == b.workspace {
			return nil
		}
	}
	err := b.journal.Close()
	b.workspace.Close()
	return err
}
