package worker

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// A Worker holds the content of a worker file.
type Worker struct {
	Name, Description string
	Prompt            string           // as written, except line ends, which are "\n"
	File              string           // the name that Parse got
	Place             strictyaml.Place // of the name, or of the first line of the file
	Content           []byte           // the whole file, byte for byte

	Mode   string          // single | chat
	Model  strictyaml.Node // its model; its text is "" for that of its caller
	Models []string        // compatible_models; empty for any
	// Fallbacks are models to ask if the model does not answer.
	Fallbacks []strictyaml.Node
	Answers   policy.Answers // how the model answers it
	Budget    policy.Limits  // turns, tokens and cost of it and of the workers that it calls, in one call; zero is no limit
	// InstructionFiles are names of files with more instructions, which the user may trust.
	InstructionFiles []string

	Sandbox  Sandbox            // what it declares
	Toolsets []Toolset          // in the order written
	Shell    *policy.ShellLayer // approval levels of commands, nil if none are written
	ShellDir string             // the directory in which its commands start, "" for the default
	Git      Git
	Custom   []Custom // in the order written, like Servers
	Servers  []Server
	Hooks    []Hook
	Workers  policy.Set    // the workers that it may call
	Rules    []policy.Rule // approval levels as written, one layer

	Attachments      policy.Attachments
	AllowEmptyInput  bool
	Locked           bool
	OutputSchema     strictyaml.Node // Null if missing
	MaxContextTokens int64           // 0 for no limit

	calls []strictyaml.Node
}

// Calls returns the names of the workers that it may call, as written.
func (w *Worker) Calls() []strictyaml.Node { return slices.Clone(w.calls) }

// A reader turns the nodes of one file into a Worker and collects problems. It skips
// values that the schema has refused, so that no problem is reported twice.
type reader struct {
	file     string
	problems strictyaml.Problems
	w        *Worker
	checked  int // lines that tested rules so far
}

// Parse reads a worker file: YAML front matter between two lines of --- with the prompt
// as its body, or plain YAML with the prompt under instructions or prompt. Comments may
// come before the first ---. Line ends become "\n". The error is a [strictyaml.Problems]
// with everything that is wrong.
func Parse(file string, data []byte) (*Worker, error) {
	r := reader{file: file, w: &Worker{File: file, Content: data, Place: strictyaml.Place{Source: file, Line: 1, Col: 1}}}
	if page, ok := r.split(data); ok {
		top, problems := strictyaml.ParseAfter(file, []byte(page.head), page.above)
		r.problems = problems
		if top.Kind == strictyaml.Map {
			r.readKeys(top, page)
		} else {
			r.problems.Add(top, "not a worker file: "+top.Kind.String(),
				"write --- above and below the keys and the prompt under them, or the prompt as instructions: |")
		}
	}
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return r.w, nil
}

// Respellings returns the keys of a worker file that are written in another form than
// Schema writes them.
func Respellings(file string, data []byte) []strictyaml.Respelling {
	r := &reader{w: &Worker{File: file}}
	page, ok := r.split(data)
	if !ok {
		return nil
	}
	top, _ := strictyaml.ParseAfter(file, []byte(page.head), page.above)
	_, list := Schema().Respell(top)
	return list
}

func (r *reader) readKeys(top strictyaml.Node, page page) {
	if !top.Bounded(&r.problems) || !r.checkDirectoryCount(top) {
		return
	}
	top, _ = Schema().Respell(top)
	top = r.normalize(top)
	Schema().CheckAll(top, &r.problems)

	r.readName(top)
	w := r.w
	w.Prompt = r.readPrompt(top, page)
	w.Mode = "single"
	w.Attachments = policy.Attachments{Max: defaultAttachments, Bytes: defaultAttachmentBytes}
	top.Decode(map[string]any{
		"description": &w.Description, "mode": &w.Mode,
		"model": &w.Model, "compatible_models": &w.Models, "fallback_models": &w.Fallbacks,
		"effort": &w.Answers.Effort, "temperature": &w.Answers.Temperature, "max_answer_tokens": &w.Answers.MaxTokens, "show_thinking": &w.Answers.ShowThinking,
		"budget.turns": &w.Budget.Turns, "budget.tokens": &w.Budget.Tokens, "budget.cost": &w.Budget.Cost,
		"instruction_files":                 &w.InstructionFiles,
		"attachment_policy.max_attachments": &w.Attachments.Max, "attachment_policy.max_total_bytes": &w.Attachments.Bytes,
		"attachment_policy.allowed_suffixes": &w.Attachments.Allowed, "attachment_policy.denied_suffixes": &w.Attachments.Denied,
		"allow_empty_input": &w.AllowEmptyInput, "locked": &w.Locked, "output_schema": &w.OutputSchema, "max_context_tokens": &w.MaxContextTokens,
	}, nil)
	w.Attachments.Max = min(w.Attachments.Max, 1<<31-1)
	for _, suffixes := range [][]string{w.Attachments.Allowed, w.Attachments.Denied} { // they match in any case
		for i, s := range suffixes {
			suffixes[i] = strings.ToLower(s)
		}
	}
	if n := w.OutputSchema; n.Kind == strictyaml.Scalar || n.Kind == strictyaml.List {
		r.problems.Add(n, "output_schema: "+n.Kind.String(), "it is a JSON schema, written as a map")
	}

	r.readSandbox(top)
	r.readToolsets(top)
	r.readToolRules(top)
	r.checkToolsets(top)
}

// readName reads the worker's name. Callers use it as the name of a tool.
func (r *reader) readName(top strictyaml.Node) {
	n, written := top.At("name")
	if !written {
		n = strictyaml.Node{Place: r.w.Place, Kind: strictyaml.Scalar, Text: nameOf(r.file)}
	}
	if n.Kind != strictyaml.Scalar {
		return
	}
	r.w.Name, r.w.Place = n.Text, n.Place
	if !isWorkerName(n.Text) {
		hint := "letters, digits, _ and -, 64 at most"
		if !written {
			hint = "the file's name is none; write name: and " + hint
		}
		r.problems.Add(n, "name: "+shown(n.Text), hint)
	}
}

// nameOf returns the name of a worker by its file: the name of the directory for
// x/worker.worker or x/worker.yaml, otherwise that of the file.
func nameOf(file string) string {
	file = filepath.ToSlash(file)
	base := path.Base(file)
	stem := Stem(base)
	if folder := path.Base(path.Dir(file)); stem == "worker" && isWorkerName(folder) {
		return folder
	}
	return cmp.Or(stem, base)
}

// isWorkerName reports whether a text can be the name of a worker.
func isWorkerName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}
