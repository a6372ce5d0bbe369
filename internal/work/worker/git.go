package worker

import (
	"slices"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// Git holds the settings of a worker for the git tools.
type Git struct {
	Target      string  // default_target, if it is a name
	Inline      *Target // default_target, if it is a map
	Credentials Credentials
}

// A Target is a repository that the user clears results into.
type Target struct {
	Type            string // local | bare | remote | github
	Path, URL, Repo string // the one that belongs to the type
	Branch          string
	Place           strictyaml.Place
}

// Credentials are what the git tools may use for a push.
type Credentials struct {
	Mode string // inherit | explicit; "" without git
	Env  []Variable
}

// A Variable is an environment variable for git.
type Variable struct {
	Name  string
	Value string
	Pass  bool // take the value from the user's environment
	Place strictyaml.Place
}

type variable struct {
	name, example, doc string
	credential         bool   // it can only be passed on, because a secret does not belong in a file
	only               string // the only value that is allowed
}

// variables are the environment variables that a worker file may set. This is an
// allowlist, because most others make git run a program or write a file that the worker
// chooses.
var variables = []variable{
	{name: "GIT_AUTHOR_NAME", example: "Golem Worker", doc: "The author's name."},
	{name: "GIT_AUTHOR_EMAIL", example: "worker@example.com", doc: "The author's address."},
	{name: "GIT_COMMITTER_NAME", example: "Golem Worker", doc: "The committer's name."},
	{name: "GIT_COMMITTER_EMAIL", example: "worker@example.com", doc: "The committer's address."},
	{name: "GIT_TERMINAL_PROMPT", example: `"0"`, doc: "Only `0`, which is always set: git never asks.", only: "0"},
	{name: "GITHUB_TOKEN", example: "$GITHUB_TOKEN", doc: "Passes on the user's token: write nothing, or `$GITHUB_TOKEN`.", credential: true},
	{name: "GH_TOKEN", example: "$GH_TOKEN", doc: "Passes on the user's token: write nothing, or `$GH_TOKEN`.", credential: true},
	{name: "SSH_AUTH_SOCK", example: "$SSH_AUTH_SOCK", doc: "Passes on the user's SSH agent: write nothing, or `$SSH_AUTH_SOCK`.", credential: true},
}

// removeUnsafeVariables reports variables that are not in the allowlist, with the reason, and removes
// them.
func (r *reader) removeUnsafeVariables(top strictyaml.Node) strictyaml.Node {
	at := []string{"toolsets", "git", "credentials", "env"}
	env, ok := top.At(at...)
	if !ok || env.Kind != strictyaml.Map {
		return top
	}
	var known []string
	for _, v := range variables {
		known = append(known, v.name)
	}
	env.Fields = slices.DeleteFunc(slices.Clone(env.Fields), func(f strictyaml.Field) bool {
		name := f.Key.Text
		if slices.Contains(known, name) || !canChoosePrograms(name) {
			return false
		}
		hint := "such variables have git run programs or use files of the worker's choice; allowed: " + strings.Join(known, ", ")
		if near := sandbox.Nearest(name, known); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		r.problems.Add(f.Key, "credentials.env: "+shown(name)+" may not be set", hint)
		return true
	})
	return top.Set(at, env)
}

// canChoosePrograms reports whether a variable can choose programs or files: the variables of git and
// SSH that are not in the allowlist, and those of the dynamic loader.
func canChoosePrograms(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{"GIT_", "SSH_", "LD_", "DYLD_", "PATH", "HOME", "EDITOR", "PAGER", "VISUAL", "XDG_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// A gitReader reads the settings for the git tools.
type gitReader struct {
	git      Git
	problems *strictyaml.Problems
}

func (r *gitReader) read(n strictyaml.Node) {
	g := &r.git
	g.Credentials.Mode = "inherit"
	n.Decode(map[string]any{"credentials.mode": &g.Credentials.Mode}, nil)
	env, _ := n.At("credentials", "env")
	for _, f := range env.Fields {
		r.readVariable(f)
	}
	if pull, ok := n.At("auto_pull"); ok && pull.Bool() {
		r.problems.Add(pull, "toolsets.git.auto_pull: true", "golem pulls only when a call says so: leave the key out, and call git_pull")
	}
	if target, ok := n.At("default_target"); ok && target.Kind == strictyaml.Map {
		g.Inline = r.readTarget(target)
	} else if ok && target.Kind == strictyaml.Scalar {
		if !isWorkerName(target.Text) {
			r.problems.Add(target, "default_target: "+shown(target.Text),
				"write the name of a target of the project, or a map with a type: {type: local, path: .}")
		}
		g.Target = target.Text
	}
}

// readVariable reads one variable. Problems never show its value, because it may be a secret.
func (r *gitReader) readVariable(f strictyaml.Field) {
	i := slices.IndexFunc(variables, func(v variable) bool { return v.name == f.Key.Text })
	if i < 0 || f.Value.Kind > strictyaml.Scalar {
		return
	}
	v := Variable{Name: f.Key.Text, Value: f.Value.Text, Place: f.Key.Place}
	where := "credentials.env." + v.Name
	switch known := variables[i]; {
	case known.credential:
		if !slices.Contains([]string{"", "$" + v.Name, "${" + v.Name + "}"}, v.Value) {
			r.problems.Add(f.Value, where+": a value", "a secret does not belong in a file; write $"+v.Name+" to pass on the user's own")
		}
		v.Value, v.Pass = "", true
	case known.only != "" && v.Value != known.only:
		r.problems.Add(f.Value, where+": not "+known.only, "git never asks here; write "+known.only+" or leave it out")
	case f.Value.Kind == strictyaml.Null:
		return
	case known.only == "" && (strings.TrimSpace(v.Value) == "" || len(v.Value) > 256 ||
		strings.ContainsAny(v.Value, "<>") || strings.ContainsFunc(v.Value, unicode.IsControl)):
		r.problems.Add(f.Value, where+": not a name or address", "one line without < and >, 256 bytes at most")
	}
	r.git.Credentials.Env = append(r.git.Credentials.Env, v)
}

// readTarget reads a target that is a map. Its type says which key names it.
func (r *gitReader) readTarget(n strictyaml.Node) *Target {
	t := &Target{Type: textOf(n, "type"), Branch: "main", Place: n.Place}
	needs := map[string]string{"local": "path", "bare": "path", "remote": "url", "github": "repo"}[t.Type]
	if !n.Has("type") {
		r.problems.Add(n, "default_target: no type", "write type: local, bare, remote or github")
	}
	for _, key := range []string{"path", "url", "repo"} {
		value, ok := n.At(key)
		switch {
		case needs == "":
		case ok && key != needs:
			r.problems.Add(value, "default_target."+key+" in a "+t.Type+" target", "a "+t.Type+" target has "+needs)
		case !ok && key == needs:
			r.problems.Add(n, "default_target: no "+key, "a "+t.Type+" target needs it")
		case ok && value.Kind == strictyaml.Scalar:
			r.readAddress(t, key, value)
		}
	}
	if branch, ok := n.At("branch"); ok && branch.Kind == strictyaml.Scalar {
		t.Branch = branch.Text
		if why := git.BadBranch(t.Branch); why != "" {
			r.problems.Add(branch, "default_target.branch: "+why, "it is the name of a branch, such as main")
		}
	}
	return t
}

func (r *gitReader) readAddress(t *Target, key string, n strictyaml.Node) {
	why, hint := "", ""
	switch key {
	case "path":
		t.Path, hint = n.Text, "it is a directory, such as . or ../notes"
		if n.Text == "" || n.Text[0] == '-' || strings.ContainsFunc(n.Text, unicode.IsControl) {
			why = shown(n.Text)
		}
	case "url":
		t.URL, why, hint = n.Text, git.BadURL(n.Text), git.AddressHint
	case "repo":
		t.Repo, why, hint = n.Text, git.BadRepo(n.Text), "it is an owner and a name: user/reports"
	}
	if why != "" {
		r.problems.Add(n, "default_target."+key+": "+why, hint)
	}
}
