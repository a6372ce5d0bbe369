package project

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// builtinScanners returns the built-in scanners, in the order in which they run.
func builtinScanners() []string { return []string{"format", "size", "content", "secrets", "malware"} }

// readClearance reads the targets, endpoints, scanners and limits of clearance.
func (l clearanceReader) readClearance() {
	p := l.project
	targets, _ := l.tree.At("clearance", "targets")
	for _, f := range targets.Fields {
		if !l.wrong[targets.Place] && l.isValid(f.Key) && l.isValid(f.Value) {
			l.readTarget(f)
		}
	}
	slices.SortFunc(p.Targets, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
	l.readEndpoints()
	p.Scanners = builtinScanners()
	if n, ok := l.valueAt("clearance", "scanners"); ok {
		p.Scanners = l.readScanners(n)
	}
	l.readEngines()
	l.readConverters()
}

// readEngines reads the scanners that are foreign programs.
func (l clearanceReader) readEngines() {
	e := &l.project.Engines
	if n, ok := l.valueAt("clearance", "malware", "clamd"); ok {
		socket, _ := l.hostPath("clearance.malware.clamd", n)
		e.Clamd = sandbox.Host(socket)
	}
	if n, ok := l.valueAt("clearance", "malware", "yara"); ok {
		for _, item := range n.Items {
			if file, ok := l.readableFile("clearance.malware.yara", item); ok {
				e.Yara = append(e.Yara, sandbox.Host(file))
			}
		}
	}
	external, _ := l.tree.At("clearance", "external")
	for _, f := range external.Fields {
		if !l.wrong[external.Place] && l.isValid(f.Key) && l.isValid(f.Value) {
			l.readExternal(f)
		}
	}
	slices.SortFunc(e.External, func(a, b External) int { return strings.Compare(a.Name, b.Name) })
}

// readableFile returns the path, without symlinks, of a file that commands or workers may
// read although no mount shows it. It is none that a mount may not show.
func (l clearanceReader) readableFile(label string, n strictyaml.Node) (file string, ok bool) {
	file, ok = l.hostPath(label, n)
	if !ok {
		return "", false
	}
	rel, inside := relative(file, l.root, l.real)
	real := resolveLinks(file)
	what, hint := l.checkShowable(real)
	if kernel := kernelDir(file); kernel != "" {
		what, hint = "is under "+kernel, "there are no files of yours there"
	} else if inside && real != filepath.Join(l.real, rel) { // a worker may have made it
		what, hint = "is reached by a symlink", "name the file that the symlink points to"
	}
	if what != "" {
		l.problems.Add(n, label+": "+sandbox.Shown(n.Text)+" "+what, hint)
	}
	return real, what == ""
}

// readExternal reads a scanner of the user.
func (l clearanceReader) readExternal(f strictyaml.Field) {
	label := "clearance.external." + sandbox.Shown(f.Key.Text)
	x := External{Name: f.Key.Text, From: f.Key.Place}
	if why := checkName(x.Name); why != "" || slices.Contains(append(builtinScanners(), "clamd", "clamscan", "yara", "limits"), x.Name) {
		l.problems.Add(f.Key, label+": not a name for a scanner", "choose another name, such as words")
	}
	x.Command = l.readProgram(f, label, "write command: with the program and its arguments")
	l.project.Engines.External = append(l.project.Engines.External, x)
}

func (l clearanceReader) readScanners(n strictyaml.Node) []string {
	var list []string
	for _, item := range n.Items {
		switch {
		case !slices.Contains(builtinScanners(), item.Text):
			l.problems.Add(item, "clearance.scanners: unknown scanner "+sandbox.Shown(item.Text), suggest(item.Text, builtinScanners()))
		case slices.Contains(list, item.Text):
			l.problems.Add(item, "clearance.scanners: "+item.Text+" twice", "keep one")
		default:
			list = append(list, item.Text)
		}
	}
	return list
}

// addressKeys maps each type of target to the key that says where it is.
var address = map[string]string{"local": "path", "bare": "path", "remote": "url", "github": "repo"}

// readTarget reads one repository.
func (l clearanceReader) readTarget(f strictyaml.Field) {
	label := "clearance.targets." + sandbox.Shown(f.Key.Text)
	t := Target{Name: f.Key.Text, Branch: "main", From: f.Key.Place}
	if why := checkName(t.Name); why != "" {
		l.problems.Add(f.Key, label+": "+why, "choose another name, such as origin")
		return
	}
	kind, ok := f.Value.At("type")
	if !ok {
		l.problems.Add(f.Key, label+" has no type", "write type: local, bare, remote or github")
		return
	}
	t.Type = kind.Text
	for _, key := range []string{"path", "url", "repo"} {
		n, has := field(f.Value, key)
		switch needed := key == address[t.Type]; {
		case needed && !has:
			l.problems.Add(f.Key, label+" has no "+key, fmt.Sprintf("a target of type %s needs one", t.Type))
		case key == "url" && t.Type == "github" && has:
			t.URL = n.Value.Text
			if why := git.BadServer(t.URL); why != "" {
				l.problems.Add(n.Value, label+".url: "+why, "write https://host of a GitHub Enterprise, or leave it out for github.com")
			}
		case !needed && has:
			l.problems.Add(keyNode(n), fmt.Sprintf("%s.%s has no meaning with type: %s (%s)", label, key, t.Type, kind.Place),
				fmt.Sprintf("a target of type %s has a %s; remove one of the two", t.Type, address[t.Type]))
		case has:
			l.readAddress(&t, label+"."+key, n.Value)
		}
	}
	if n, ok := f.Value.At("branch"); ok {
		t.Branch = n.Text
		if why := git.BadBranch(n.Text); why != "" {
			l.problems.Add(n, label+".branch: "+why, "main and drafts/notes are")
		}
	}
	if n, ok := f.Value.At("hooks"); ok {
		t.Hooks = n.Text == "run"
		if t.Hooks && t.Path == "" && !strings.HasPrefix(t.URL, "file:") {
			l.problems.Add(n, label+".hooks: its server decides which hooks run", "remove it; it is for repositories on this machine: local, bare, and an address with file:")
		}
	}
	l.readTargetRoot(&t, label, f)
	l.project.Targets = append(l.project.Targets, t)
}

// readAddress reads the path, url or repo of a target.
func (l clearanceReader) readAddress(t *Target, label string, n strictyaml.Node) {
	switch t.Type {
	case "local", "bare":
		folder, ok := l.hostPath(label, n)
		t.Path = sandbox.Host(folder)
		if ok {
			l.checkTargetDir(folder, label, n)
		}
	case "remote":
		t.URL = n.Text
		if why := git.BadURL(n.Text); why != "" {
			l.problems.Add(n, label+": "+why, git.AddressHint)
		} else if dir := t.Dir(); dir != "" {
			l.checkTargetDir(dir, label, n)
		}
	case "github":
		t.Repo = n.Text
		if why := git.BadRepo(n.Text); why != "" {
			l.problems.Add(n, label+": "+why, "write owner/name")
		}
	}
}

// checkTargetDir checks that a mount may show the directory of a target: workers read every
// branch of it.
func (l clearanceReader) checkTargetDir(dir, label string, n strictyaml.Node) {
	if kernel := kernelDir(dir); kernel != "" {
		l.problems.Add(n, label+": "+sandbox.Shown(n.Text)+" is under "+kernel, "there are no repositories there")
	} else if what, hint := l.checkShowable(resolveLinks(dir)); what != "" {
		l.problems.Add(n, label+": "+sandbox.Shown(n.Text)+" "+what, hint)
	}
}

// readTargetRoot reads the place of a target's root in the sandbox: on a mount, or above one.
func (l clearanceReader) readTargetRoot(t *Target, label string, f strictyaml.Field) {
	shown := func(name string) bool {
		return slices.ContainsFunc(l.project.Mounts, func(m Mount) bool { return policy.AtOrBelow(m.Target, name) || policy.AtOrBelow(name, m.Target) })
	}
	at, written := f.Value.At("at")
	if !written {
		at = scalarNode(strictyaml.Default, "/workspace")
		if slices.ContainsFunc(l.project.Mounts, func(m Mount) bool { return m.Target == "/" }) {
			at.Text = "/"
		}
		if !l.unclear && !shown(at.Text) {
			l.problems.Add(f.Key, label+": no mount is at /workspace, where its root would stand", "write at: with the path of a mount")
			return
		}
		t.At = at.Text
		l.setEffective(strictyaml.Default, at.Text, "clearance", "targets", t.Name, "at")
		return
	}
	var why string
	if t.At, why = canonicalTarget(at.Text); why == "" && !l.unclear && !shown(t.At) {
		why = " is on no mount"
	}
	if why != "" {
		l.problems.Add(at, label+".at: "+sandbox.Shown(at.Text)+why, "write the path of a mount, or of a directory in one")
	}
}
