package program

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/command"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// A Widening is one line of a program's files that gives more than the default
// policy, which is to read the program's folder.
type Permission struct {
	What string `json:"what"`
	From string `json:"from"`
}

// Permissions returns all that trusting the program grants, each with the line
// that says so: files outside it or to be written, the network, approvals given
// beforehand, programs that would run.
func (p *Program) Permissions() []Permission {
	var list []Permission
	add := func(from, what string) { list = append(list, Permission{what, from}) }
	for _, m := range p.Project.Mounts {
		p.widenMount(add, m.Target, m.Mode, string(m.Source), string(m.Base), m.From)
	}
	if p.Project.Network.IsAll() {
		add(p.placeOf("sandbox.network"), "the whole network")
	}
	for _, host := range p.Project.Network.Patterns() {
		add(p.placeOf("sandbox.network"), "the host "+quoteAll(host))
	}
	if p.Project.Approval == "approve_all" {
		add(p.placeOf("approval.mode"), "everything approved beforehand, but what is blocked")
	}
	if p.Project.Model != "" {
		add(p.placeOf("model"), "the model "+quoteAll(p.Project.Model)+", which is sent what workers read")
	}
	if s := p.Project.ModelServer; s.URL != "" {
		what := "the server " + quoteAll(s.URL) + ", which is sent what workers read"
		if s.Key != "" {
			what += ", with your key " + quoteAll(s.Key)
		}
		add(p.placeOf("model_server.url"), what)
	}
	for _, t := range p.Project.Targets {
		where := string(t.Path) + t.URL + t.Repo
		what := "clearing into " + quoteAll(t.Name) + ": " + quoteAll(where) + ", by your own hand only"
		if t.Hooks {
			what += "; a push runs the hooks of that repository as you, outside the jail"
		}
		add(t.From.String(), what)
	}
	p.widenScanners(add)
	for _, e := range p.Project.Endpoints {
		what := "sending to " + quoteAll(e.Name) + ": " + quoteAll(e.URL) + ", by your own hand only"
		for _, h := range e.Headers {
			if h.Variable != "" {
				what += ", with your " + quoteAll(h.Variable)
			}
		}
		add(e.From.String(), what)
	}
	if scanners := p.Project.Scanners; len(scanners) < len(allScanners) {
		add(p.placeOf("clearance.scanners"), "clearing that is scanned only for: "+strings.Join(scanners, ", "))
	}
	widenRules(add, "", p.Project.Rules)
	for _, w := range p.Workers {
		p.widenWorker(add, w)
	}
	list = append(list, p.ForeignPrograms()...)
	slices.SortStableFunc(list, func(a, b Permission) int { return comparePlaces(a.From, b.From) })
	return list
}

// widenScanners adds what scanners run and reach, and what they let pass.
func (p *Program) widenScanners(add func(from, what string)) {
	e := p.Project.Engines
	for _, x := range e.External {
		add(x.From.String(), "the scanner "+quoteAll(x.Name)+" runs "+quoteAll(strings.Join(x.Command, " "))+", in the jail")
	}
	if e.Clamd != "" {
		add(p.placeOf("clearance.malware.clamd"), "what is cleared is shown to clamd at "+quoteAll(string(e.Clamd)))
	}
	if len(e.Allow) > 0 {
		add(p.placeOf("clearance.allow"), "scanners do not hold back binary files of the kinds "+quoteAll(strings.Join(e.Allow, ", ")))
	}
}

// allScanners are those that look at what is cleared unless a project says
// otherwise.
var allScanners = []string{"format", "size", "content", "secrets", "malware"}

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

// widenMount adds a mount that can be written, or that shows more than the
// program.
func (p *Program) widenMount(add func(from, what string), target, mode, source, base string, from strictyaml.Place) {
	if base != "" {
		source = filepath.Join(base, source)
	}
	rel, err := filepath.Rel(p.root, source)
	outside := err != nil || !filepath.IsLocal(rel)
	what := "reading "
	switch mode {
	case "rw":
		what = "writing "
	case project.Overlay:
		what = "changing, in a layer, "
	}
	switch {
	case outside:
		add(from.String(), what+quoteAll(source)+", outside the program, as "+target)
	case mode != "ro":
		add(from.String(), what+quoteAll(filepath.ToSlash(rel))+" as "+target)
	}
}

func widenRules(add func(from, what string), who string, rules []policy.Rule) {
	for _, r := range rules {
		if r.Consent == policy.PreApproved && r.Verb != policy.Read {
			add(r.From, who+"may "+r.Verb.String()+" "+quoteAll(r.Target)+" without being asked about")
		}
	}
}

// quoteAll returns a text so that nothing of it is hidden, not even by its length.
func quoteAll(text string) string {
	for _, r := range text {
		if !sandbox.Plain(r) || r == utf8.RuneError {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}

func (p *Program) widenWorker(add func(from, what string), w *worker.Worker) {
	who := quoteAll(w.Name) + " "
	widenRules(add, who, w.Rules)
	if p.Project.File == "" {
		// Whichever worker is the entry, its paths are then the project's.
		for _, path := range w.Sandbox.Paths {
			if p.Entry != w {
				add(path.Place.String(), who+"as the entry: "+path.Access.String()+" "+quoteAll(path.Root)+" as /"+quoteAll(path.Name))
			}
		}
	}
	if t, ok := w.Toolset("git"); ok {
		p.widenGit(add, who, w.Git, t.Place.String())
	}
	for _, t := range w.Toolsets {
		switch t.Name {
		case "shell":
			add(t.Place.String(), who+"runs commands")
		}
	}
	if w.Shell != nil {
		for _, r := range w.Shell.Rules {
			if r.Consent == policy.PreApproved {
				add(r.From, who+"runs "+runsWhat(r)+unasked)
			}
		}
		if w.Shell.Default == policy.PreApproved {
			add(w.Shell.From, who+"runs any command"+unasked)
		}
	}
}

// unasked is said of commands that the files want to run so. What they change is
// decided when they have ended.
const unasked = " without being asked about"

// runsWhat says which commands a rule is for.
func runsWhat(r policy.ShellRule) string {
	switch {
	case r.Use != "":
		return command.About(r.Use) + " (" + r.Use + ")"
	case strings.TrimSpace(r.Pattern) == "*":
		return "any command"
	}
	return quoteAll(r.Pattern)
}

// widenGit adds where results go by the user's own hand, and as whom.
func (p *Program) widenGit(add func(from, what string), who string, g worker.Git, from string) {
	what := who + "stages for git; your own push then uses "
	if g.Credentials.Mode == "explicit" {
		add(from, what+"what is named here")
	} else {
		add(from, what+"your credentials")
	}
	if t := g.Inline; t != nil {
		add(t.Place.String(), who+"clears into "+quoteAll(t.Path+t.URL+t.Repo)+", by your own hand only")
	}
	for _, v := range g.Credentials.Env {
		if v.Pass {
			add(v.Place.String(), who+"hands git your "+quoteAll(v.Name))
		}
	}
}

// placeOf returns where a key of the project file is written.
func (p *Program) placeOf(key string) string {
	for _, v := range p.Project.Values() {
		if v.Key == key {
			return v.From.String()
		}
	}
	return strictyaml.Default.String()
}
