package project_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// eachKey calls f with every key of the schema and its parents.
func eachKey(key strictyaml.Key, path []strictyaml.Key, f func(path []strictyaml.Key)) {
	for _, k := range key.Keys {
		at := append(slices.Clip(path), k)
		f(at)
		eachKey(k, at, f)
	}
}

// writeKey returns a file with one key, called name, in its maps and lists, and the line of
// the key.
func writeKey(path []strictyaml.Key, name, value string) (yaml string, line int) {
	indent, dash := "", ""
	for i, k := range path {
		line++
		if i == len(path)-1 {
			return yaml + fmt.Sprintf("%s%s%s: %s\n", indent, dash, name, value), line
		}
		yaml += fmt.Sprintf("%s%s%s:\n", indent, dash, k.Name)
		indent += strings.Repeat(" ", len(dash)+2)
		dash = ""
		switch k.Type {
		case strictyaml.Named:
			yaml += indent + "entry:\n"
			indent += "  "
			line++
		case strictyaml.Groups:
			dash = "- "
		}
	}
	return yaml, line
}

func knownKeys(path []strictyaml.Key) []string {
	siblings := project.Schema().Keys
	if len(path) > 1 {
		siblings = path[len(path)-2].Keys
	}
	var names []string
	for _, k := range siblings {
		names = append(names, k.Name)
	}
	return names
}

// problemsAt returns the problems at a line.
func problemsAt(err error, line int) []strictyaml.Problem {
	var all strictyaml.Problems
	errors.As(err, &all)
	return slices.DeleteFunc(slices.Clone(all), func(p strictyaml.Problem) bool { return p.Place.Line != line || p.Place.Source != "p.yaml" })
}

// TestTypos changes a letter in every key of every spelling. Load finds it on its line
// and names the right key.
func TestTypos(t *testing.T) {
	w := newWorld(t)
	count := 0
	eachKey(project.Schema(), nil, func(path []strictyaml.Key) {
		key := path[len(path)-1]
		for i := range key.Name {
			for _, typo := range []string{key.Name[:i] + "q" + key.Name[i+1:], key.Name[:i] + key.Name[i+1:], key.Name[:i] + "q" + key.Name[i:]} {
				if typo == key.Name || typo == "ath" {
					continue // the letter was already q; at is as near as path
				}
				if slices.Contains(knownKeys(path), typo) {
					t.Fatalf("%s is a key too: choose another letter", typo)
				}
				count++
				yaml, line := writeKey(path, typo, key.Example)
				_, err := w.parse(yaml)
				if !slices.ContainsFunc(problemsAt(err, line), func(p strictyaml.Problem) bool {
					return strings.HasPrefix(p.What, `unknown key "`+typo+`"`) && strings.HasPrefix(p.Hint, "did you mean "+key.Name+"? ")
				}) {
					t.Errorf("%s\ngot %v", yaml, err)
				}
			}
		}
	})
	if count < 1000 {
		t.Errorf("only %d typos", count)
	}
}

// TestForms gives every key a value of the wrong form. Load finds it on its line and
// names the key.
func TestForms(t *testing.T) {
	w := newWorld(t)
	eachKey(project.Schema(), nil, func(path []strictyaml.Key) {
		key := path[len(path)-1]
		values := []string{"", "{q: [w]}", "[[w]]"}
		switch key.Type {
		case strictyaml.Group, strictyaml.Named:
			values = []string{"", "word", "[w]", "7"}
		case strictyaml.Groups, strictyaml.Texts:
			values = []string{"", "word", "{q: w}", "[[w]]", "[null]"}
		case strictyaml.Text:
		default:
			values = append(values, "w-q", "[]")
		}
		for _, value := range values {
			if key.Name == "network" && value == "[]" {
				continue // no hosts
			}
			yaml, line := writeKey(path, key.Name, value)
			_, err := w.parse(yaml)
			if !slices.ContainsFunc(problemsAt(err, line), func(p strictyaml.Problem) bool {
				return strings.Contains(p.What, key.Name) && p.Hint != ""
			}) {
				t.Errorf("%s\ngot %v", yaml, err)
			}
		}
	})
}

// TestExamples checks every example and every default of the schema against the schema.
func TestExamples(t *testing.T) {
	eachKey(project.Schema(), nil, func(path []strictyaml.Key) {
		key := path[len(path)-1]
		if key.Example == "" || !strings.HasSuffix(key.Doc, ".") {
			t.Errorf("%s has no example or no sentence", key.Name)
		}
		for _, value := range []string{key.Example, key.Default} {
			if value == "" {
				continue
			}
			n, problems := strictyaml.ParseValue("example", value)
			key.Check(n, &problems)
			if len(problems) > 0 {
				t.Errorf("%s: %s: %v", key.Name, value, problems)
			}
		}
	})
}

// counts are two files for every key of the schema that differ only in this key.
var counts = map[string][2]string{
	"fallback_models":   {`fallback_models: [a:b]`, `fallback_models: [a:c]`},
	"effort":            {`effort: low`, `effort: high`},
	"temperature":       {`temperature: 0`, `temperature: 1`},
	"max_answer_tokens": {`max_answer_tokens: 300`, `max_answer_tokens: 400`},
	"show_thinking":     {`show_thinking: false`, `show_thinking: true`},

	"sandbox.root":           {`sandbox: {root: .}`, `sandbox: {root: in}`},
	"sandbox.mode":           {`sandbox: {root: .}`, `sandbox: {root: ., mode: ro}`},
	"sandbox.readonly":       {`sandbox: {root: .}`, `sandbox: {root: ., readonly: true}`},
	"sandbox.suffixes":       {`sandbox: {root: .}`, `sandbox: {root: ., suffixes: [.md]}`},
	"sandbox.max_file_bytes": {`sandbox: {root: .}`, `sandbox: {root: ., max_file_bytes: 1}`},
	"sandbox.trust":          {`sandbox: {root: .}`, `sandbox: {root: ., trust: untrusted}`},

	"sandbox.mounts.source":          {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: .}]}`},
	"sandbox.mounts.target":          {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /b, source: in}]}`},
	"sandbox.mounts.readonly":        {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, readonly: true}]}`},
	"sandbox.mounts.mode":            {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, mode: ro}]}`},
	"sandbox.mounts.suffixes":        {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, suffixes: [.a]}]}`},
	"sandbox.mounts.max_file_bytes":  {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, max_file_bytes: 1}]}`},
	"sandbox.mounts.trust":           {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, trust: untrusted}]}`},
	"sandbox.mounts.approval.read":   {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, approval: {read: ask}}]}`},
	"sandbox.mounts.approval.write":  {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, approval: {write: blocked}}]}`},
	"sandbox.mounts.approval.delete": {`sandbox: {mounts: [{target: /a, source: in}]}`, `sandbox: {mounts: [{target: /a, source: in, approval: {delete: blocked}}]}`},

	"sandbox.zones.path":            {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: b}}}`},
	"sandbox.zones.mode":            {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, mode: ro}}}`},
	"sandbox.zones.suffixes":        {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, suffixes: [.a]}}}`},
	"sandbox.zones.max_file_bytes":  {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, max_file_bytes: 1}}}`},
	"sandbox.zones.trust":           {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, trust: untrusted}}}`},
	"sandbox.zones.approval.read":   {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, approval: {read: ask}}}}`},
	"sandbox.zones.approval.write":  {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, approval: {write: ask}}}}`},
	"sandbox.zones.approval.delete": {`sandbox: {zones: {a: {path: a}}}`, `sandbox: {zones: {a: {path: a, approval: {delete: ask}}}}`},
	"sandbox.cache":                 {``, `sandbox: {cache: c}`},
	"sandbox.workspace":             {``, `sandbox: {workspace: w}`},

	"sandbox.paths.root":            {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: b}}}`},
	"sandbox.paths.mode":            {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, mode: rw}}}`},
	"sandbox.paths.suffixes":        {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, suffixes: [.a]}}}`},
	"sandbox.paths.max_file_bytes":  {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, max_file_bytes: 1}}}`},
	"sandbox.paths.trust":           {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, trust: untrusted}}}`},
	"sandbox.paths.approval.read":   {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, approval: {read: ask}}}}`},
	"sandbox.paths.approval.write":  {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, approval: {write: ask}}}}`},
	"sandbox.paths.approval.delete": {`sandbox: {paths: {a: {root: a}}}`, `sandbox: {paths: {a: {root: a, approval: {delete: ask}}}}`},

	"sandbox.approval.read":      {``, `sandbox: {approval: {read: ask}}`},
	"sandbox.approval.write":     {``, `sandbox: {approval: {write: blocked}}`},
	"sandbox.approval.delete":    {``, `sandbox: {approval: {delete: blocked}}`},
	"sandbox.protect":            {``, `sandbox: {protect: [.env]}`},
	"sandbox.network":            {``, `sandbox: {network: true}`},
	"sandbox.require_os_sandbox": {``, `sandbox: {require_os_sandbox: true}`},
	"network.allow.host":         {`network: {allow: [{host: a.example}]}`, `network: {allow: [{host: b.example}]}`},
	"network.allow.methods":      {`network: {allow: [{host: a.example}]}`, `network: {allow: [{host: a.example, methods: [GET]}]}`},
	"network.allow.paths":        {`network: {allow: [{host: a.example}]}`, `network: {allow: [{host: a.example, paths: [/a]}]}`},
	"network.allow.git":          {`network: {allow: [{host: a.example}]}`, `network: {allow: [{host: a.example, git: read}]}`},
	"network.allow.credential":   {credentialOf("a", ""), credentialOf("b", "")},
	"credentials.from":           {credentialOf("a", ""), `credentials: {a: {from: "env:A", header: "x-key: ${value}"}}`},
	"credentials.header":         {credentialOf("a", ""), `credentials: {a: {from: keyring, header: "y-key: ${value}"}}`},
	"credentials.env":            {credentialOf("a", ""), credentialOf("a", ", env: A")},
	"network.presets":            {`network: {presets: [go]}`, `network: {presets: [npm]}`},
	"network.fetch":              {`network: {fetch: [a.example]}`, `network: {fetch: [b.example]}`},
	"network.ask":                {`network: {ask: false}`, `network: {ask: true}`},
	"network.allow_private":      {`network: {allow_private: false}`, `network: {allow_private: true}`},

	"model":                {``, `model: a:b`},
	"summary_model":        {``, `summary_model: a:b`},
	"model_server.url":     {``, `model_server: {url: "https://a/"}`},
	"model_server.api":     {"", `model_server: {api: chat}`},
	"model_server.key":     {`model_server: {url: "https://a/"}`, `model_server: {url: "https://a/", key: K}`},
	"approval.mode":        {``, `approval: {mode: auto_deny}`},
	"delegation.max_depth": {``, `delegation: {max_depth: 1}`},
	"ignored_without_git":  {``, `ignored_without_git: [Pods]`},
	"worker_paths":         {``, `worker_paths: [in]`},
	"budget.turns":         {``, `budget: {turns: 1}`},
	"budget.workers":       {``, `budget: {workers: 1}`},
	"budget.tokens":        {``, `budget: {tokens: 1}`},
	"budget.cost":          {``, `budget: {cost: 1}`},
	"budget.time":          {``, `budget: {time: 1}`},
	"limits.cpu":           {``, `limits: {cpu: 1}`},
	"limits.memory":        {``, `limits: {memory: 1KB}`},
	"limits.pids":          {``, `limits: {pids: 1}`},
	"limits.time":          {``, `limits: {time: 1}`},
	"limits.output":        {``, `limits: {output: 1KB}`},
	"limits.file_size":     {``, `limits: {file_size: 1KB}`},
	"limits.disk":          {``, `limits: {disk: 1KB}`},
	"commit.trailer":       {``, `commit: {trailer: "A: b"}`},
	"jail.etc":             {``, `jail: {etc: [php]}`},
	"jail.gpu":             {``, `jail: {gpu: true}`},

	"clearance.targets.type":     {`clearance: {targets: {a: {type: local, path: a}}}`, `clearance: {targets: {a: {type: bare, path: a}}}`},
	"clearance.targets.path":     {`clearance: {targets: {a: {type: local, path: a}}}`, `clearance: {targets: {a: {type: local, path: b}}}`},
	"clearance.targets.url":      {`clearance: {targets: {a: {type: remote, url: "a:a"}}}`, `clearance: {targets: {a: {type: remote, url: "a:b"}}}`},
	"clearance.targets.repo":     {`clearance: {targets: {a: {type: github, repo: a/a}}}`, `clearance: {targets: {a: {type: github, repo: a/b}}}`},
	"clearance.targets.hooks":    {`clearance: {targets: {a: {type: local, path: a}}}`, `clearance: {targets: {a: {type: local, path: a, hooks: run}}}`},
	"clearance.targets.branch":   {`clearance: {targets: {a: {type: local, path: a}}}`, `clearance: {targets: {a: {type: local, path: a, branch: b}}}`},
	"clearance.targets.at":       {`clearance: {targets: {a: {type: local, path: a}}}`, `clearance: {targets: {a: {type: local, path: a, at: /}}}`},
	"clearance.scanners":         {``, `clearance: {scanners: [size]}`},
	"clearance.limits.max_files": {``, `clearance: {limits: {max_files: 1}}`},
	"clearance.limits.max_bytes": {``, `clearance: {limits: {max_bytes: 1}}`},

	"clearance.limits.max_percent": {``, `clearance: {limits: {max_percent: 1}}`},
	"clearance.limits.scan_bytes":  {``, `clearance: {limits: {scan_bytes: 1}}`},
	"clearance.limits.scan_time":   {``, `clearance: {limits: {scan_time: 1}}`},
	"clearance.allow":              {``, `clearance: {allow: [image/png]}`},
	"clearance.malware.clamd":      {``, `clearance: {malware: {clamd: /run/clamd}}`},
	"clearance.malware.clamscan":   {``, `clearance: {malware: {clamscan: true}}`},
	"clearance.malware.yara":       {``, `clearance: {malware: {yara: [a.yar]}}`},
	"clearance.external.command":   {`clearance: {external: {a: {command: [a]}}}`, `clearance: {external: {a: {command: [b]}}}`},
	"intake.suffixes":              {`intake: {a: {suffixes: [.a], command: [a, "{}"]}}`, `intake: {a: {suffixes: [.b], command: [a, "{}"]}}`},
	"intake.command":               {`intake: {a: {suffixes: [.a], command: [a, "{}"]}}`, `intake: {a: {suffixes: [.a], command: [b, "{}"]}}`},
	"clearance.endpoints.url":      {`clearance: {endpoints: {a: {url: "https://a/"}}}`, `clearance: {endpoints: {a: {url: "https://b/"}}}`},
	"clearance.endpoints.mode":     {`clearance: {endpoints: {a: {url: "https://a/"}}}`, `clearance: {endpoints: {a: {url: "https://a/", mode: both}}}`},
	"clearance.endpoints.method":   {`clearance: {endpoints: {a: {url: "https://a/"}}}`, `clearance: {endpoints: {a: {url: "https://a/", method: PUT}}}`},
	"clearance.endpoints.type":     {`clearance: {endpoints: {a: {url: "https://a/"}}}`, `clearance: {endpoints: {a: {url: "https://a/", type: text/plain}}}`},
	"clearance.endpoints.headers":  {`clearance: {endpoints: {a: {url: "https://a/"}}}`, `clearance: {endpoints: {a: {url: "https://a/", headers: {X: "a env:B"}}}}`},
}

// TestEveryKeyCounts changes every key of the schema, one by one, and checks that the
// project changes. So no key is read and then ignored.
func TestEveryKeyCounts(t *testing.T) {
	w := newWorld(t)
	describe := func(yaml string) string {
		p, err := w.parse(yaml)
		if err != nil {
			t.Errorf("%s: %v", yaml, err)
			return ""
		}
		text := w.table(p) + "\n" + rules(p)
		for _, x := range p.Targets {
			text += fmt.Sprint("\n", x.Name, x.Type, string(x.Path), x.URL, x.Repo, x.Branch, x.Hooks, x.At)
		}
		for _, x := range p.Endpoints {
			text += fmt.Sprint("\n", x.Name, x.ForModels, x.URL, x.Method, x.Type, x.Headers)
		}
		if a, err := json.Marshal(p.Answers); err == nil {
			text += string(a)
		}
		return text + fmt.Sprint(p.Fallbacks) + fmt.Sprintf("\n%v %v %v %v %v %v %v %v %+v %v %+v %+v %+v", p.Protect, p.Network, p.Level, p.Model+p.SummaryModel, p.ModelServer.URL+p.ModelServer.Key+p.ModelServer.API, p.Approval, p.MaxDepth,
			p.WorkerPaths, p.Limits, p.Scanners, p.ClearanceLimits, p.Engines, p.Converters) + fmt.Sprint(p.Etc, p.GPU, p.Trailer, p.AllowPrivate, p.AskHosts, p.Credentials, p.Presets, p.Fetch, p.IgnoredDirs) + string(p.Engines.Clamd) + fmt.Sprint(len(p.Engines.Yara))
	}
	left := len(counts)
	eachKey(project.Schema(), nil, func(path []strictyaml.Key) {
		if len(path[len(path)-1].Keys) > 0 {
			return
		}
		var names []string
		for _, k := range path {
			names = append(names, k.Name)
		}
		pair, ok := counts[strings.Join(names, ".")]
		if !ok {
			t.Errorf("%s: the key has no row in counts", strings.Join(names, "."))
			return
		}
		left--
		if a, b := describe(pair[0]), describe(pair[1]); a == b {
			t.Errorf("%s makes no difference:\n%s\n%s", strings.Join(names, "."), pair[1], a)
		}
	})
	if left != 0 {
		t.Errorf("%d keys are not in the schema", left)
	}
}

// credentialOf returns a project file with a host that takes a credential.
func credentialOf(name, more string) string {
	return `{credentials: {a: {from: keyring, header: "x-key: ${value}"` + more + `}, b: {from: keyring, header: "x-key: ${value}"}}, network: {allow: [{host: a.example, credential: ` + name + `}]}}`
}
