package worker

import (
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Foreign is a program that provides tools of a worker. It gets only what it declares.
type Foreign struct {
	Name    string
	Command []strictyaml.Node // its words; a word that [IsFile] accepts is in the program's directory
	With    []strictyaml.Node // more files and directories there that it sees
	Reach   *Reach            // nil for no files
	Network *strictyaml.Place // nil for none
	Level   policy.Level      // the weakest that it accepts, besides that of the worker
	Env     []strictyaml.Node // the user's environment variables that it gets, by name
	State   []strictyaml.Node // NAME=path: variables with paths in a directory of its own, which stays after it ends
	Timeout time.Duration
	// Approval is the approval level of its calls as written, nil if missing.
	Approval *policy.Rule
	Place    strictyaml.Place // of the name
}

// A Reach is the part of the worker's files that a foreign program sees.
type Reach struct {
	Folder   string // with everything below it
	ReadOnly bool
	Place    strictyaml.Place
}

// A Custom is one of the program's own tools: an executable.
type Custom struct {
	Foreign
	Schema strictyaml.Node // the file of its schema
}

// A Server is an MCP server that provides tools of the worker.
type Server struct {
	Foreign
	Tools []strictyaml.Node // the only tools that the worker gets; none for all
	// Remote is nil for a server that golem starts as a program.
	Remote *Remote
}

// A Hook is a program that looks at calls of the worker and of the workers that it calls.
type Hook struct {
	Foreign
	On    string   // one of HookTimes
	Tools []string // patterns of the tools; none for all
}

// The times at which hooks run.
const (
	BeforeCall = "before_call"
	AfterCall  = "after_call"
	RunEnd     = "run_end"
)

// HookTimes returns the times at which hooks run.
func HookTimes() []string { return []string{BeforeCall, AfterCall, RunEnd} }

// Matches reports whether the hook looks at calls of a tool with a name.
func (h Hook) Matches(tool string) bool {
	return len(h.Tools) == 0 || slices.ContainsFunc(h.Tools, func(pattern string) bool {
		matches, _ := path.Match(pattern, tool)
		return matches
	})
}

// Tool returns the name of the tool in grants.
func (c Custom) Tool() string { return "custom." + c.Name }

// Tool returns the name of all tools of the server in grants.
func (s Server) Tool() string { return "mcp." + s.Name }

// Words returns the texts of nodes.
func Words(nodes []strictyaml.Node) []string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.Text)
	}
	return list
}

// IsFile reports whether a word of a command is a file in the program's directory.
func IsFile(word string) bool { return strings.HasPrefix(word, "./") }

// FileOf returns the name of such a file in the program's directory.
func FileOf(word string) string { return path.Clean(word) }

// maxServer is the longest name of a server. The names of its tools start with it.
const maxServer = 32

// A foreignReader reads the tools that are foreign programs.
type foreignReader struct {
	custom   []Custom
	servers  []Server
	hooks    []Hook
	problems *strictyaml.Problems
}

func (r *foreignReader) read(top strictyaml.Node) {
	custom, _ := top.At("toolsets", "custom")
	for _, f := range custom.Fields {
		if f.Value.Kind == strictyaml.Scalar || f.Value.Kind == strictyaml.List {
			continue
		}
		c := Custom{Foreign: r.readProgram("custom", f)}
		if schema, ok := f.Value.At("schema"); ok && schema.Kind == strictyaml.Scalar {
			c.Schema = schema
		} else if !ok {
			r.problems.Add(f.Key, c.what("custom")+": no schema", "write schema: and the JSON file that describes its arguments, such as ./tools/"+sandbox.Shown(c.Name)+".json")
		}
		r.custom = append(r.custom, c)
	}
	servers, _ := top.At("toolsets", "mcp")
	for _, f := range servers.Fields {
		if f.Value.Kind == strictyaml.Scalar || f.Value.Kind == strictyaml.List {
			continue
		}
		s := r.readServer(f)
		if len(s.Name) > maxServer {
			r.problems.Add(f.Key, s.what("mcp")+": a long name", "at most 32 letters are allowed: its tools are named "+sandbox.Shown(s.Name[:8])+"…_TOOL")
		}
		if s.Reach != nil && !s.Reach.ReadOnly {
			r.problems.Add(strictyaml.Node{Place: s.Reach.Place}, s.what("mcp")+".files: readonly: false",
				"a server runs between calls, so golem could not tell which call made a change; a server only reads, and a custom tool can write")
		}
		f.Value.Decode(map[string]any{"tools": &s.Tools}, nil)
		r.servers = append(r.servers, s)
	}
	hooks, _ := top.At("hooks")
	for _, f := range hooks.Fields {
		if f.Value.Kind == strictyaml.Map {
			r.readHook(f)
		}
	}
}

// readHook reads one hook.
func (r *foreignReader) readHook(f strictyaml.Field) {
	h := Hook{Foreign: r.readProgram("hooks", f)}
	what := h.what("hooks")
	var tools []strictyaml.Node
	f.Value.Decode(map[string]any{"on": &h.On, "tools": &tools}, nil)
	if !f.Value.Has("on") {
		r.problems.Add(f.Key, what+": no on", "write on: before_call, after_call or run_end")
	}
	if h.Reach != nil && !h.Reach.ReadOnly {
		r.problems.Add(strictyaml.Node{Place: h.Reach.Place}, what+".files: readonly: false", "a hook only reads; a custom tool can write")
	}
	for _, n := range tools {
		switch _, err := path.Match(n.Text, ""); {
		case h.On == RunEnd:
			r.problems.Add(n, what+".tools beside on: run_end", "leave it out: the end of a run is no call")
		case err != nil || n.Text == "" || strings.ContainsFunc(n.Text, unicode.IsSpace):
			r.problems.Add(n, what+".tools: "+shown(n.Text), "it is the name of a tool, such as shell, or a pattern, such as git_*; golem tools lists them")
		}
		h.Tools = append(h.Tools, n.Text)
	}
	r.hooks = append(r.hooks, h)
}

// what returns the place of the program in the worker file.
func (f Foreign) what(set string) string {
	if set != "hooks" {
		set = "toolsets." + set
	}
	return set + "." + sandbox.Shown(f.Name)
}

// readProgram reads the keys that custom tools and MCP servers share.
func (r *foreignReader) readProgram(set string, at strictyaml.Field) Foreign {
	f := Foreign{Name: at.Key.Text, Place: at.Key.Place}
	at.Value.Decode(map[string]any{"command": &f.Command, "with": &f.With, "env": &f.Env, "state": &f.State, "timeout": &f.Timeout}, nil)
	if !isWorkerName(f.Name) {
		r.problems.Add(at.Key, strings.TrimSuffix(f.what(set), "."+sandbox.Shown(f.Name))+": "+shown(f.Name), "its name is letters, digits, _ and -, 64 at most")
	}
	if !at.Value.Has("command") && !at.Value.Has("url") {
		r.problems.Add(at.Key, f.what(set)+": no command", "write command: [./tools/x.py], a file of the program, or command: [python3, ./tools/x.py]")
	}
	for i, word := range f.Command {
		switch {
		case IsFile(word.Text):
			if what, hint := checkInProgram(word); what != "" {
				r.problems.Add(word, f.what(set)+".command: "+what, hint)
			}
		case strings.ContainsRune(word.Text, 0):
			r.problems.Add(word, f.what(set)+".command: a NUL character", "leave it out")
		case i == 0 && !isProgram(word.Text):
			r.problems.Add(word, f.what(set)+".command: "+shown(word.Text),
				"it begins with a file of the program's directory, as ./tools/x.py, or with a program of the system by its plain name, as python3")
		}
	}
	f.Reach = r.readReach(at.Value, f.what(set))
	if n, ok := at.Value.At("network"); ok && n.Bool() {
		f.Network = &n.Place
	}
	f.Level, _ = policy.ParseLevel(textOf(at.Value, "level"))
	if n, ok := at.Value.At("approval"); ok {
		if level, ok := policy.ParseApproval(n.Text); ok {
			f.Approval = &policy.Rule{Verb: policy.Run, Approval: level, From: n.Place.String()}
		}
	}
	return f
}

// isVariable reports whether a text is a valid name of an environment variable.
func isVariable(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 255
}

// isProgram reports whether a word is the plain name of a program.
func isProgram(word string) bool {
	for i, c := range word {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
		case i > 0 && strings.ContainsRune("-.+", c):
		default:
			return false
		}
	}
	return word != "" && len(word) <= 255
}

// checkInProgram says what is wrong with a text that is not the name of a file in the
// program's directory.
func checkInProgram(n strictyaml.Node) (what, hint string) {
	name := FileOf(n.Text)
	odd := strings.ContainsFunc(n.Text, func(c rune) bool { return !unicode.IsPrint(c) || c == '\\' })
	if odd || n.Text == "" || name == "." || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return shown(n.Text), "it is in the program's directory, which is the one with main.worker, as ./tools/x"
	}
	return "", ""
}

// readReach reads which files a foreign program sees.
func (r *foreignReader) readReach(n strictyaml.Node, what string) *Reach {
	files, ok := n.At("files")
	if !ok || files.Kind != strictyaml.Map {
		return nil
	}
	reach := &Reach{Folder: "/", ReadOnly: true, Place: files.Place}
	if folder, ok := files.At("restrict"); ok && folder.Kind == strictyaml.Scalar {
		reach.Place = folder.Place
		if reach.Folder = path.Clean(folder.Text); !path.IsAbs(folder.Text) || strings.Contains(folder.Text, "\\") || !isPlain(folder.Text) {
			r.problems.Add(folder, what+".files.restrict: "+shown(folder.Text), "it is a directory by its absolute name, such as /in")
			reach.Folder = "/"
		}
	}
	if readonly, ok := files.At("readonly"); ok && readonly.Kind == strictyaml.Scalar {
		if reach.ReadOnly = readonly.Bool(); !reach.ReadOnly {
			reach.Place = readonly.Place
		}
	}
	return reach
}

func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) && !strings.Contains(name+"/", "/../")
}

// foreignTools returns the names of the foreign tools, and reports those that the parent
// lacks. A parent with the same toolset does not necessarily have this program.
func (b *request) foreignTools() (names []string) {
	add := func(name string, at strictyaml.Place) {
		names = append(names, name)
		b.reportBeyond(at, policy.Grant{Tools: policy.SetOf(name)}, "name it in the file of "+b.whose+" too, or leave it out")
	}
	for _, c := range b.w.Custom {
		add(c.Tool(), c.Place)
	}
	for _, s := range b.w.Servers {
		add(s.Tool(), s.Place)
	}
	return names
}

// checkReach reports foreign tools that declare more than the worker itself has.
func (b *request) checkReach(own policy.Grant) {
	b.whose = "the worker"
	check := func(f Foreign, name string) {
		if at := f.Network; at != nil && own.Hosts.IsEmpty() {
			b.reportExcess(*at, name+".network", "it", "none", "write sandbox: with network: true or a list of hosts, or leave it out here")
		}
		if f.Reach == nil {
			return
		}
		most := own.Files.Access(f.Reach.Folder)
		for _, root := range own.Files.Roots() {
			if policy.AtOrBelow(f.Reach.Folder, root.Path) {
				most = max(most, root.Access)
			}
		}
		asks := sandbox.ReadOnly
		if !f.Reach.ReadOnly {
			asks = sandbox.ReadWrite
		}
		if most < asks {
			b.reportExcess(f.Reach.Place, name+".files "+sandbox.Shown(f.Reach.Folder), asks.String(), formatRoots(own.Files.Roots()), "give the worker these files by sandbox:, or ask for less")
		}
	}
	for _, c := range b.w.Custom {
		check(c.Foreign, c.Tool())
	}
	for _, s := range b.w.Servers {
		check(s.Foreign, s.Tool())
	}
	for _, h := range b.w.Hooks {
		check(h.Foreign, h.what("hooks"))
	}
}
