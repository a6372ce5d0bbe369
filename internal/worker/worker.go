package worker

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/strictyaml"
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
	Schema().Check(top, &r.problems)

	r.readName(top)
	w := r.w
	w.Description = textOf(top, "description")
	w.Prompt = r.readPrompt(top, page)
	w.Mode = "single"
	if mode := textOf(top, "mode"); mode != "" {
		w.Mode = mode
	}
	w.Model = r.readModel(top)
	w.Models = r.readModels(top)
	w.Fallbacks = readFallbacks(r, top)
	w.Answers = readAnswers(r, top)
	w.Budget = readBudget(r, top)
	w.InstructionFiles = readInstructionFiles(r, top)
	w.Attachments = r.readAttachments(top)
	w.AllowEmptyInput = isTrue(top, "allow_empty_input")
	w.Locked = isTrue(top, "locked")
	w.OutputSchema = r.readOutputSchema(top)
	w.MaxContextTokens = r.readMaxContext(top)

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

// readModel reads the model that the worker names. The key may be empty, as in llm-do.
func (r *reader) readModel(top strictyaml.Node) strictyaml.Node {
	n, ok := top.At("model")
	vendor, name, whole := strings.Cut(n.Text, ":")
	if ok && n.Kind == strictyaml.Scalar && (!whole || vendor == "" || name == "") {
		r.problems.Add(n, "model: "+shown(n.Text), "write VENDOR:MODEL, such as anthropic:claude-sonnet-4-5")
	}
	return n
}

func (r *reader) readModels(top strictyaml.Node) []string {
	n, _ := top.At("compatible_models")
	for _, item := range n.Items {
		if item.Kind == strictyaml.Scalar && strings.TrimSpace(item.Text) == "" {
			r.problems.Add(item, "compatible_models: an empty name", "name a model, such as anthropic:*")
		}
	}
	return n.Texts()
}

func readFallbacks(r *reader, top strictyaml.Node) []strictyaml.Node {
	n, _ := top.At("fallback_models")
	for _, item := range n.Items {
		vendor, name, _ := strings.Cut(item.Text, ":")
		if item.Kind == strictyaml.Scalar && (vendor == "" || name == "") {
			r.problems.Add(item, "fallback_models: "+shown(item.Text), "write VENDOR:MODEL, such as openai:gpt-5-mini")
		}
	}
	return n.Items
}

func readAnswers(r *reader, top strictyaml.Node) policy.Answers {
	a := policy.Answers{Effort: textOf(top, "effort")}
	if n, ok := top.At("temperature"); ok {
		t, err := n.Number()
		if err == nil && t > policy.MaxTemperature {
			r.problems.Add(n, "temperature: "+shown(n.Text), "it is a number from 0 to 2")
		}
		a.Temperature = &t
	}
	if n, ok := top.At("max_answer_tokens"); ok {
		most, err := n.Int()
		if err == nil && most < policy.MinAnswerTokens {
			r.problems.Add(n, "max_answer_tokens: "+shown(n.Text), "at least 256, so that an answer is of use")
		}
		a.MaxTokens = most
	}
	if n, ok := top.At("show_thinking"); ok {
		show := n.Bool()
		a.ShowThinking = &show
	}
	return a
}

// readBudget reads what the worker may use. Zero would mean no limit, so it is an error.
func readBudget(r *reader, top strictyaml.Node) (l policy.Limits) {
	n, _ := top.At("budget")
	for _, f := range n.Fields {
		amount, err := f.Value.Number()
		if err != nil { // the schema has reported it
			continue
		}
		if amount <= 0 || amount > 1e12 {
			r.problems.Add(f.Value, "budget."+f.Key.Text+": "+shown(f.Value.Text), "a number above 0; leave the key out for no limit")
			continue
		}
		switch f.Key.Text {
		case "turns":
			l.Turns = int64(amount)
		case "tokens":
			l.Tokens = int64(amount)
		case "cost":
			l.Cost = amount
		}
	}
	return l
}

func readInstructionFiles(r *reader, top strictyaml.Node) []string {
	n, _ := top.At("instruction_files")
	for _, item := range n.Items {
		if item.Kind == strictyaml.Scalar && (strings.ContainsAny(item.Text, "/\\\x00") || strings.HasPrefix(item.Text, ".") || strings.TrimSpace(item.Text) == "") {
			r.problems.Add(item, "instruction_files: "+shown(item.Text), "write the name of a file without a directory, such as AGENTS.md")
		}
	}
	return n.Texts()
}

func (r *reader) readAttachments(top strictyaml.Node) policy.Attachments {
	a := policy.Attachments{Max: defaultAttachments, Bytes: defaultAttachmentBytes}
	n, _ := top.At("attachment_policy")
	if most, ok := n.At("max_attachments"); ok {
		if count, err := most.Int(); err == nil {
			a.Max = int(min(count, 1<<31-1))
		}
	}
	if most, ok := n.At("max_total_bytes"); ok {
		if bytes, err := most.Bytes(); err == nil {
			a.Bytes = bytes
		}
	}
	a.Allowed = r.readSuffixes(n, "attachment_policy.", "allowed_suffixes")
	a.Denied = r.readSuffixes(n, "attachment_policy.", "denied_suffixes")
	return a
}

// readSuffixes reads suffixes of file names and returns them in lower case. They match in any
// case.
func (r *reader) readSuffixes(n strictyaml.Node, above, key string) []string {
	list, _ := n.At(key)
	var suffixes []string
	for _, item := range list.Items {
		if item.Kind != strictyaml.Scalar {
			continue
		}
		if len(item.Text) < 2 || item.Text[0] != '.' || strings.ContainsAny(item.Text, "/\x00") {
			r.problems.Add(item, above+key+": "+shown(item.Text), "a suffix is a dot and more, such as .md or .tar.gz")
			continue
		}
		suffixes = append(suffixes, strings.ToLower(item.Text))
	}
	return suffixes
}

func (r *reader) readOutputSchema(top strictyaml.Node) strictyaml.Node {
	n, ok := top.At("output_schema")
	if ok && n.Kind != strictyaml.Map && n.Kind != strictyaml.Null {
		r.problems.Add(n, "output_schema: "+n.Kind.String(), "it is a JSON schema, written as a map")
	}
	return n
}

func (r *reader) readMaxContext(top strictyaml.Node) int64 {
	n, ok := top.At("max_context_tokens")
	if !ok {
		return 0
	}
	tokens, err := n.Int()
	if err == nil && tokens == 0 {
		r.problems.Add(n, "max_context_tokens: 0", "leave it out for no limit, or give a number above zero")
	}
	return tokens
}
