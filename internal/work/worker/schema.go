package worker

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// The defaults of attachment_policy.
const (
	defaultAttachments     = 4
	defaultAttachmentBytes = 10_000_000
)

// Schema returns all keys of a worker file.
func Schema() strictyaml.Key {
	return strictyaml.Key{Type: strictyaml.Group, Instead: map[string]string{
		"tools":             "did you mean toolsets? write toolsets: [filesystem, shell]",
		"output_schema_ref": "write the schema itself: output_schema: {type: object, …}",
		"server_side_tools": "golem runs every tool itself, in the jail; leave the key out, and name tools in toolsets",
	}, Keys: []strictyaml.Key{
		{Name: "name", Type: strictyaml.Text, Default: "the file's name", Example: "reviewer",
			Doc: "The name for callers: letters, digits, `_` and `-`, at most 64. `x/worker.worker` has the name `x`."},
		{Name: "description", Type: strictyaml.Text, Example: "Reviews code and reports what it finds",
			Doc: "What it does, for its callers."},
		{Name: "mode", Type: strictyaml.Word, Words: []string{"single", "chat"}, Default: "single", Example: "chat",
			Doc: "`single` answers once; `chat` continues until the user ends it."},
		{Name: "model", Type: strictyaml.Text, Empty: true, Example: "anthropic:claude-sonnet-4-5", Valid: checkWith(isModel, "write VENDOR:MODEL, such as anthropic:claude-sonnet-4-5"),
			Doc: "The model of this worker. Without it, the worker asks the model of its caller, and the entry worker that of the project file. `--model` and `GOLEM_MODEL` set one model for all workers of a run."},
		{Name: "compatible_models", Type: strictyaml.Texts, Example: `["anthropic:*", "openai:gpt-5"]`, Valid: checkCompatible,
			Doc: "The models that it is written for. Default: any."},
		{Name: "fallback_models", Type: strictyaml.Texts, Empty: true, Example: "[openai:gpt-5-mini, ollama:qwen3]", Valid: checkWith(isModel, "write VENDOR:MODEL, such as openai:gpt-5-mini"),
			Doc: "Models that golem asks in this order if the model of this worker is overloaded or cannot be reached after retries, does not exist, or does not accept your key. For the entry worker, `--fallback` and the project file count first."},
		{Name: "budget", Type: strictyaml.Group, Example: "{turns: 10, cost: 0.20}",
			Doc: "What the worker may use in one call, together with the workers that it calls. The budgets of its callers and of the project hold, too.", Keys: []strictyaml.Key{
				{Name: "turns", Type: strictyaml.Whole, Example: "10", Valid: checkNumber(isBudget, budgetHint), Doc: "Answers of models."},
				{Name: "tokens", Type: strictyaml.Whole, Example: "50000", Valid: checkNumber(isBudget, budgetHint), Doc: "Input and output tokens."},
				{Name: "cost", Type: strictyaml.Money, Example: "0.20", Valid: checkNumber(isBudget, budgetHint), Doc: "Price in US dollars."},
			}},
		{Name: "effort", Type: strictyaml.Word, Words: policy.Efforts(), Example: "high",
			Doc: "How much the model thinks before it answers. `none` turns thinking off, if the model allows that. Default: the vendor's."},
		{Name: "temperature", Type: strictyaml.Money, Example: "0.2", Valid: checkNumber(func(v float64) bool { return v <= policy.MaxTemperature }, "it is a number from 0 to 2"),
			Doc: "How much chance is in the answers, from 0 to 2. Default: the vendor's."},
		{Name: "max_answer_tokens", Type: strictyaml.Whole, Example: "8000", Valid: checkNumber(func(v float64) bool { return v >= policy.MinAnswerTokens }, "at least 256, so that an answer is of use"),
			Doc: "The most tokens of one answer, from 256; by default 16000."},
		{Name: "show_thinking", Type: strictyaml.Bool, Default: "false", Example: "true",
			Doc: "Whether you see the thoughts of the model while it works."},
		{Name: "instructions", Type: strictyaml.Text, Example: "You review code.",
			Doc: "The prompt, in a file without a body."},
		{Name: "prompt", Type: strictyaml.Text, Example: "You review code.",
			Doc: "Another name for `instructions`."},
		{Name: "instruction_files", Type: strictyaml.Texts, Empty: true, Example: "[AGENTS.md, CLAUDE.md]", Valid: checkWith(isInstructionFile, "write the name of a file without a directory, such as AGENTS.md"),
			Doc: "Names of files with further instructions. golem reads them in the program's directory and in those above it, up to the top of the git repository. It follows a file only if you trust its content: `golem trust AGENTS.md`."},
		sandboxKey(),
		toolsetsKey(),
		hooksKey(),
		attachmentsKey(),
		{Name: "allow_empty_input", Type: strictyaml.Bool, Default: "false", Example: "true",
			Doc: "Whether a call may have no input."},
		{Name: "output_schema", Type: strictyaml.Free, Example: "{type: object, required: [verdict]}",
			Doc: "A JSON schema that its answer must fit."},
		{Name: "locked", Type: strictyaml.Bool, Default: "false", Example: "true",
			Doc: "Whether tools that create or change workers must not touch it."},
		{Name: "max_context_tokens", Type: strictyaml.Whole, Example: "100000", Valid: checkNumber(func(v float64) bool { return v > 0 }, "leave it out for no limit, or give a number above zero"),
			Doc: "The largest part of a conversation that golem sends to the model."},
		{Name: "allow_workers", Type: strictyaml.Texts, Empty: true, Example: "[summarise]",
			Doc: "llm-do's name for `toolsets.workers.allowed_workers`."},
		toolRulesKey(),
		{Name: "shell_rules", Type: strictyaml.Groups, Example: "[{pattern: git status, approval_required: false}]",
			Doc:     "llm-do's name for `toolsets.shell.rules`.",
			Instead: map[string]string{"sandbox_paths": "a command sees only the files of its worker, whatever its rule; leave the key out, and limit the files in sandbox"},
			Keys:    slices.Concat([]strictyaml.Key{patternKey(), useKey()}, verdictKeys(), exampleKeys())},
		{Name: "shell_default", Type: strictyaml.Group, Example: "{approval_required: true}",
			Doc: "llm-do's name for `toolsets.shell.default`.", Keys: verdictKeys()},
		{Name: "shell_cwd", Type: strictyaml.Text, Empty: true, Example: "./src", Valid: checkWith(isShellDir, "write a directory relative to the program's, such as ./src; that is /src for the worker"),
			Doc: "llm-do's key for the directory in which commands start, relative to the program's directory. A later command starts where the last one ended."},
	}}
}

func sandboxKey() strictyaml.Key {
	return strictyaml.Key{Name: "sandbox", Type: strictyaml.Group, Example: "{restrict: /src, readonly: true}",
		Or:  []strictyaml.Key{{Type: strictyaml.Word, Words: []string{"inherit"}}},
		Doc: "The files of its parent that it gets. `inherit` or `{}` means all of them. Without the key it is a pure function.",
		Keys: []strictyaml.Key{
			{Name: "restrict", Type: strictyaml.Text, Default: "/", Example: "/src",
				Doc: "The only directory that it sees. Paths stay the same."},
			{Name: "readonly", Type: strictyaml.Bool, Default: "false", Example: "true",
				Doc: "Whether everything that it sees is read-only."},
			{Name: "zones", Type: strictyaml.Groups, Empty: true, Example: "[{name: data, mode: ro}]",
				Doc: "The only top directories that it sees. `[]` means none: a pure function.",
				Keys: []strictyaml.Key{
					{Name: "name", Type: strictyaml.Text, Example: "data", Doc: "The directory `/<name>`."},
					{Name: "mode", Type: strictyaml.Word, Words: accessWords(), Default: "rw", Example: "ro",
						Doc: "Its access. More than the parent has is an error."},
					approvalKey("Approval levels for this directory. They override `toolsets.filesystem.approval`."),
				}},
			{Name: "paths", Type: strictyaml.Named, Example: "{portfolio: {root: ./portfolio, mode: rw}}",
				Doc: "llm-do's spelling: directories of the host, each at the place where the parent shows it.",
				Keys: []strictyaml.Key{
					{Name: "root", Type: strictyaml.Text, Example: "./portfolio",
						Doc: "The directory. A relative path starts at the program's directory."},
					{Name: "mode", Type: strictyaml.Word, Words: accessWords(), Default: "ro", Example: "rw",
						Doc: "Its access. More than the parent has is an error."},
					{Name: "suffixes", Type: strictyaml.Texts, Example: "[.md, .pdf]",
						Doc: "The only suffixes that its files may have. The project's limits apply as well."},
					{Name: "max_file_bytes", Type: strictyaml.Count, Example: "10MB",
						Doc: "The largest size of its files. The project's limits apply as well."},
				}},
			approvalKey("Another place for `toolsets.filesystem.approval`, as in the TypeScript version."),
			{Name: "network", Type: strictyaml.Bool, Example: "false",
				Or:  []strictyaml.Key{{Type: strictyaml.Texts, Empty: true}},
				Doc: "The hosts that its commands reach: `true` for every host, `false` for none, or a list such as `[api.example.com]`. A host that the parent lacks is an error. Default: as the parent with `restrict`, and no network with `zones` and `paths`."},
			{Name: "require_os_sandbox", Type: strictyaml.Bool, Words: levelWords(), Default: "false", Example: "namespaces",
				Doc: "The weakest level of the jail that its commands may run in. If the parent requires a stronger one, that applies."},
		}}
}

func toolsetsKey() strictyaml.Key {
	return strictyaml.Key{Name: "toolsets", Type: strictyaml.Group, Empty: true, Example: "[filesystem, shell]",
		Default: "`filesystem` with a sandbox that shows files, else none",
		Doc:     "The sets of tools that it gets, as a map or a list. A set that the parent lacks is an error.",
		Or:      []strictyaml.Key{{Type: strictyaml.Texts}},
		Keys: []strictyaml.Key{
			{Name: "filesystem", Type: strictyaml.Group, Empty: true, Example: "{approval: {write: preApproved}}",
				Doc:  "The tools that read and write files.",
				Keys: []strictyaml.Key{approvalKey("Approval levels for all files.")}},
			{Name: "shell", Type: strictyaml.Group, Empty: true, Example: "{default: {approval: ask}}",
				Doc: "Commands, confined to the files that the sandbox shows.",
				Keys: []strictyaml.Key{
					{Name: "rules", Type: strictyaml.Groups, Example: "[{pattern: git status, approval: preApproved}]",
						Doc: "Approval levels for commands that match a pattern.",
						Keys: append([]strictyaml.Key{patternKey(), useKey(), {Name: "approval", Type: strictyaml.Word, Words: approvalWords(),
							Example: "preApproved", Doc: "The approval level of these commands."}}, exampleKeys()...)},
					{Name: "default", Type: strictyaml.Group, Example: "{approval: blocked}",
						Doc: "The approval level for all other commands.",
						Keys: []strictyaml.Key{{Name: "approval", Type: strictyaml.Word, Words: approvalWords(), Default: "ask",
							Example: "blocked", Doc: "The approval level of all other commands."}}},
				}},
			gitKey(),
			{Name: "clearance", Type: strictyaml.Group, Empty: true, Example: "{}",
				Doc: "`api_send`: send files to the services that the project lists with `mode: both`. golem asks about every call."},
			{Name: "web", Type: strictyaml.Group, Empty: true, Example: "{}",
				Doc: "`web_fetch`: read pages from the hosts that its commands reach, and from those that the project lists under `network.fetch`."},
			{Name: "workers", Type: strictyaml.Group, Empty: true, Example: "{allowed_workers: [summarise]}",
				Doc: "Calls of other workers.",
				Keys: []strictyaml.Key{{Name: "allowed_workers", Type: strictyaml.Texts, Empty: true, Example: "[summarise, review]",
					Doc: "The workers that it may call; `\"*\"` for all, `[]` for none."}}},
			{Name: "mcp", Type: strictyaml.Named, Empty: true, Example: "{search: {command: [node, ./search.js], network: true}}",
				Doc: "Tools of MCP servers, each server under a name. golem starts a server with `command` in the jail, and connects to one with `url`. Its tools are called `NAME_TOOL`.",
				Keys: append(foreignKeys(strictyaml.Key{Example: "true", Doc: "A server only reads, so `false` is an error."}), strictyaml.Key{Name: "state", Type: strictyaml.Texts, Example: "[MEMORY_FILE_PATH=memory.jsonl]", Valid: checkWith(isState, "write NAME=path: a variable that the program asks for, and a path in its own directory, such as MEMORY_FILE_PATH=memory.jsonl"),
					Doc: "Variables with paths in a directory of its own, which golem keeps between runs, each as `NAME=path`. Every worker has its own."}, strictyaml.Key{Name: "tools", Type: strictyaml.Texts, Example: "[query]",
					Doc: "The only tools of the server that the worker gets, by the server's names. Default: all."}, remoteKeys()[0], remoteKeys()[1], remoteKeys()[2])},
			{Name: "custom", Type: strictyaml.Named, Empty: true, Example: "{word_count: {command: [./tools/word_count.py], schema: ./tools/word_count.json}}",
				Doc:     "The program's own tools, each under its name: an executable that golem runs in the jail with the arguments as JSON.",
				Instead: map[string]string{"module": "golem runs programs, not modules: write NAME: {command: [node, ./tools/name.js], schema: ./tools/name.json} for each tool"},
				Keys: append([]strictyaml.Key{{Name: "schema", Type: strictyaml.Text, Example: "./tools/word_count.json", Valid: checkInProgram,
					Doc: "The file that describes it: a JSON schema of its arguments, with a `description`."}},
					foreignKeys(strictyaml.Key{Example: "false", Doc: "Whether it only reads. Otherwise golem treats its changes like those of a command."})...)},
		}}
}

// hooksKey describes the programs that look at calls. They have the keys of a foreign program
// except approval: the user approves a hook by trusting it.
func hooksKey() strictyaml.Key {
	keys := []strictyaml.Key{
		{Name: "on", Type: strictyaml.Word, Words: HookTimes(), Example: "before_call",
			Doc: "When golem runs it: `before_call`, `after_call`, or `run_end`, when the worker that the run started with has given its last answer. Required."},
		{Name: "tools", Type: strictyaml.Texts, Example: "[shell, git_*]",
			Doc: "The only tools whose calls it looks at, by the name of a tool or of a toolset; `*` stands for any letters. `shell` is also about `service_start`. Default: all."},
	}
	for _, k := range foreignKeys(strictyaml.Key{Example: "true", Doc: "A hook only reads, so `false` is an error."}) {
		if k.Name != "approval" {
			keys = append(keys, k)
		}
	}
	return strictyaml.Key{Name: "hooks", Type: strictyaml.Named, Example: "{no-push: {on: before_call, tools: [shell], command: [./hooks/no-push.sh]}}",
		Doc: "Programs that look at the calls of this worker and of the workers that it calls, each under a name. They can refuse a call or add a note, and never approve one.", Keys: keys}
}

// foreignKeys returns the keys of a foreign program.
func foreignKeys(readonly strictyaml.Key) []strictyaml.Key {
	readonly.Name, readonly.Type, readonly.Default = "readonly", strictyaml.Bool, "true"
	return []strictyaml.Key{
		{Name: "command", Type: strictyaml.Texts, Example: "[python3, ./tools/x.py]",
			Doc: "The program and its arguments. A word that starts with `./` is a file in the program's directory, which you trust together with it. Otherwise the first word is the plain name of a program of the system."},
		{Name: "with", Type: strictyaml.Texts, Example: "[./tools/lib]", Valid: checkFile,
			Doc: "More files and directories of the program's directory that it sees. You trust them together with it."},
		{Name: "files", Type: strictyaml.Group, Empty: true, Example: "{restrict: /in}",
			Doc: "The files of the worker that it sees. Default: none.",
			Keys: []strictyaml.Key{
				{Name: "restrict", Type: strictyaml.Text, Default: "/", Example: "/in", Doc: "The only directory, with everything below it."},
				readonly,
			}},
		{Name: "network", Type: strictyaml.Bool, Default: "false", Example: "true",
			Doc: "Whether it reaches the network. The worker must have it."},
		{Name: "level", Type: strictyaml.Word, Words: levelWords(), Example: "container",
			Doc: "The weakest level of the jail that it runs at. Default: that of the worker's commands."},
		{Name: "env", Type: strictyaml.Texts, Example: "[SEARCH_API_KEY]", Valid: checkPassedOn,
			Doc: "The user's environment variables that it gets, by name. It gets no others. golem hides the value in results if the name is that of a secret, as with `KEY` or `TOKEN`."},
		{Name: "approval", Type: strictyaml.Word, Words: approvalWords(), Default: "ask", Example: "blocked",
			Doc: "The approval level of a call. For a custom tool the schema file sets it, and a worker may only be stricter."},
		{Name: "timeout", Type: strictyaml.Span, Example: "30s", Valid: checkTimeout,
			Doc: "The time limit of a call, if it is shorter than `limits.time`."},
	}
}

func gitKey() strictyaml.Key {
	return strictyaml.Key{Name: "git", Type: strictyaml.Group, Empty: true, Example: "{default_target: origin}",
		Doc: "Stage files for the user's repository, and look at it.",
		Keys: []strictyaml.Key{
			{Name: "default_target", Type: strictyaml.Text, Example: "origin",
				Doc: "The default target of staged files: a target's name, or a target.",
				Or: []strictyaml.Key{{Type: strictyaml.Group, Keys: []strictyaml.Key{
					{Name: "type", Type: strictyaml.Word, Words: []string{"local", "bare", "remote", "github"}, Example: "local",
						Doc: "The kind of repository. `local` and `bare` have a path, `remote` a URL, `github` a repository."},
					{Name: "path", Type: strictyaml.Text, Example: ".", Doc: "The directory of a `local` or `bare` repository."},
					{Name: "url", Type: strictyaml.Text, Example: "https://example.com/notes.git", Doc: "The address of a `remote`."},
					{Name: "repo", Type: strictyaml.Text, Example: "user/reports", Doc: "The owner and name of a `github` repository."},
					{Name: "branch", Type: strictyaml.Text, Default: "main", Example: "main", Doc: "The branch that results are staged for."},
				}}}},
			{Name: "auto_pull", Type: strictyaml.Bool, Default: "false", Example: "false",
				Doc: "Only `false`: golem pulls only when a call says so (`git_pull`)."},
			{Name: "credentials", Type: strictyaml.Group, Example: "{mode: explicit}",
				Doc: "The credentials for a push.",
				Keys: []strictyaml.Key{
					{Name: "mode", Type: strictyaml.Word, Words: []string{"inherit", "explicit"}, Default: "inherit", Example: "explicit",
						Doc: "`inherit` means everything that the parent has; `explicit` only the variables in `env`."},
					{Name: "env", Type: strictyaml.Group, Example: "{GIT_AUTHOR_NAME: Golem Worker}",
						Doc: "Environment variables for git. Only these are allowed, because others could run programs.", Keys: envKeys()},
				}},
		}}
}

func envKeys() []strictyaml.Key {
	var keys []strictyaml.Key
	for _, v := range variables {
		k := strictyaml.Key{Name: v.name, Type: strictyaml.Text, Example: v.example, Doc: v.doc}
		if v.credential {
			k.Empty = true
		}
		keys = append(keys, k)
	}
	return keys
}

func attachmentsKey() strictyaml.Key {
	return strictyaml.Key{Name: "attachment_policy", Type: strictyaml.Group, Example: "{max_attachments: 2, allowed_suffixes: [.pdf]}",
		Doc: "The files that callers may attach for it, and that it may attach. If caller and called worker differ, the stricter applies.",
		Keys: []strictyaml.Key{
			{Name: "max_attachments", Type: strictyaml.Whole, Default: "4", Example: "2", Doc: "The number of files in one call, or in all messages of a chat together."},
			{Name: "max_total_bytes", Type: strictyaml.Count, Default: "10000000", Example: "5MB", Doc: "The total bytes in one call, or in all messages of a chat together."},
			{Name: "allowed_suffixes", Type: strictyaml.Texts, Example: "[.pdf, .txt]", Valid: checkWith(isSuffix, suffixHint), Doc: "The only suffixes that pass, in upper or lower case."},
			{Name: "denied_suffixes", Type: strictyaml.Texts, Example: "[.exe]", Valid: checkWith(isSuffix, suffixHint), Doc: "Suffixes that never pass, in upper or lower case."},
		}}
}

func toolRulesKey() strictyaml.Key {
	return strictyaml.Key{Name: "tool_rules", Type: strictyaml.Named, Example: "{sandbox.read: {approval_required: true}}",
		Or: []strictyaml.Key{{Type: strictyaml.Groups, Keys: append([]strictyaml.Key{
			{Name: "name", Type: strictyaml.Text, Example: "sandbox.read", Doc: "The name."},
			{Name: "description", Type: strictyaml.Text, Example: "reading asks", Doc: "A note for readers."}}, ruleKeys()...)}},
		Doc:  "llm-do's approvals, as a map or as a list with `name`, by the name of a tool or of an action: `sandbox.read` (attaching files for workers), `sandbox.write`, `shell`, `worker.call`, `worker.create`.",
		Keys: ruleKeys()}
}

// ruleKeys returns the keys of a rule in tool_rules.
func ruleKeys() []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "allowed", Type: strictyaml.Bool, Default: "true", Example: "false", Doc: "`false` means `blocked`."},
		{Name: "approval_required", Type: strictyaml.Bool, Example: "true",
			Doc: "`true` means `ask`, `false` means `preApproved`. Without it the rule sets no level."},
	}
}

func approvalKey(doc string) strictyaml.Key {
	return strictyaml.Key{Name: "approval", Type: strictyaml.Group, Example: "{write: preApproved, delete: blocked}", Doc: doc,
		Keys: []strictyaml.Key{
			{Name: "read", Type: strictyaml.Word, Words: approvalWords(), Default: "preApproved", Example: "ask", Doc: "Reading, listing, searching."},
			{Name: "write", Type: strictyaml.Word, Words: approvalWords(), Default: "ask", Example: "preApproved", Doc: "Creating and changing."},
			{Name: "delete", Type: strictyaml.Word, Words: approvalWords(), Default: "ask", Example: "blocked", Doc: "Deleting."},
		}}
}

func patternKey() strictyaml.Key {
	return strictyaml.Key{Name: "pattern", Type: strictyaml.Text, Example: "git status",
		Doc: "The words that a command starts with. `*` is any one word. As the whole pattern it matches every command."}
}

func useKey() strictyaml.Key {
	return strictyaml.Key{Name: "use", Type: strictyaml.Word, Words: command.Sets(), Example: "read_only",
		Doc: "In place of a pattern: a ready-made set of commands that need no approval. `read_only` only reads, `build` builds and tests."}
}

// exampleKeys returns the keys for lines that test a rule when the file is read.
func exampleKeys() []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "match", Type: strictyaml.Texts, Example: "[git status -s]", Doc: "Lines that the rule must match. Otherwise it is an error."},
		{Name: "not_match", Type: strictyaml.Texts, Example: "[git status; rm x]", Doc: "Lines that the rule must not match. Otherwise it is an error."},
	}
}

// verdictKeys returns the keys for the two spellings of an approval level in llm-do's
// rules.
func verdictKeys() []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "approval", Type: strictyaml.Word, Words: approvalWords(), Example: "ask", Doc: "The approval level of the command."},
		{Name: "allowed", Type: strictyaml.Bool, Default: "true", Example: "false", Doc: "`false` means `blocked`."},
		{Name: "approval_required", Type: strictyaml.Bool, Example: "false", Doc: "`true` means `ask`, `false` means `preApproved`."},
	}
}

func accessWords() []string   { return []string{"ro", "rw"} }
func approvalWords() []string { return []string{"preApproved", "ask", "blocked"} }
func levelWords() []string    { return []string{"landlock", "namespaces", "container"} }
