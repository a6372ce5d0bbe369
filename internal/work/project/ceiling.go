package project

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Layer is a file above the project: the administrator's policy, or the user's
// configuration. It says what no project, flag or variable may exceed. A user's
// configuration also has defaults.
type Layer struct {
	File string // as golem names it in messages

	schema strictyaml.Key
	tree   strictyaml.Node
	home   string // for ~ in roots; "" if a layer may not use it
}

// A Ceiling is the layers above the project, the highest first. For permissions the
// strictest layer counts. Without layers everything is allowed.
type Ceiling []Layer

// PolicySchema returns all keys of the administrator's policy.
func PolicySchema() strictyaml.Key {
	return strictyaml.Key{Type: strictyaml.Group, Empty: true, Keys: []strictyaml.Key{
		ceilingNetworkKey(),
		{Name: "require_os_sandbox", Type: strictyaml.Bool, Words: []string{"landlock", "namespaces", "container"}, Default: "false", Example: "namespaces",
			Doc: "The weakest level of the jail that commands may run in, as in a project file. On a machine with only weaker ones, golem runs no command."},
		{Name: "approval", Type: strictyaml.Group, Example: "{mode: interactive, unseen: false}", Doc: "How calls may be approved.", Keys: []strictyaml.Key{
			{Name: "mode", Type: strictyaml.Word, Words: approvalModes, Default: "approve_all", Example: "interactive",
				Doc: "The widest mode: `auto_deny` declines everything that needs approval, `interactive` also lets a person decide, `approve_all` allows every mode."},
			{Name: "unseen", Type: strictyaml.Bool, Default: "true", Example: "false",
				Doc: "`false` means that nobody approves what was not shown to a person: `approve_all`, `--yes`, `--approve-reads`, `--trust HASH` and `golem approve` without a terminal."},
		}},
		{Name: "roots", Type: strictyaml.Texts, Example: "[/home, /srv/projects]",
			Doc: "The only directories that may be mounted or be repositories of `clearance.targets`, with everything below them."},
		{Name: "tools", Type: strictyaml.Group, Example: "{deny: [shell, api_send]}", Doc: "The tools that may be used, by the name of a tool or of a toolset.", Keys: []strictyaml.Key{
			{Name: "allow", Type: strictyaml.Texts, Example: "[filesystem, changes]", Doc: "Only these."},
			{Name: "deny", Type: strictyaml.Texts, Example: "[shell, api_send]", Doc: "Not these, even if `allow` has them. `git_push` or `git` also forbids `golem pr`."},
		}},
		{Name: "models", Type: strictyaml.Texts, Example: "[\"ollama:*\", \"scripted:*\"]",
			Doc: "The only models that runs may use; `*` stands for any part of a name without a slash. They run at the vendor's own server, on this machine, or at hosts of `network`."},
		budgetKey("What one run, or the agents of one session of `golem exec`, may use. A lower limit of the program holds. Missing keys mean no limit."),
		{Name: "jail", Type: strictyaml.Group, Example: "{runsc: /opt/gvisor/runsc}", Doc: "How golem confines commands.", Keys: []strictyaml.Key{
			{Name: "runsc", Type: strictyaml.Text, Example: "/opt/gvisor/runsc",
				Doc: "The file of gVisor's `runsc`, for the level `container`. Without it golem looks in `/usr/local/bin`, `/usr/bin` and their `sbin`. The administrator's counts before yours."},
			{Name: "gpu", Type: strictyaml.Bool, Default: "true", Example: "false", Doc: "`false` means that no command uses the GPU, whatever a project or `--gpu` asks for."},
		}},
	}}
}

// ConfigSchema returns all keys of the user's configuration.
func ConfigSchema() strictyaml.Key {
	schema := PolicySchema()
	schema.Keys = append([]strictyaml.Key{
		{Name: "model", Type: strictyaml.Text, Example: "anthropic:claude-sonnet-4-5", Doc: "The model for programs that name none."},
		{Name: "fallback_models", Type: strictyaml.Texts, Example: "[ollama:qwen3]", Doc: "The models that golem asks if that model does not answer, for programs that name none."},
		{Name: "effort", Type: strictyaml.Word, Words: policy.Efforts(), Example: "high", Doc: "How much models think before they answer, for programs that do not say it."},
		{Name: "show_thinking", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "Whether you see the thoughts of models, for programs that do not say it."},
		commitKey(),
	}, schema.Keys...)
	schema.Keys = append(schema.Keys,
		credentialsKey(true),
		strictyaml.Key{Name: "state", Type: strictyaml.Group, Example: "{max_bytes: 20GB}", Doc: "What golem stores.", Keys: []strictyaml.Key{
			{Name: "max_bytes", Type: strictyaml.Count, Default: "50GiB", Example: "20GB",
				Doc: "How much golem may store for all directories. Above it, `golem exec`, `run` and `mcp` start no session."},
		}},
		strictyaml.Key{Name: "theme", Type: strictyaml.Group, Example: "{color: never}", Doc: "How golem prints.", Keys: []strictyaml.Key{
			{Name: "color", Type: strictyaml.Word, Words: []string{"auto", "always", "never"}, Default: "auto", Example: "never",
				Doc: "Colours: at a terminal, always or never. `--color`, `NO_COLOR` and `CLICOLOR_FORCE` count first."},
		}},
		strictyaml.Key{Name: "session", Type: strictyaml.Word, Words: []string{"new", "continue"}, Default: "new", Example: "continue",
			Doc: "The session of `golem exec` and `golem run` without a flag: a new one, or the newest one here that has changes, as with `-c`."},
		notifyKey(),
		deskKey(),
		strictyaml.Key{Name: "hub", Type: strictyaml.Text, Example: "~/.config/golem/hub.creds",
			Doc: "The file with your credentials for a hub. `golem status`, `diff`, `apply`, `review` and `desk` then bring its finished jobs here, and `golem approve` shows its calls, as with `--hub`."})
	i := slices.IndexFunc(schema.Keys, func(k strictyaml.Key) bool { return k.Name == "approval" })
	schema.Keys[i].Keys[0].Default = "interactive"
	schema.Keys[i].Keys[0].Doc = "The mode for programs that name none, and the widest mode: `auto_deny` declines everything that needs approval, `interactive` asks you, `approve_all` approves everything that is not blocked."
	return schema
}

// approvalModes are the modes, the strictest first.
var approvalModes = []string{"auto_deny", "interactive", "approve_all"}

// ParsePolicy reads the administrator's policy. tools are the names that the lists of
// tools may have. The error is a strictyaml.Problems.
func ParsePolicy(file string, data []byte, tools []string) (Layer, error) {
	l := Layer{File: file, schema: PolicySchema()}
	if isBlank(data) {
		return l, newProblem(file, "is empty", "a policy that limits nothing is {}; write its keys, or remove the file")
	}
	return parseLayer(l, data, tools)
}

// isBlank reports whether a YAML text has only comments, empty lines, document markers and
// null.
func isBlank(data []byte) bool {
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		line, _, _ = strings.Cut(line, "#")
		for word := range strings.FieldsSeq(line) {
			if !slices.Contains([]string{"---", "...", "~", "null"}, strings.ToLower(word)) {
				return false
			}
		}
	}
	return true
}

// ParseConfig reads the user's configuration, in which ~ is home.
func ParseConfig(file string, data []byte, home string, tools []string) (Layer, error) {
	return parseLayer(Layer{File: file, schema: ConfigSchema(), home: home}, data, tools)
}

func parseLayer(l Layer, data []byte, tools []string) (Layer, error) {
	tree, problems := strictyaml.Parse(l.File, data)
	if tree.Kind != strictyaml.Map && len(problems) == 0 {
		problems.Add(tree, tree.Kind.String(), "the file is a map of "+strings.Join(keyNames(l.schema.Keys), ", "))
	}
	if len(problems) == 0 {
		tree, _ = l.schema.Respell(tree)
		l.schema.Check(tree, &problems)
		tree.Bounded(&problems)
	}
	l.tree = tree
	if len(problems) > 0 {
		return l, problems.Err()
	}
	for _, root := range l.items("roots") {
		if _, what, hint := l.root(root); what != "" {
			problems.Add(root, "roots: "+sandbox.Shown(root.Text)+" "+what, hint)
		}
	}
	for _, key := range []string{"allow", "deny"} {
		for _, item := range l.items("tools", key) {
			if !slices.Contains(tools, policy.CurrentToolName(item.Text)) {
				problems.Add(item, "tools."+key+": no tool or toolset "+quote(item.Text), suggest(item.Text, tools))
			}
		}
	}
	l.checkNetwork(&problems)
	if n, ok := l.at("state", "max_bytes"); ok {
		if most, err := n.Bytes(); err == nil && most < minStateLimit {
			problems.Add(n, "state.max_bytes: "+sandbox.Shown(n.Text)+" is too little", "at least 1MiB")
		}
	}
	if all, ok := l.at("credentials"); ok {
		readCredentials(all, true, &problems)
	}
	if n, ok := l.at("jail", "runsc"); ok && !filepath.IsAbs(n.Text) {
		problems.Add(n, "jail.runsc: "+sandbox.Shown(n.Text)+" is not an absolute path", "write the whole path, such as /opt/gvisor/runsc")
	}
	if n, ok := l.at("budget"); ok {
		budgetKey("").CheckAll(n, &problems)
	}
	if n, ok := l.at("commit"); ok {
		commitKey().CheckAll(n, &problems)
	}
	if n, ok := l.at("notify"); ok {
		checkNotify(n, &problems)
	}
	if n, ok := l.at("desk"); ok {
		checkDesk(n, &problems)
	}
	for _, item := range l.items("models") {
		if _, err := path.Match(item.Text, ""); err != nil || item.Text == "" {
			problems.Add(item, "models: "+quote(item.Text)+" is no pattern", "write a model, or ollama:* for all of a vendor")
		}
	}
	return l, problems.Err()
}

// items returns the items of a list, nil if it is not written.
func (l Layer) items(keys ...string) []strictyaml.Node {
	n, _ := l.tree.At(keys...)
	return n.Items
}

// root returns the directory that an entry of roots names.
func (l Layer) root(n strictyaml.Node) (dir, what, hint string) {
	rest, tilde := strings.CutPrefix(n.Text, "~")
	switch {
	case tilde && l.home == "":
		return "", "is not expanded here", "write the whole path"
	case tilde && (rest == "" || rest[0] == '/'):
		return filepath.Clean(l.home + rest), "", ""
	case !filepath.IsAbs(n.Text):
		return "", "is not an absolute path", "write the whole path, such as /srv/projects"
	}
	return filepath.Clean(n.Text), "", ""
}

// at returns a value of the layer with its place, and whether it is written.
func (l Layer) at(keys ...string) (strictyaml.Node, bool) { return l.tree.At(keys...) }

// Values returns the keys that are written in the layer, with their values.
func (l Layer) Values() []Value {
	var list []Value
	collect(l.schema, "", l.tree, true, &list)
	return slices.DeleteFunc(list, func(v Value) bool { return v.From == strictyaml.Default })
}

// minStateLimit is the smallest limit for golem's state.
const minStateLimit = 1 << 20

// Preferences are the wishes of the user that permit nothing and forbid nothing.
type Preferences struct {
	StateLimit int64 // the most that golem stores, 0 for the default
	StateFrom  strictyaml.Place
	Color      string // auto, always or never; "" for the default
	Notify     Notify
	Desk       Desk
	Hub        string // the file with the credentials for a hub; "" for none
	Session    string // new or continue; "" for the default
}

// Preferences returns the preferences in the user's configuration.
func (c Ceiling) Preferences() (p Preferences) {
	p.Desk.Listen = "127.0.0.1:8138"
	for _, l := range c {
		l.tree.Decode(map[string]any{"desk.url": &p.Desk.URL, "desk.listen": &p.Desk.Listen, "desk.certificate": &p.Desk.Certificate, "desk.key": &p.Desk.Key, "state.max_bytes": &p.StateLimit, "theme.color": &p.Color, "hub": &p.Hub, "session": &p.Session}, nil)
		if n, ok := l.at("state", "max_bytes"); ok {
			p.StateFrom = n.Place
		}
		if n, ok := l.at("notify"); ok {
			p.Notify = readNotify(n)
		}
	}
	if place, denied := c.DeniedURL(p.Notify.Webhook); denied && p.Notify.Webhook != "" {
		p.Notify.Webhook, p.Notify.Denied = "", place.String()
	}
	return p
}

// Limits returns the keys of the layer that limit programs.
func (l Layer) Limits() (keys []string) {
	for _, k := range PolicySchema().Keys {
		if k.Name == "jail" { // it also names a program
			if _, off := (Ceiling{l}).gpuOff(); off {
				keys = append(keys, "jail.gpu false")
			}
			continue
		}
		if n, ok := l.at(k.Name); ok && n.Kind == strictyaml.Scalar {
			keys = append(keys, k.Name+" "+n.Text)
		} else if ok && k.Name == "network" {
			for _, f := range n.Fields {
				keys = append(keys, "network."+f.Key.Text+" "+formatNode(f.Value))
			}
		} else if ok {
			keys = append(keys, k.Name)
		}
	}
	return keys
}

// Runsc returns the file of runsc that the highest layer names, "" if none does.
func (c Ceiling) Runsc() sandbox.Host {
	for _, l := range c {
		if n, ok := l.at("jail", "runsc"); ok {
			return sandbox.Host(n.Text)
		}
	}
	return ""
}

// gpuOff returns the place that keeps the GPU from commands, and whether there is one.
func (c Ceiling) gpuOff() (strictyaml.Place, bool) {
	for _, l := range c {
		if n, ok := l.at("jail", "gpu"); ok && !n.Bool() {
			return n.Place, true
		}
	}
	return strictyaml.Place{}, false
}

// UnseenOff returns the place that forbids approvals of what was not shown, and whether
// there is one.
func (c Ceiling) UnseenOff() (strictyaml.Place, bool) {
	for _, l := range c {
		if n, ok := l.at("approval", "unseen"); ok && !n.Bool() {
			return n.Place, true
		}
	}
	return strictyaml.Place{}, false
}

// widestMode returns the widest approval mode that is allowed, and the place that says so.
func (c Ceiling) widestMode() (mode string, from strictyaml.Place) {
	mode = approvalModes[len(approvalModes)-1]
	if place, off := c.UnseenOff(); off {
		mode, from = "interactive", place
	}
	for _, l := range c {
		if n, ok := l.at("approval", "mode"); ok && isStricter(n.Text, mode) {
			mode, from = n.Text, n.Place
		}
	}
	return mode, from
}

// isStricter reports whether a mode allows less than another. An unknown mode allows
// nothing.
func isStricter(mode, than string) bool {
	return slices.Index(approvalModes, mode) < slices.Index(approvalModes, than)
}

// DeniedTool returns the place that forbids a tool, and whether there is one. The tool
// has any of the names, and does what the tools with the names of does do.
func (c Ceiling) DeniedTool(names []string, does ...string) (strictyaml.Place, bool) {
	isOneOf := func(names []string) func(strictyaml.Node) bool {
		return func(n strictyaml.Node) bool {
			return slices.Contains(names, n.Text) || slices.Contains(names, policy.CurrentToolName(n.Text))
		}
	}
	has := isOneOf(names)
	for _, l := range c {
		if i := slices.IndexFunc(l.items("tools", "deny"), isOneOf(slices.Concat(names, does))); i >= 0 {
			return l.items("tools", "deny")[i].Place, true
		}
		if n, ok := l.at("tools", "allow"); ok && !slices.ContainsFunc(n.Items, has) {
			return n.Place, true
		}
	}
	return strictyaml.Place{}, false
}

// DeniedModel returns the place that forbids a model, and whether there is one.
func (c Ceiling) DeniedModel(name string) (strictyaml.Place, bool) {
	for _, l := range c {
		n, ok := l.at("models")
		if ok && !slices.ContainsFunc(n.Texts(), func(pattern string) bool {
			fits, err := path.Match(pattern, name)
			return err == nil && fits
		}) {
			return n.Place, true
		}
	}
	return strictyaml.Place{}, false
}

// DeniedRoot returns the place that forbids to mount a directory, and whether there is
// one. The path has no symlinks.
func (c Ceiling) DeniedRoot(real string) (strictyaml.Place, bool) {
	for _, l := range c {
		n, ok := l.at("roots")
		if ok && !slices.ContainsFunc(n.Items, func(item strictyaml.Node) bool {
			dir, what, _ := l.root(item)
			_, inside := relative(real, resolveLinks(dir))
			return what == "" && inside
		}) {
			return n.Place, true
		}
	}
	return strictyaml.Place{}, false
}

// CheckRoot returns an error if the ceiling forbids to mount a directory. The path has no
// symlinks.
func (c Ceiling) CheckRoot(op, real string) error {
	if place, denied := c.DeniedRoot(real); denied {
		return &sandbox.Error{Op: op, Path: real, Code: "blocked", Hint: rootHint(place)}
	}
	return nil
}

func rootHint(place strictyaml.Place) string {
	return place.String() + " lists the directories that may be mounted; choose one below them"
}

// setDefaults adds the defaults of the user's configuration to the tree.
func (c Ceiling) setDefaults(tree strictyaml.Node) strictyaml.Node {
	for _, l := range c {
		if len(l.schema.Keys) == len(PolicySchema().Keys) {
			continue // a policy has no defaults
		}
		for _, keys := range [][]string{{"model"}, {"fallback_models"}, {"effort"}, {"show_thinking"}, {"commit", "trailer"}, {"approval", "mode"}} {
			value, ok := l.at(keys...)
			if _, written := tree.At(keys...); ok && !written {
				tree = tree.Set(keys, value)
			}
		}
	}
	return tree
}

// asked are values as the program and the flags ask for them, before the ceiling limits
// them.
type asked struct {
	network    policy.Hosts
	fetch      policy.Hosts
	approval   string
	approvalBy strictyaml.Place
	gpu        bool
	tree       strictyaml.Node
}

// applyCeiling limits the values of the project. A flag or a variable that asks for more
// is a problem. A file that asks for more gets less.
func applyCeiling(l *loader) {
	p, c := l.project, l.env.Ceiling
	p.Ceiling, p.asked = c, asked{p.Network, p.Fetch, p.Approval, p.ApprovalBy, p.GPU, l.tree}
	addAgentCredentials(p, l.env.Agent)
	l.limitNetwork()
	if level, place := c.leastLevel(); level > policy.AnyLevel {
		if own, _ := policy.ParseLevel(p.Level); level > own {
			p.Level = level.String()
			l.setEffective(place, p.Level, "sandbox", "require_os_sandbox")
		}
	}
	if place, off := c.gpuOff(); off && p.GPU {
		if by, _ := l.tree.At("jail", "gpu"); by.Place.Line == 0 {
			l.problems.Note(strictyaml.Problem{Place: by.Place, What: "the GPU is not allowed: " + place.String(), Hint: "leave out --gpu"})
		}
		p.GPU = false
		l.setEffective(place, "false", "jail", "gpu")
	}
	l.limitBudget()
	if mode, place := c.widestMode(); isStricter(mode, p.Approval) {
		if p.ApprovalBy.Line == 0 && p.ApprovalBy.Source != "" {
			l.problems.Note(strictyaml.Problem{Place: p.ApprovalBy, What: p.Approval + " is not allowed: " + place.String(), Hint: "the widest mode is " + mode + "; leave out --approval and --yes"})
		}
		p.Approval, p.ApprovalBy = mode, place
		l.setEffective(place, mode, "approval", "mode")
	}
}

// Asked returns the project as its files ask for it, without the ceiling and without the
// user's own model. It is only for showing: a ceiling of today must not hide what the
// files would get tomorrow.
func (p *Project) Asked() *Project {
	q := *p
	q.Ceiling, q.Network, q.Fetch, q.Approval, q.ApprovalBy, q.GPU, q.tree = nil, p.asked.network, p.asked.fetch, p.asked.approval, p.asked.approvalBy, p.asked.gpu, p.asked.tree
	if p.ByAgent {
		q.Network, q.AskHosts = policy.Hosts{}, false
	}
	for _, l := range p.Ceiling {
		if p.PlaceOf("model").Source == l.File {
			q.Model = ""
		}
		if p.PlaceOf("fallback_models").Source == l.File {
			q.Fallbacks = nil
		}
	}
	return &q
}

// Credentials returns the credentials in the user's configuration.
func (c Ceiling) Credentials() []Credential {
	var list []Credential
	for _, l := range c {
		if all, ok := l.at("credentials"); ok {
			var problems strictyaml.Problems
			list = append(list, readCredentials(all, true, &problems)...)
		}
	}
	return list
}

// readBudget reads the limits of a budget in a tree.
func readBudget(n strictyaml.Node, limits *policy.Limits, isWrong func(strictyaml.Node) bool) {
	n.Decode(map[string]any{"budget.turns": &limits.Turns, "budget.workers": &limits.Workers, "budget.tokens": &limits.Tokens, "budget.cost": &limits.Cost, "budget.time": &limits.Budget}, isWrong)
}

// limitBudget lowers the budget of the project to those of the ceiling.
func (l *loader) limitBudget() {
	for _, layer := range l.env.Ceiling {
		for _, name := range []string{"turns", "workers", "tokens", "cost", "time"} {
			allowed, ok := layer.at("budget", name)
			if !ok {
				continue
			}
			var most policy.Limits
			readBudget(strictyaml.Node{}.Set([]string{"budget", name}, allowed), &most, nil)
			lowered := l.project.Limits.Meet(most)
			if lowered == l.project.Limits {
				continue
			}
			if asked, ok := l.tree.At("budget", name); ok && asked.Place.Line == 0 && asked.Place.Source != "" {
				l.problems.Note(strictyaml.Problem{Place: asked.Place, What: "budget." + name + " is at most " + allowed.Text + ": " + allowed.Place.String(), Hint: "ask for less, or leave it out"})
			}
			l.project.Limits = lowered
			l.setEffective(allowed.Place, allowed.Text, "budget", name)
		}
	}
}

// FixedBudget returns the limits of the administrator's policy, which no user raises.
func (c Ceiling) FixedBudget() (limits policy.Limits) {
	for _, l := range c {
		if isPolicy := !slices.ContainsFunc(l.schema.Keys, func(k strictyaml.Key) bool { return k.Name == "credentials" }); isPolicy {
			var own policy.Limits
			readBudget(l.tree, &own, nil)
			limits = limits.Meet(own)
		}
	}
	return limits
}
