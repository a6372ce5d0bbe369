package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A client is an agent with a file that lists MCP servers: in the project directory, or in
// the user's home if it has no other.
type client struct {
	name  string
	title string
	file  string
	under string   // the key of the object with the servers; "" for TOML
	kind  string   // the type of each server; "" if it has none
	where []string // flags for the directory, if the client starts servers elsewhere
	then  string   // what the user does next
	words bool     // the command is a list with its arguments
	home  bool     // the file is in the user's home, for all directories
}

func clients() []client {
	open := []string{"-C", "${workspaceFolder}"} // the variable that editors replace
	return []client{
		{"claude-code", "Claude Code", ".mcp.json", "mcpServers", "", nil, "start claude in this directory, and approve the server once; /mcp shows it", false, false},
		{"codex", "Codex", ".codex/config.toml", "", "", nil, "start codex in this directory, which it must trust; /mcp shows it", false, false},
		{"gemini", "Gemini CLI", ".gemini/settings.json", "mcpServers", "", nil, "start gemini in this directory; /mcp shows it", false, false},
		{"vscode", "VS Code", ".vscode/mcp.json", "servers", "stdio", open, "open this directory in VS Code, and start the server: MCP: List Servers", false, false},
		{"cursor", "Cursor", ".cursor/mcp.json", "mcpServers", "", open, "open this directory in Cursor, and switch the server on in its settings, under MCP", false, false},
		{"opencode", "opencode", "opencode.json", "mcp", "local", nil, "start opencode in this directory; opencode mcp list shows it", true, false},
		{"crush", "Crush", "crush.json", "mcp", "stdio", nil, "start crush in this directory", false, false},
		{"qwen", "Qwen Code", ".qwen/settings.json", "mcpServers", "", nil, "start qwen in this directory; /mcp shows it", false, false},
		{"roo", "Roo Code", ".roo/mcp.json", "mcpServers", "", open, "open this directory in VS Code; Roo Code lists the server in its settings, under MCP", false, false},
		{"zed", "Zed", ".zed/settings.json", "context_servers", "", nil, "open this directory in Zed, and trust it; the settings of the agent list the server", false, false},
		{"windsurf", "Windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", "", nil, "refresh the MCP servers of Cascade; the entry is for this directory, also when you open another one", false, true},
		{"cline", "Cline", ".cline/data/settings/cline_mcp_settings.json", "mcpServers", "", nil, "start cline; for the extension in VS Code, add the entry under MCP Servers > Configure; it is for this directory, also when you open another one", false, true},
	}
}

func newInstall() *cobra.Command {
	names := visible.Each(clients(), func(c client) string { return c.name })
	write := false
	cmd := &cobra.Command{
		Use:   "install " + strings.Join(names, "|") + " [-- FLAG…]",
		Short: "Print or write the settings of a client",
		Long: `Print the settings with which a client starts golem mcp in this directory, and the file
they belong in. With --write golem edits that file and shows the change. It replaces an
entry that it has written before. Arguments after -- are flags for golem mcp.`,
		Example: "  golem mcp install claude-code\n  golem mcp install vscode --write\n  golem mcp install codex --write -- --worker reviewer",
	}
	cmd.Flags().BoolVar(&write, "write", false, "edit the file")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; flags of golem mcp come after --", flagError(cmd, err))
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); len(args) == 0 || dash != -1 && dash != 1 || dash == -1 && len(args) > 1 {
			return usagef("install for which client? it is one of %s; flags of golem mcp come after --", strings.Join(names, ", "))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all := clients()
		i := slices.IndexFunc(all, func(c client) bool { return c.name == args[0] })
		if i < 0 {
			return usagef("no client %s; %s", sandbox.Shown(args[0]), didYouMean(args[0], "", names))
		}
		if err := serverFlags(args[1:]); err != nil {
			return err
		}
		return all[i].install(cmd, args[1:], write)
	}
	return cmd
}

// serverFlags checks the flags of golem mcp. Otherwise only the client would see the
// error, and clients show little output of a server that does not start.
func serverFlags(flags []string) error {
	mcp, _, err := newRoot(Fronts{}).Find([]string{"mcp"})
	if err != nil {
		return err
	}
	if err := mcp.ParseFlags(flags); err != nil {
		return flagError(mcp, err)
	}
	if rest := mcp.Flags().Args(); len(rest) > 0 {
		return usagef("%s is no flag of golem mcp", sandbox.Shown(rest[0]))
	}
	return nil
}

func (c client) install(cmd *cobra.Command, flags []string, write bool) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	top := dir
	if c.home {
		if top, err = os.UserHomeDir(); err != nil {
			return usagef("%s keeps its servers in your home directory, and HOME is not set; set it", c.title)
		}
		c.where = []string{"-C", dir} // the client starts servers elsewhere, and has one file for all directories
	}
	path := followed(filepath.Join(top, filepath.FromSlash(c.file)))
	old, err := readSettings(path)
	if err != nil {
		return err
	}
	entry := c.entry(self(), slices.Concat([]string{"mcp"}, c.where, flags))
	next, err := entry.into(string(old))
	out := cmd.OutOrStdout()
	switch {
	case err != nil && !write && !wantsJSON(cmd): // without --write, only print the entry
		fmt.Fprintf(out, "%s: golem cannot edit %s: %v; add this yourself:\n%s", c.title, path, err, entry.whole())
		return nil
	case err != nil:
		return usagef("%s: %v; fix that, or add this yourself:\n%s", sandbox.Shown(path), err, strings.TrimSpace(entry.whole()))
	}
	diff := patch.Unified(path, path, string(old), next)
	switch {
	case wantsJSON(cmd):
		if err := printJSON(out, map[string]any{"client": c.name, "file": path, "content": next, "written": write && diff != ""}); err != nil {
			return err
		}
	case diff == "":
		fmt.Fprintf(out, "%s has it already: %s\n", c.title, path)
	case !write:
		again := []string{"golem", "mcp", "install", c.name, "--write"}
		if len(flags) > 0 {
			again = slices.Concat(again, []string{"--"}, flags)
		}
		fmt.Fprintf(out, "%s: add this to %s, or run %s:\n%s", c.title, path, visible.CommandLine(again...), entry.whole())
	default:
		fmt.Fprint(out, diff)
	}
	if !write || diff == "" {
		return nil
	}
	if err := replaceFile(path, []byte(next)); err != nil {
		return err
	}
	if !wantsJSON(cmd) {
		fmt.Fprintf(out, "written: %s\nnext: %s\n", path, c.then)
	}
	return nil
}

// followed resolves the symlinks of a path, so golem shows the file that it writes.
func followed(path string) string {
	if end, err := filepath.EvalSymlinks(path); err == nil {
		return end
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// maxSettings is the maximum size in bytes of a client's file.
const maxSettings = 4 << 20

// readSettings reads a client's file. The file comes with the directory, so it is
// untrusted.
func readSettings(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, usagef("%s is no file; move it away", sandbox.Shown(path))
	case info.Size() > maxSettings:
		return nil, usagef("%s has more than %d bytes, which no client's settings have; move it away", sandbox.Shown(path), maxSettings)
	}
	return os.ReadFile(path)
}

// self returns the command that starts this golem. It is just golem if PATH finds this
// executable.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "golem"
	}
	mine, err := os.Stat(path)
	if err != nil {
		return path
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if found, err := os.Stat(filepath.Join(dir, "golem")); err == nil {
			if os.SameFile(mine, found) {
				return "golem"
			}
			break
		}
	}
	return path
}

// An entry is the entry of golem in a client's file.
type entry struct {
	under string
	lines []string // lines of its JSON value
	toml  string
}

func (c client) entry(command string, args []string) entry {
	words := visible.Each(args, quoted)
	list := "[" + strings.Join(words, ", ") + "]"
	if c.under == "" {
		return entry{toml: "[mcp_servers.golem]\ncommand = " + quoted(command) + "\nargs = " + list + "\n"}
	}
	lines := []string{`"command": ` + quoted(command), `"args": ` + list}
	if c.words {
		lines = []string{`"command": [` + strings.Join(append([]string{quoted(command)}, words...), ", ") + "]"}
	}
	if c.kind != "" {
		lines = slices.Insert(lines, 0, `"type": `+quoted(c.kind))
	}
	return entry{under: c.under, lines: lines}
}

// quoted returns a string as it is written in JSON and TOML.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a text always has a JSON form
	return string(b)
}

// whole returns the entry as a complete file.
func (e entry) whole() string {
	if e.toml != "" {
		return e.toml
	}
	return "{\n  " + quoted(e.under) + ": {\n" + e.member() + "\n  }\n}\n"
}

// value returns the JSON value of the entry.
func (e entry) value() string {
	return "{\n      " + strings.Join(e.lines, ",\n      ") + "\n    }"
}

// member returns the entry as a member of the object of servers.
func (e entry) member() string { return `    "golem": ` + e.value() }

// into returns the content of a file with the entry added. Everything else stays as it
// is.
func (e entry) into(old string) (string, error) {
	switch {
	case e.toml != "":
		return e.intoTOML(old)
	case strings.TrimSpace(old) == "":
		return e.whole(), nil
	}
	var was map[string]json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal([]byte(old), &was); errors.As(err, &syntax) {
		return "", fmt.Errorf("line %d of it is not plain JSON: a comment, or a mistake", 1+strings.Count(old[:min(int(syntax.Offset), len(old))], "\n"))
	} else if err != nil || was == nil {
		return "", errors.New("it is no JSON object")
	}
	var servers map[string]json.RawMessage
	if text, ok := was[e.under]; ok && (json.Unmarshal(text, &servers) != nil || servers == nil) {
		return "", fmt.Errorf("%s in it is no object", e.under)
	}
	if e.in(old) {
		return old, nil
	}
	if was, ok := servers["golem"]; ok {
		return e.again(old, was)
	}
	at, empty, nested := e.place(old)
	text, indent := e.member(), "  "
	if !nested {
		text = "  " + quoted(e.under) + ": {\n" + text + "\n  }"
		indent = ""
	}
	rest := old[at:]
	switch {
	case empty:
		text, rest = text+"\n"+indent, strings.TrimLeft(rest, " \t\r\n")
	case strings.HasPrefix(strings.TrimLeft(rest, " \t\r"), "\n"):
		text += ","
	default: // the whole object is in one line
		text, rest = text+",\n"+indent+"  ", strings.TrimLeft(rest, " ")
	}
	next := old[:at] + "\n" + text + rest
	if !e.in(next) { // a key may occur twice
		return "", errNotEdited
	}
	return next, nil
}

// again returns JSON text with the entry in place of an older entry of golem. It refuses
// an older entry with fields that golem does not write.
func (e entry) again(old string, was json.RawMessage) (string, error) {
	if !isOwnEntry(was) {
		return "", errors.New("its entry golem is another server, or has fields that golem does not write; remove that entry first")
	}
	at, _, nested := e.place(old)
	d := json.NewDecoder(strings.NewReader("{" + old[at:]))
	d.Token() // the brace
	for nested && d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		if key != "golem" {
			continue
		}
		end := at + int(d.InputOffset()) - 1
		if next := old[:end-len(value)] + e.value() + old[end:]; e.in(next) {
			return next, nil
		}
		break
	}
	return "", errNotEdited
}

// isOwnEntry reports whether a JSON value is an entry of golem, with no fields that golem
// does not write.
func isOwnEntry(value json.RawMessage) bool {
	var own struct {
		Type    string          `json:"type"`
		Command json.RawMessage `json:"command"`
		Args    []string        `json:"args"`
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(&own) != nil {
		return false
	}
	var words []string
	if json.Unmarshal(own.Command, &words) == nil && len(words) > 0 && own.Args == nil {
		return startsGolem(words[0], words[1:])
	}
	var command string
	return json.Unmarshal(own.Command, &command) == nil && startsGolem(command, own.Args)
}

var errNotEdited = errors.New("it is written in a way that golem does not edit")

// startsGolem reports whether a command is golem mcp, no matter where golem is installed.
func startsGolem(command string, args []string) bool {
	name := strings.TrimSuffix(command[strings.LastIndexAny(command, `/\`)+1:], ".exe")
	return (name == "golem" || command == self()) && len(args) > 0 && args[0] == "mcp"
}

// in reports whether JSON text contains exactly this entry.
func (e entry) in(text string) bool {
	var all map[string]json.RawMessage
	var servers map[string]any
	var should any
	return json.Unmarshal([]byte(text), &all) == nil && json.Unmarshal(all[e.under], &servers) == nil &&
		json.Unmarshal([]byte(e.value()), &should) == nil && reflect.DeepEqual(servers["golem"], should)
}

// place returns where to insert the entry in JSON text: after the brace of the object of
// servers. If there is no such object, it is after the first brace of the file. empty
// reports whether that object is empty.
func (e entry) place(old string) (at int, empty, nested bool) {
	d := json.NewDecoder(strings.NewReader(old))
	d.Token() // the brace
	at = int(d.InputOffset())
	empty = !d.More()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			break
		}
		if key == e.under {
			d.Token()
			return int(d.InputOffset()), !d.More(), true
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			break
		}
	}
	return at, empty, false
}

func (e entry) intoTOML(old string) (string, error) {
	if inText(old) {
		return "", errors.New("a text in it has no end")
	}
	before, after, same := strings.Cut("\n"+old, "\n"+e.toml)
	same = same && !inText(before) && ended(after)
	own := false
	if !same {
		before, after, own = ownTOML(old)
	}
	if !same && !own {
		before = old
	}
	for line := range strings.Lines(before) {
		if touches(line) {
			return "", errors.New("it says something about mcp_servers already that golem does not edit")
		}
	}
	switch {
	case same:
		return old, nil
	case own:
		return before + e.toml + after, nil
	case old != "":
		old = strings.TrimRight(old, "\n") + "\n\n"
	}
	return old + e.toml, nil
}

// touches reports whether a line of TOML may be about the server golem. Such a line names
// its table, a table or value in it, or the table of all servers. A name with escapes may
// be any of these.
func touches(line string) bool {
	name := strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "", "\ufeff", "").Replace(strings.TrimSpace(line))
	table := strings.TrimLeft(name, "[")
	if table != name {
		name, _, _ = strings.Cut(table, "]")
	} else if before, _, is := strings.Cut(name, "="); is {
		name = before
	} else {
		return false
	}
	return strings.Contains(name, `\`) || name == "mcp_servers" || strings.HasPrefix(name+".", "mcp_servers.golem.")
}

// ownTOML returns the text before and after an older entry of golem. ok is false if that
// entry has lines that golem does not write.
func ownTOML(old string) (before, after string, ok bool) {
	before, rest, ok := strings.Cut("\n"+old, "\n[mcp_servers.golem]\n")
	if !ok || inText(before) {
		return "", "", false
	}
	first, rest, _ := strings.Cut(rest, "\n")
	second, after, _ := strings.Cut(rest, "\n")
	var command string
	var args []string
	first, isCommand := strings.CutPrefix(first, "command = ")
	second, areArgs := strings.CutPrefix(second, "args = ")
	ok = isCommand && areArgs && json.Unmarshal([]byte(first), &command) == nil && json.Unmarshal([]byte(second), &args) == nil &&
		startsGolem(command, args) && ended(after)
	return strings.TrimPrefix(before+"\n", "\n"), after, ok
}

// inText reports whether a multi-line string begins in TOML text and does not end.
func inText(toml string) bool {
	return strings.Count(toml, `"""`)%2 == 1 || strings.Count(toml, "'''")%2 == 1
}

// ended reports whether rest adds nothing to the table of golem, directly or in later
// tables. golem does not own such additions, for example a variable that answers for the
// user.
func ended(rest string) bool {
	in := true
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		switch {
		case touches(line):
			return false
		case strings.HasPrefix(line, "["):
			in = false
		case in && line != "" && !strings.HasPrefix(line, "#"):
			return false
		}
	}
	return true
}

// replaceFile replaces a file of the user. The file has either its old or its new
// content.
func replaceFile(path string, content []byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, content, mode)
}
