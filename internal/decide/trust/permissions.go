package trust

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/net/publicsuffix"
)

// A Request is the content of a program, parsed, that the user is asked to trust.
type Request struct {
	Root    string
	Project *project.Project
	Workers []*worker.Worker
	Entry   *worker.Worker // nil if there is none
	Tools   ToolFiles

	Profiles profile.Repository
	User     profile.User // for whom the profiles are
}

// A Permission is something that trusted content permits beyond the default policy, which is
// to read the program's directory. From is the line that says so.
type Permission struct {
	What string `json:"what"`
	From string `json:"from"`
	Risk Risk   `json:"-"`
}

// A Risk says how much a permission allows. A question shows the riskiest first.
type Risk uint8

// The risks.
const (
	Usual  Risk = iota // nothing leaves the jail, and the user is asked
	Risky              // one directory, host or program, or calls that golem does not ask about
	Severe             // every host, files outside the program, secrets, or no questions at all
)

// permit adds a permission to a list.
type permit func(risk Risk, from, what string)

// Permissions returns all that trusting the program permits: files outside its directory or
// to be written, the network, calls without approval, programs that would run. They are
// ordered by file and line.
func (r Request) Permissions() []Permission {
	var list []Permission
	add := func(risk Risk, from, what string) { list = append(list, Permission{what, from, risk}) }
	for _, m := range r.Project.Mounts {
		if m.From == strictyaml.Default && !r.usesFiles() {
			continue
		}
		r.addMount(add, m.Target, m.Mode, string(m.Source), string(m.Base), m.From)
	}
	if r.Project.Network.IsAll() {
		add(Severe, r.Project.NetworkPlace().String(), "commands use the whole network")
	}
	for _, rule := range r.Project.Network.Rules() {
		add(Risky, r.Project.NetworkPlace().String(), "commands reach the host "+describeHost(rule))
	}
	if r.Project.AskHosts && !r.Project.Network.IsEmpty() && !r.Project.Network.IsAll() {
		add(Usual, r.Project.PlaceOf("network.ask").String(), "commands ask you about other hosts")
	}
	for _, rule := range r.Project.Fetch.Rules() {
		add(Risky, r.Project.PlaceOf("network.fetch").String(), "web_fetch reads from the host "+describeHost(rule))
	}
	if r.Project.AllowPrivate {
		add(Severe, r.Project.PlaceOf("network.allow_private").String(), "these names may lead to private addresses")
	}
	if r.Project.Approval == "approve_all" {
		add(Severe, r.Project.PlaceOf("approval.mode").String(), "golem runs every call without asking you, unless a rule blocks it")
	}
	if r.Project.Model != "" {
		add(Usual, r.Project.PlaceOf("model").String(), "the model "+visible.Quote(r.Project.Model)+" receives what workers read")
	}
	if r.Project.SummaryModel != "" {
		add(Usual, r.Project.PlaceOf("summary_model").String(), "the model "+visible.Quote(r.Project.SummaryModel)+" receives what workers read, in long conversations")
	}
	for _, name := range r.Project.Fallbacks {
		add(Usual, r.Project.PlaceOf("fallback_models").String(), "the model "+visible.Quote(name)+" receives what workers read, if another does not answer")
	}
	if s := r.Project.ModelServer; s.URL != "" {
		risk, what := Risky, "the server "+visible.Quote(s.URL)+" receives what workers read"
		if s.Key != "" {
			risk = Severe
			what += ", and your key " + visible.Quote(s.Key)
		}
		add(risk, r.Project.PlaceOf("model_server.url").String(), what)
	}
	for _, t := range r.Project.Targets {
		risk, what := Usual, "results can be pushed to "+visible.Quote(t.Name)+": "+visible.Quote(describeTarget(string(t.Path), t.URL, t.Repo))+", only by you"
		if isForeignServer(t.URL, t.Repo) {
			risk = Severe
			what += foreignServer
		}
		if t.Hooks {
			risk = Severe
			what += "; a push runs the hooks of that repository as you, outside the jail"
		}
		add(risk, t.From.String(), what)
	}
	for _, t := range r.Project.Targets {
		r.addBranches(add, "workers read", t.Dir(), t.URL, t.Repo, t.From.String())
	}
	r.addScanners(add)
	r.addJail(add)
	for _, e := range r.Project.Endpoints {
		risk, what := Usual, "results can be sent to "+visible.Quote(e.Name)+": "+visible.Quote(e.URL)
		if e.ForModels {
			risk = Risky
			what += ", by you, and by workers if you approve the call"
		} else {
			what += ", only by you"
		}
		for _, h := range e.Headers {
			if h.Variable != "" {
				what += ", with your " + visible.Quote(h.Variable)
			}
		}
		add(risk, e.From.String(), what)
	}
	if scanners := r.Project.Scanners; len(scanners) < len(allScanners) {
		add(Risky, r.Project.PlaceOf("clearance.scanners").String(), "scanners look at results only for: "+strings.Join(scanners, ", "))
	}
	addRules(add, "workers ", r.Project.Rules)
	for _, w := range r.Workers {
		r.addWorker(add, w)
	}
	list = append(list, r.ForeignPrograms()...)
	r.addProfiles(add)
	slices.SortStableFunc(list, func(a, b Permission) int { return comparePlaces(a.From, b.From) })
	return append(r.sentSecrets(), list...)
}

// addProfiles adds what commands get that the user starts with a profile of the repository.
func (r Request) addProfiles(add permit) {
	for _, name := range r.Profiles.Names() {
		file := profile.RepositoryFile(name)
		who := "commands that you start with --profile " + visible.CommandLine(name)
		p, err := r.Profiles.Profile(r.User, name)
		if err != nil {
			var problems strictyaml.Problems
			if errors.As(err, &problems) && len(problems) > 1 {
				err = fmt.Errorf("%w (and %s)", problems[0], visible.Count(len(problems)-1, "more problem"))
			}
			add(Usual, file, "golem does not use this profile: "+visible.Line(err.Error(), maxProfileError))
			continue
		}
		add(Usual, file, who+" are: "+visible.Quote(p.About))
		if p.Net {
			add(Risky, file, who+" need the network; golem still leaves it off unless you or the profile name hosts")
		}
		for _, host := range slices.Concat(p.Hosts, p.Reads) {
			rule, err := policy.ParseHost(host)
			if err != nil {
				continue // the profile is checked
			}
			add(Risky, file, who+" reach the host "+describeHost(rule))
		}
		for _, set := range slices.Concat(p.Set, p.Quiet) {
			add(Usual, file, who+" get the variable "+visible.Quote(set))
		}
	}
}

// ProfileProblems returns why golem does not use profiles of the repository.
func (r Request) ProfileProblems() (problems strictyaml.Problems) {
	for _, name := range r.Profiles.Names() {
		_, err := r.Profiles.Profile(r.User, name)
		var found strictyaml.Problems
		if errors.As(err, &found) {
			problems = append(problems, found...)
		} else if wrong, ok := errors.AsType[*sandbox.Error](err); ok {
			problems = append(problems, strictyaml.Problem{Place: strictyaml.Place{Source: wrong.Path}, What: "golem does not use this profile", Hint: wrong.Hint})
		}
	}
	return problems
}

// maxProfileError is how many characters of an error about a profile are shown.
const maxProfileError = 500

// usesFiles reports whether a worker, or a program that it runs, can see files.
func (r Request) usesFiles() bool {
	return slices.ContainsFunc(r.Workers, func(w *worker.Worker) bool {
		reaches := func(f worker.Foreign) bool { return f.Reach != nil }
		return w.Sandbox.Kind != worker.NoSandbox || slices.ContainsFunc(w.Custom, func(c worker.Custom) bool { return reaches(c.Foreign) }) ||
			slices.ContainsFunc(w.Servers, func(s worker.Server) bool { return reaches(s.Foreign) }) ||
			slices.ContainsFunc(w.Hooks, func(h worker.Hook) bool { return reaches(h.Foreign) })
	})
}

// sentSecrets returns the secrets of the user that golem would send, and the hosts that get
// them.
func (r Request) sentSecrets() []Permission {
	var list []Permission
	for _, rule := range r.Project.Network.Rules() {
		c, ok := r.Project.Credential(rule.Credential)
		if rule.Credential == "" || !ok || c.Agent {
			continue
		}
		what := "sends " + visible.Quote(c.Source())
		if c.Own {
			what += " (" + visible.Quote(c.From.String()) + ")"
		}
		rule.Credential = ""
		list = append(list, Permission{what + " to " + visible.Quote(rule.String()), r.Project.NetworkPlace().String(), Severe})
	}
	return list
}

// addScanners adds what scanners and converters run and reach, and the kinds of files that
// scanners ignore.
func (r Request) addScanners(add permit) {
	e := r.Project.Engines
	for _, x := range e.External {
		add(Risky, x.From.String(), "the scanner "+visible.Quote(x.Name)+" runs "+visible.Quote(strings.Join(x.Command, " "))+", in the jail")
	}
	for _, c := range r.Project.Converters {
		add(Risky, c.From.String(), "golem intake runs "+visible.Quote(strings.Join(c.Command, " "))+" for "+visible.Quote(strings.Join(c.Suffixes, " "))+", in the jail")
	}
	if e.Clamd != "" {
		add(Usual, r.Project.PlaceOf("clearance.malware.clamd").String(), "clamd sees the results, at "+visible.Quote(string(e.Clamd)))
	}
	for _, file := range e.Yara {
		risk, shown := Risky, visible.Quote(string(file))+", outside the program"
		if rel, inside := r.inside(string(file)); inside {
			risk, shown = Usual, visible.Quote(filepath.ToSlash(rel))
		}
		add(risk, r.Project.PlaceOf("clearance.malware.yara").String(), "the scanner yara gets the text of "+shown)
	}
	if len(e.Allow) > 0 {
		add(Risky, r.Project.PlaceOf("clearance.allow").String(), "scanners do not hold back binary files of the kinds "+visible.Quote(strings.Join(e.Allow, ", ")))
	}
}

// allScanners are those that look at results unless a project chooses others.
var allScanners = []string{"format", "size", "content", "secrets", "malware"}

// inside returns a path without symlinks relative to the program's directory, and whether it
// is in there.
func (r Request) inside(real string) (rel string, ok bool) {
	root, err := filepath.EvalSymlinks(r.Root)
	if err == nil {
		rel, err = filepath.Rel(root, real)
	}
	return rel, err == nil && filepath.IsLocal(rel)
}

// describeTarget returns where a repository is.
func describeTarget(dir, url, repo string) string {
	if url != "" && repo != "" {
		return strings.TrimRight(url, "/") + "/" + repo
	}
	return dir + url + repo
}

// addBranches adds the branches of a repository that workers read with git_pull, unless it is
// in the program.
func (r Request) addBranches(add permit, who, dir, url, repo, from string) {
	at := describeTarget("", url, repo)
	if dir != "" {
		if at = dir; !filepath.IsAbs(dir) {
			dir = filepath.Join(r.Root, dir)
		}
		if _, inside := r.inside(project.RealDir(dir)); inside {
			return
		}
	}
	add(Risky, from, who+" every branch of "+visible.Quote(at))
}

// isForeignServer reports whether a repository is on another GitHub server than github.com.
func isForeignServer(url, repo string) bool {
	return repo != "" && url != "" && strings.TrimRight(url, "/") != "https://github.com"
}

// foreignServer says what such a server gets.
const foreignServer = "; this server gets your token for it, if gh or GH_HOST names it"

// comparePlaces orders places by file and line.
func comparePlaces(a, b string) int {
	fileA, lineA := cutLine(a)
	fileB, lineB := cutLine(b)
	return cmp.Or(strings.Compare(fileA, fileB), cmp.Compare(lineA, lineB))
}

func cutLine(place string) (file string, line int) {
	if i := strings.LastIndexByte(place, ':'); i >= 0 {
		if n, err := strconv.Atoi(place[i+1:]); err == nil {
			return place[:i], n
		}
	}
	return place, 0
}

// addMount adds a mount that is writable, or that shows files outside the program.
func (r Request) addMount(add permit, target, mode, source, base string, from strictyaml.Place) {
	if base != "" {
		source = filepath.Join(base, source)
	}
	rel, err := filepath.Rel(r.Root, source)
	outside := err != nil || !filepath.IsLocal(rel)
	risk, what := Risky, "workers read "
	switch {
	case mode == "rw" && outside:
		risk, what = Severe, "workers write "
	case mode == "rw":
		what = "workers write "
	case mode == project.Overlay:
		what = "workers change, in an overlay, "
	}
	if mode == project.Overlay && !outside {
		risk = Usual
	}
	switch {
	case outside:
		add(risk, from.String(), what+visible.Quote(source)+", outside the program, as "+target)
	case mode != "ro":
		add(risk, from.String(), what+visible.Quote(filepath.ToSlash(rel))+" as "+target)
	}
}

// addJail adds what commands see besides the mounts, and limits above the defaults.
func (r Request) addJail(add permit) {
	p := r.Project
	if len(p.Etc) > 0 {
		add(Risky, p.PlaceOf("jail.etc").String(), "commands see in /etc also "+visible.Quote(strings.Join(p.Etc, ", ")))
	}
	if p.GPU {
		add(Severe, p.PlaceOf("jail.gpu").String(), "commands reach the GPU's driver in your kernel")
	}
	if len(p.IgnoredDirs) > 0 {
		add(Usual, p.PlaceOf("ignored_without_git").String(), "without git, lists of changes show new files in "+visible.Quote(strings.Join(p.IgnoredDirs, ", "))+" as one line")
	}
	if at := p.PlaceOf("sandbox.require_os_sandbox"); p.Level == "" && at != strictyaml.Default {
		add(Usual, at.String(), "commands run at any level of the jail, also at the weakest")
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	period := func(n int64) string { return time.Duration(n).String() }
	l, c, normal := p.Limits, p.ClearanceLimits, jail.DefaultLimits()
	for _, one := range []struct {
		key        string
		is, normal int64
		text       func(int64) string
	}{
		{"limits.cpu", int64(l.CPU), int64(max(normal.CPU, l.Time)), period},
		{"limits.memory", l.Memory, normal.Memory, visible.Amount},
		{"limits.pids", l.Pids, normal.Processes, number},
		{"limits.time", int64(l.Time), int64(normal.Time), period},
		{"limits.output", l.Output, normal.Output, visible.Amount},
		{"limits.file_size", l.FileSize, normal.FileSize, visible.Amount},
		{"budget.turns", l.Turns, policy.DefaultTurns, number},
		{"budget.workers", l.Workers, policy.DefaultWorkers, number},
		{"delegation.max_depth", int64(p.MaxDepth), project.DefaultDepth, number},
		{"clearance.limits.max_bytes", c.MaxBytes, 4 << 30, visible.Amount},
		{"clearance.limits.scan_bytes", c.ScanBytes, 32 << 20, visible.Amount},
		{"clearance.limits.scan_time", int64(c.ScanTime), int64(time.Minute), period},
	} {
		if at := p.PlaceOf(one.key); one.is > one.normal && at != strictyaml.Default {
			add(Usual, at.String(), "raises "+one.key+" from "+one.text(one.normal)+" to "+one.text(one.is))
		}
	}
	if at := p.PlaceOf("limits.disk"); l.Disk > 0 && at != strictyaml.Default {
		add(Usual, at.String(), "the changes of a session may take "+visible.Amount(l.Disk)+" of the disk, whatever is free (limits.disk)")
	}
	if c.MaxPercent > 100 {
		add(Usual, p.PlaceOf("clearance.limits.max_percent").String(), "reviews do not warn of results with up to "+number(c.MaxPercent)+" bytes for each hundred that were read")
	}
}

func addRules(add permit, who string, rules []policy.Rule) {
	for _, r := range rules {
		if r.Approval == policy.PreApproved && r.Verb != policy.Read {
			risk := Risky
			if r.Target == "*" && (r.Verb == policy.Run || r.Verb == policy.Connect) {
				risk = Severe
			}
			add(risk, r.From, who+"may "+r.Verb.String()+" "+visible.Quote(r.Target)+unasked)
		}
	}
}

func (r Request) addWorker(add permit, w *worker.Worker) {
	who := visible.Quote(w.Name) + " "
	addRules(add, who, w.Rules)
	if w.Model.Text != "" {
		add(Usual, w.Model.Place.String(), who+"names the model "+visible.Quote(w.Model.Text)+", which receives what workers read")
	}
	for _, f := range w.Fallbacks {
		add(Usual, f.Place.String(), who+"names the model "+visible.Quote(f.Text)+", which receives what workers read, if another does not answer")
	}
	if r.Project.File == "" {
		// Without a project file, the paths of the entry worker are the project's.
		for _, path := range w.Sandbox.Paths {
			if r.Entry != w {
				add(Risky, path.Place.String(), who+"as the entry: "+path.Access.String()+" "+visible.Quote(path.Root)+" as /"+visible.Quote(path.Name))
			}
		}
	}
	if t, ok := w.Toolset("git"); ok {
		r.addGit(add, who, w.Git, t.Place.String())
	}
	for _, t := range w.Toolsets {
		switch t.Name {
		case "shell":
			add(Usual, t.Place.String(), who+"runs commands")
		}
	}
	if w.Shell != nil {
		for _, r := range w.Shell.Rules {
			if r.Approval == policy.PreApproved {
				risk := Risky
				if strings.TrimSpace(r.Pattern) == "*" {
					risk = Severe
				}
				add(risk, r.From, who+"runs "+commandsOf(r)+unasked)
			}
		}
		if w.Shell.Default == policy.PreApproved {
			add(Severe, w.Shell.From, who+"runs any command"+unasked)
		}
	}
}

// unasked describes commands that run without a prompt. The gate still asks about the
// files that they change.
const unasked = " without asking you"

// commandsOf describes the commands that a rule is for.
func commandsOf(r policy.ShellRule) string {
	switch {
	case r.Use != "":
		return command.About(r.Use) + " (" + r.Use + ")"
	case strings.TrimSpace(r.Pattern) == "*":
		return "any command"
	}
	return visible.Quote(r.Pattern)
}

// addGit adds the repositories that the user pushes results to, and the credentials used.
func (r Request) addGit(add permit, who string, g worker.Git, from string) {
	what := who + "stages commits; your push then uses "
	if g.Credentials.Mode == "explicit" {
		add(Risky, from, what+"the credentials that are named here")
	} else {
		add(Risky, from, what+"your credentials")
	}
	if t := g.Inline; t != nil {
		risk, what := Usual, who+"stages results for "+visible.Quote(describeTarget(t.Path, t.URL, t.Repo))+"; only you can push them"
		if isForeignServer(t.URL, t.Repo) {
			risk = Severe
			what += foreignServer
		}
		add(risk, t.Place.String(), what)
		r.addBranches(add, who+"reads", t.Path, t.URL, t.Repo, t.Place.String())
	}
	for _, v := range g.Credentials.Env {
		if v.Pass {
			add(Severe, v.Place.String(), who+"gives git your "+visible.Quote(v.Name))
		}
	}
}

// ForeignPrograms returns the foreign programs that workers run.
func (r Request) ForeignPrograms() []Permission {
	var list []Permission
	add := func(who string, f worker.Foreign, as string) {
		var words []string
		for _, word := range f.Command {
			text := visible.Quote(word.Text)
			if name := worker.FileOf(word.Text); worker.IsFile(word.Text) {
				text = visible.Quote(name) + " (" + shortHash(r.Tools, name) + ")"
			}
			words = append(words, text)
		}
		risk, what := Risky, visible.Quote(who)+" runs "+strings.Join(words, " ")+as
		for _, word := range f.With {
			what += ", with " + visible.Quote(worker.FileOf(word.Text))
		}
		switch {
		case f.Reach == nil:
			what += "; it sees no files"
		case f.Reach.ReadOnly:
			what += "; it reads " + visible.Quote(f.Reach.Folder)
		default:
			what += "; it changes files in " + visible.Quote(f.Reach.Folder)
		}
		if len(f.State) > 0 {
			what += ", keeps files between runs in servers/" + visible.Quote(who+"/"+f.Name) + " of golem's state for this program"
		}
		if f.Network != nil {
			what += ", and reaches the network"
		}
		if f.Level > policy.AnyLevel {
			what += ", at the level " + f.Level.String() + " or a stronger one"
		}
		if len(f.Env) > 0 {
			risk = Severe
			what += ", and gets your " + visible.Quote(strings.Join(worker.Words(f.Env), ", "))
		}
		if f.Approval != nil && f.Approval.Approval == policy.PreApproved {
			what += ", " + strings.TrimSpace(unasked)
		}
		list = append(list, Permission{what, f.Place.String(), risk})
	}
	for _, w := range r.Workers {
		for _, c := range w.Custom {
			add(w.Name, c.Foreign, " as the tool "+c.Name)
			if d, err := r.Tools.Describe(c); err == nil && d.Approval.Approval == policy.PreApproved {
				list = append(list, Permission{"the tool " + c.Name + " runs" + unasked + ", unless a worker has a rule for it", d.Approval.From, Risky})
			}
		}
		for _, s := range w.Servers {
			if s.Remote != nil {
				list = append(list, remotePermission(w.Name, s, strings.TrimSpace(unasked)))
				continue
			}
			add(w.Name, s.Foreign, " as the MCP server "+s.Name)
		}
		for _, h := range w.Hooks {
			add(w.Name, h.Foreign, " as the hook "+h.Name+" ("+h.On+")")
		}
	}
	return list
}

// remotePermission describes an MCP server that golem reaches over HTTP.
func remotePermission(name string, s worker.Server, unasked string) Permission {
	risk, what := Risky, name+" uses the MCP server "+s.Name+" at "+visible.Quote(s.Remote.URL)
	for _, h := range s.Remote.Headers {
		risk = Severe
		what += ", which gets " + h.Source()
	}
	if s.Remote.Trusted {
		what += ", and its results count as trusted"
	}
	if s.Approval != nil && s.Approval.Approval == policy.PreApproved {
		what += ", " + unasked
	}
	return Permission{what, s.Place.String(), risk}
}

// shortHash returns the first digits of the hash of a file.
func shortHash(t ToolFiles, name string) string {
	if t[name] == nil {
		return "missing"
	}
	return "sha256 " + t.Hash([]string{name})[:12]
}

// describeHost returns a rule as text. It warns about a pattern whose names belong to
// anybody, such as *.com or *.github.io: an attacker can have one, too.
func describeHost(rule policy.HostRule) string {
	text := visible.Quote(rule.String())
	below, isPattern := strings.CutPrefix(rule.Host, "*.")
	suffix, isRegistry := publicsuffix.PublicSuffix(below)
	isKnown := isRegistry || strings.Contains(suffix, ".") // an unknown name such as test has no rule in the list
	if isPattern && suffix == below && isKnown && !strings.HasSuffix(below, ".arpa") {
		text += ", where anybody can get a name"
	}
	return text
}
