package project

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A loader turns a tree of values into a project. First the schema checks the form of the
// values. Then the loader reads each part. It skips a part with a wrong form, because the
// schema has reported that.
type loader struct {
	env     Env
	root    string // absolute
	real    string // root without symlinks
	project *Project

	tree     strictyaml.Node // the values as written; the loader adds the defaults
	problems strictyaml.Problems
	wrong    map[strictyaml.Place]bool // places that the schema reported
	// unclear is true if a directory could not be determined. The loader then skips
	// checks that need all of them.
	unclear bool

	host *hostView // made when checkHidden needs it first
}

// A clearanceReader reads the key clearance for a loader.
type clearanceReader struct{ *loader }

func newLoader(root, file string, env Env) (*loader, error) {
	source := cmp.Or(file, strictyaml.Default.Source)
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, newProblem(source, "the program has no directory", "name one that exists")
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, newProblem(source, "the program's directory does not exist", "name one that does")
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return nil, newProblem(source, "the program's directory is not a directory", "name one that is")
	}
	return &loader{env: env, root: abs, real: real, project: &Project{Root: sandbox.Host(abs), File: file}}, nil
}

// parseTree builds the tree from the file and the settings. It checks the file first, so that
// a setting cannot hide a mistake in it.
func (l *loader) parseTree(data []byte, settings []Setting) {
	l.tree = strictyaml.Node{Place: strictyaml.Default, Kind: strictyaml.Map}
	if l.project.File != "" {
		l.tree, l.problems = strictyaml.Parse(l.project.File, data)
		if l.tree.Kind != strictyaml.Map {
			l.problems.Add(l.tree, l.tree.Kind.String(), "a project file is a map of "+strings.Join(keyNames(Schema().Keys), ", "))
			l.tree = strictyaml.Node{Place: l.tree.Place, Kind: strictyaml.Map}
		}
		l.tree, _ = Schema().Respell(l.tree)
		Schema().Check(l.tree, &l.problems)
	}
	l.tree = l.env.Ceiling.setDefaults(l.tree)
	for _, s := range settings {
		l.tree = l.tree.Set(s.Keys, s.Value)
	}
	Schema().Check(l.tree, &l.problems)
	l.tree.Bounded(&l.problems)
	l.checkControlCharacters(l.tree)
	l.wrong = map[strictyaml.Place]bool{}
	for _, p := range l.problems {
		l.wrong[p.Place] = true
	}
}

// checkControlCharacters reports control characters. No value needs one, and a terminal or another reader
// may interpret it.
func (l *loader) checkControlCharacters(n strictyaml.Node) {
	if strings.ContainsFunc(n.Text, unicode.IsControl) {
		l.problems.Add(n, "a control character in "+sandbox.Shown(n.Text), "write it without")
	}
	for _, item := range n.Items {
		l.checkControlCharacters(item)
	}
	for _, f := range n.Fields {
		l.checkControlCharacters(f.Key)
		l.checkControlCharacters(f.Value)
	}
}

// isWrong reports whether the schema found a problem in the node or in anything in it.
func (l *loader) isWrong(n strictyaml.Node) bool { return !l.isValid(n) }

// isValid reports whether the schema found no problem in the node and everything in it.
func (l *loader) isValid(n strictyaml.Node) bool {
	return !l.wrong[n.Place] && !slices.ContainsFunc(n.Items, func(item strictyaml.Node) bool { return !l.isValid(item) }) &&
		!slices.ContainsFunc(n.Fields, func(f strictyaml.Field) bool { return !l.isValid(f.Key) || !l.isValid(f.Value) })
}

// valueAt returns the value at a path of keys. It returns false if the value is missing or
// wrong.
func (l *loader) valueAt(keys ...string) (strictyaml.Node, bool) {
	n, ok := l.tree.At(keys...)
	return n, ok && l.isValid(n)
}

// setEffective sets an effective value that is not written in this form.
func (l *loader) setEffective(place strictyaml.Place, text string, keys ...string) {
	l.tree = l.tree.Set(keys, scalarNode(place, text))
}

func scalarNode(place strictyaml.Place, text string) strictyaml.Node {
	return strictyaml.Node{Place: place, Kind: strictyaml.Scalar, Text: text}
}

// readPlain reads the keys whose values need nothing but the check of their key.
func (l *loader) readPlain() {
	var problems strictyaml.Problems
	Schema().CheckAll(l.tree, &problems)
	for _, p := range problems {
		if !l.wrong[p.Place] {
			l.problems.Note(p)
		}
	}
	p, limits, clearance := l.project, &l.project.Limits, &l.project.ClearanceLimits
	p.MaxDepth = DefaultDepth
	l.tree.Decode(map[string]any{
		"model": &p.Model, "summary_model": &p.SummaryModel, "fallback_models": &p.Fallbacks,
		"effort": &p.Answers.Effort, "temperature": &p.Answers.Temperature, "max_answer_tokens": &p.Answers.MaxTokens, "show_thinking": &p.Answers.ShowThinking,
		"model_server.url": &p.ModelServer.URL, "model_server.key": &p.ModelServer.Key, "model_server.api": &p.ModelServer.API,
		"delegation.max_depth": &p.MaxDepth,
		"limits.cpu":           &limits.CPU, "limits.memory": &limits.Memory, "limits.pids": &limits.Pids,
		"limits.time": &limits.Time, "limits.output": &limits.Output, "limits.file_size": &limits.FileSize, "limits.disk": &limits.Disk,
		"jail.etc": &p.Etc, "jail.gpu": &p.GPU, "ignored_without_git": &p.IgnoredDirs,
		"commit.trailer":  &p.Trailer,
		"sandbox.protect": &p.Protect, "sandbox.require_os_sandbox": &p.Level,
		"network.allow_private": &p.AllowPrivate, "network.ask": &p.AskHosts,
		"clearance.allow": &p.Engines.Allow, "clearance.malware.clamscan": &p.Engines.Clamscan,
		"clearance.limits.max_files": &clearance.MaxFiles, "clearance.limits.max_bytes": &clearance.MaxBytes, "clearance.limits.max_percent": &clearance.MaxPercent,
		"clearance.limits.scan_bytes": &clearance.ScanBytes, "clearance.limits.scan_time": &clearance.ScanTime,
	}, l.isWrong)
	readBudget(l.tree, limits, l.isWrong)
	switch p.Level {
	case "true":
		p.Level = "landlock"
	case "false":
		p.Level = ""
	}
}

// readRunSettings reads the settings of runs whose values depend on others: the model server,
// the approval mode and the directories of workers.
func (l *loader) readRunSettings() {
	p := l.project
	if n, ok := l.valueAt("model_server", "url"); ok {
		p.ModelServer.By = n.Place
	}
	if n, ok := l.valueAt("model_server", "key"); ok && p.ModelServer.URL == "" {
		l.problems.Add(n, "model_server.key without a url", "say which server it is for: model_server: {url: …, key: …}")
	}
	p.Approval = "interactive"
	if n, ok := l.valueAt("approval", "mode"); ok {
		p.Approval, p.ApprovalBy = approvalMode(n.Text), n.Place
		l.setEffective(n.Place, p.Approval, "approval", "mode")
	}
	p.WorkerPaths = DefaultWorkerPaths()
	if n, ok := l.valueAt("worker_paths"); ok {
		p.WorkerPaths = l.readWorkerPaths(n)
	}
}

// DefaultWorkerPaths returns the directories in which a program has its workers, unless it
// names others. The TypeScript version had them in .workers.
func DefaultWorkerPaths() []string { return []string{".", "workers", ".workers"} }

// approvalMode returns the current name of a mode.
func approvalMode(name string) string {
	switch name {
	case "auto":
		return "approve_all"
	case "manual", "tool":
		return "interactive"
	}
	return name
}

func (l *loader) readWorkerPaths(n strictyaml.Node) []string {
	var list []string
	for _, item := range n.Items {
		dir := path.Clean(item.Text)
		switch {
		case item.Text == "":
			l.problems.Add(item, "worker_paths: an empty path", ". is the program's directory")
		case strings.HasPrefix(dir, "~") || !filepath.IsLocal(filepath.FromSlash(dir)):
			l.problems.Add(item, "worker_paths: "+sandbox.Shown(item.Text)+" is no directory of the program",
				"workers lie in the program; name a directory relative to it, such as workers")
		case slices.Contains(list, dir):
			l.problems.Add(item, "worker_paths: "+sandbox.Shown(item.Text)+" twice", "keep one")
		default:
			list = append(list, dir)
			if why := l.checkWorkerDir(dir); why != "" {
				l.problems.Add(item, "worker_paths: "+sandbox.Shown(item.Text)+" "+why, "name an existing directory of the program, such as workers")
			}
		}
	}
	return list
}

// checkWorkerDir returns why a directory of the program cannot hold workers, "" if it can. The
// default directory may be missing.
func (l *loader) checkWorkerDir(dir string) string {
	info, err := os.Stat(filepath.Join(l.real, filepath.FromSlash(dir)))
	switch {
	case errors.Is(err, fs.ErrNotExist) && dir == "workers":
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err != nil:
		return "cannot be read"
	case !info.IsDir():
		return "is not a directory"
	}
	return ""
}

// Respellings returns the keys of a project file that are written in another form than
// Schema writes them.
func Respellings(file string, data []byte) []strictyaml.Respelling {
	tree, _ := strictyaml.Parse(file, data)
	_, list := Schema().Respell(tree)
	return list
}
