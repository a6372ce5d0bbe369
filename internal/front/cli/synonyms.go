package cli

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// synonyms lists, for commands of golem, the names that other programs give to the same
// thing: git, jj, docker, gh, npm, systemctl.
var synonyms = map[string]string{
	"run":                           "start up chat ask agent prompt task go compose",
	"eval":                          "evaluate evals bench benchmark case cases",
	"run --resume last":             "resume continue",
	"exec":                          "sandbox jail confine launch spawn container enter",
	"exec bash":                     "shell sh bash zsh fish",
	"intake":                        "ingest import convert download",
	"ports":                         "port expose forward tunnel",
	"mcp":                           "serve server",
	"acp":                           "editor zed jetbrains neovim emacs",
	"mcp install":                   "install setup",
	"status":                        "st info overview todo inbox waiting",
	"diff":                          "show patch compare df",
	"apply":                         "merge accept pull land add am cp copy sync ship integrate take keep",
	"apply --commits --branch NAME": "commit commits cherry-pick squash rebase",
	"discard":                       "reset clean drop rm remove delete checkout abandon cancel abort stash",
	"undo":                          "rollback revert restore unapply back",
	"review":                        "push stage publish staged",
	"approve":                       "allow yes y ok confirm grant answer authorize authorise permit",
	"approve ID --no":               "deny decline reject refuse no n",
	"approvals":                     "pending queue requests rules",
	"init":                          "new create scaffold generate template",
	"trust":                         "permissions grants policy",
	"lint":                          "validate check test vet fmt format",
	"explain":                       "why can may access",
	"config":                        "settings set get options preferences env cfg",
	"config edit":                   "edit vi nano",
	"help run":                      "login logout auth signin account model models",
	"secret":                        "key keys vault keyring keychain credential credentials token tokens password",
	"workers":                       "agents graph tree",
	"tools":                         "toolsets commands extension extensions plugins",
	"tool":                          "call invoke",
	"sessions":                      "ls list branch branches switch containers prune volume worktree",
	"ps":                            "top running background",
	"ps stop":                       "stop kill end",
	"exec -d":                       "detach nohup daemon",
	"sessions show":                 "inspect cat transcript",
	"sessions export":               "export dump save",
	"audit show":                    "log logs journal history reflog events blame trace who",
	"audit verify":                  "fsck verify",
	"doctor":                        "health diagnose support debug capabilities",
	"scan":                          "scanner secrets malware detect",
	"completion":                    "completions complete autocomplete",
	"man":                           "manual manpage manpages docs",
	"version":                       "about release update upgrade",
	"help":                          "usage",
}

// commandHints says, for commands of other programs that golem does in several ways or not at all,
// what to type instead.
var commandHints = map[string]string{
	"uninstall": "sh install.sh --remove removes golem, and so does the package manager that installed it",
	"docker":    containerHint,
	"podman":    containerHint,
	"reject":    "golem approve ID --no declines a call that waits, golem discard discards changes",
}

const containerHint = "the jail has no container engine; run it outside golem, golem ps lists what runs in golem"

// subSynonyms lists the same for subcommands. The empty name is the command above.
var subSynonyms = map[string]string{
	"":       "ls list ps status get start serve run open",
	"set":    "add create store save put",
	"remove": "rm delete del drop prune discard",
	"rm":     "remove delete del drop discard",
	"show":   "inspect view cat get log logs",
	"export": "dump save csv",
	"verify": "check fsck",
	"revoke": "rm delete remove cancel",
	"accept": "approve add",
}

// flagSynonyms lists, for flags of other programs, the flag of golem that means the same.
var flagSynonyms = map[string]string{
	"force": "overwrite", "f": "overwrite", "interactive": "patch", "i": "patch", "n": "dry-run", "dry": "dry-run", "dir": "program", "cwd": "program", "directory": "program",
	"network": "net", "volume": "mount", "v": "mount", "bind": "mount", "continue": "resume", "m": "model", "session-id": "session", "cmd": "command", "c": "command", "force-yes": "yes", "assume-yes": "yes",
	"port": "listen", "p": "listen", "addr": "listen", "address": "listen", "bind-address": "listen",
}

// flagHints says, for flags that a command does not need, what to type instead.
var flagHints = map[string]string{
	"exec --no-net": noNetHint, "exec --no-network": noNetHint, "exec --offline": noNetHint,
	"exec --rw": mountHint, "exec --ro": mountHint, "exec --read": mountHint, "exec --write": mountHint, "exec --allow-read": mountHint, "exec --allow-write": mountHint,
	"exec -i": terminalHint, "exec -t": terminalHint, "exec --tty": terminalHint,
	"audit --since": "type golem audit show --since 2h, or golem audit report --since 2h",
	"audit --until": "type golem audit report --until 2h",
	"exec --rm":     "golem removes a session that changed nothing by itself; golem discard removes the changes of the others",
	"exec -e":       "--env NAME passes a variable on, --env NAME=value sets one",
	"exec -w":       "the command begins in your current directory; cd there first, or --root DIR shows DIR in place of this one",
	"exec -p":       "--publish PORT publishes a port, --profile NAME chooses a profile",
	"exec -y":       applyHint, "exec --yes": applyHint,
	"exec --sandbox": "golem exec always keeps the changes in a session; golem run has --sandbox",
	"exec --budget":  budgetHint, "run --budget": budgetHint, "run --max-cost": budgetHint,
	"run --max-turns": "--set budget.turns=3 limits how often golem asks the model",
	"run -f":          "--file FILE reads the input from a file, --attach FILE gives the worker one",
	"run -p":          inputHint, "run --prompt": inputHint, "run --message": inputHint, "run --print": inputHint,
	"run --worker":  "--entry NAME chooses the worker that begins",
	"diff --staged": diffHint, "diff --cached": diffHint, "diff -u": diffHint, "diff --name-status": "--stat lists the changes with their kind, --name-only only their names",
	"undo --all":     "each golem undo undoes one more change; golem undo --list lists them",
	"mcp --port":     "golem mcp speaks on standard input and output; --http 127.0.0.1:8137 serves HTTP",
	"desk --open":    "golem desk opens the browser by itself; --no-open prevents it",
	"status --watch": watchHint, "status -w": watchHint,
	"sessions --all":  "--last 0 lists all sessions of this directory, golem status --all what waits elsewhere",
	"shell --cmd":     "--command 'LINE' is the command",
	"exec --timeout":  "golem sets no time limit for a command; golem exec timeout 60 CMD ends it after 60 seconds",
	"trust --no":      "golem trust shows the files and asks; files that you do not trust have no effect",
	"approve --yes":   "golem approve ID is the approval; without a terminal golem does not show the call first",
	"approvals --hub": "golem approve --hub shows the calls that wait at the hub, and asks about them",
}

// valueHints says, for flags without a value, which value to type.
var valueHints = map[string]string{
	"resume":  "golem run --resume last continues the last run, --resume ID that of a session; golem sessions lists them",
	"session": "--session last is the session that was used last, --session ID another one; golem sessions lists them",
	"model":   "--model anthropic:NAME, openai:NAME, ollama:NAME or scripted:FILE",
	"branch":  "--branch NAME names a new branch",
	"hunks":   hunksHint,
	"sandbox": "--sandbox memory keeps nothing, --sandbox DIR keeps everything in DIR",
	"net":     "--net on, --net off, --net HOST,… or --net +HOST",
}

const hunksHint = "--hunks PATH:1,3 names hunks of a file; golem diff PATH numbers them"

const mountHint = "--mount SRC:/DST:ro shows another directory read-only, --mount SRC:/DST:rw lets the command write there, --root DIR shows DIR in place of this one"

const (
	terminalHint = "a program gets your terminal by itself; golem exec bash"
	applyHint    = "--apply yes applies the changes at the end without a question"
	budgetHint   = "--set budget.cost=5 limits the cost in dollars, --set budget.tokens=100000 the tokens"
	inputHint    = "the input is the argument: golem run \"what to do\""
	diffHint     = "golem diff compares a session with your directory; golem diff PATH shows one file, --stat only the list"
	watchHint    = "golem status -i shows what waits and lets you decide, golem desk does it in a browser"
)

const noNetHint = "the network is off unless you pass --net on or --net HOST"

// agentPrograms are programs that people run in the jail.
const agentPrograms = "claude codex gemini opencode qwen pi crush aider goose cursor-agent copilot python python3 node npm npx make cargo go git vim"

// sameMeaning returns the command of golem that does what a command of another program
// does, or "".
func sameMeaning(name string) string {
	name = strings.ToLower(strings.TrimLeft(name, "-"))
	for command, words := range synonyms {
		for word := range strings.FieldsSeq(words) {
			if word == name {
				return command
			}
		}
	}
	for program := range strings.FieldsSeq(agentPrograms) {
		if program == name {
			return "exec " + program
		}
	}
	return ""
}

// nearMeaning returns the command whose synonym is spelled most like a name, or "".
func nearMeaning(name string) string {
	var words []string
	for _, list := range synonyms {
		words = append(words, strings.Fields(list)...)
	}
	slices.Sort(words) // the order of a map changes
	if near := sandbox.Nearest(name, words); len(near) > 0 && len(name) > 3 {
		return sameMeaning(near[0])
	}
	return ""
}
