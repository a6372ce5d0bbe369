package project

import "github.com/golem-forge/golem/internal/strictyaml"

// Schema returns all keys of the project file, as data: what is checked, what
// `golem config` prints and what docs/config.md lists come from here.
func Schema() strictyaml.Key {
	return strictyaml.Key{Type: strictyaml.Group, Keys: []strictyaml.Key{
		sandboxKey(),
		{Name: "model", Type: strictyaml.Text, Example: "anthropic:claude-sonnet-4-5",
			Doc: "The model that workers use when they name none."},
		{Name: "model_server", Type: strictyaml.Group, Example: "{url: http://localhost:8000/v1, key: TEAM_KEY}",
			Doc: "A server of your own in place of the vendor's. No key is sent to it but the one named here.", Keys: []strictyaml.Key{
				{Name: "url", Type: strictyaml.Text, Example: "http://localhost:8000/v1", Doc: "Its address: https, or http on this machine; http elsewhere where no key goes with it."},
				{Name: "key", Type: strictyaml.Text, Example: "TEAM_KEY", Doc: "The environment variable with the key for it."},
			}},
		{Name: "approval", Type: strictyaml.Group, Example: "{mode: interactive}", Doc: "How questions are answered.", Keys: []strictyaml.Key{
			{Name: "mode", Type: strictyaml.Word, Words: approvalWords(), Default: "interactive", Example: "auto_deny",
				Doc: "`interactive` asks the user, `approve_all` says yes to all that is not blocked, `auto_deny` says no; `auto`, `manual` and `tool` are the older names of approve_all, interactive and interactive."},
		}},
		{Name: "delegation", Type: strictyaml.Group, Example: "{maxDepth: 5}", Doc: "How workers call workers.", Keys: []strictyaml.Key{
			{Name: "maxDepth", Type: strictyaml.Whole, Default: "5", Example: "2",
				Doc: "How many calls may be nested, from 0 (no worker calls another) to 100."},
		}},
		{Name: "workerPaths", Type: strictyaml.Texts, Default: "[., workers]", Example: "[., workers, shared/workers]",
			Doc: "Folders of the program in which workers are looked for by name."},
		budgetKey(),
		clearanceKey(),
		limitsKey(),
		{Name: "jail", Type: strictyaml.Group, Example: "{etc: [php]}", Doc: "What commands see besides the folders of the sandbox.", Keys: []strictyaml.Key{
			{Name: "etc", Type: strictyaml.Texts, Example: "[php, maven/settings.xml]",
				Doc: "Names in /etc that commands see besides those that docs/jail.md lists. Of files that not everybody may read they see none."},
		}},
	}}
}

func approvalWords() []string {
	return []string{"interactive", "approve_all", "auto_deny", "auto", "manual", "tool"}
}

func sandboxKey() strictyaml.Key {
	keys := []strictyaml.Key{
		{Name: "root", Type: strictyaml.Text, Example: ".",
			Doc: "Mounts: the folder at `/`. Zones with `mode: sandboxed`: the folder that the zones lie in, `.sandbox` unless written."},
		{Name: "mode", Type: strictyaml.Word, Words: []string{"ro", "rw", "overlay", "sandboxed", "direct"}, Example: "ro",
			Doc: "Mounts: access to the root, `rw` unless written; with `overlay` changes stay in a layer of the session. Zones: `sandboxed` (paths lie under the root; so unless written) or `direct` (paths as they are)."},
		{Name: "readonly", Type: strictyaml.Bool, Example: "true", Doc: "Mounts: `true` is `mode: ro` for the root."},
		{Name: "suffixes", Type: strictyaml.Texts, Example: "[.md, .txt]", Doc: "Mounts: the only endings of files in the root."},
		{Name: "max_file_bytes", Type: strictyaml.Count, Example: "10MB", Doc: "Mounts: the largest file in the root."},
		{Name: "trust", Type: strictyaml.Word, Words: []string{untrusted, trusted}, Example: "untrusted",
			Doc: "Mounts: `untrusted`: what reads from the root is tainted, and asks before it reaches beyond."},
		{Name: "mounts", Type: strictyaml.Groups, Example: "[{source: ~/.npm, target: /cache, readonly: true}]",
			Doc: "Mounts: further folders.", Keys: mountKeys()},
		{Name: "zones", Type: strictyaml.Named, Example: "{data: {path: ./data, mode: ro}}",
			Doc: "Zones: folders by name; the zone `data` is at `/data`.", Keys: zoneKeys()},
		{Name: "cache", Type: strictyaml.Text, Example: "./downloads",
			Doc: "Zones: the folder at `/cache`; without zones `./cache`, and with `mode: direct` `.cache` in the workspace."},
		{Name: "workspace", Type: strictyaml.Text, Example: "./reports",
			Doc: "Zones: the folder at `/workspace`; without zones `./workspace`."},
		{Name: "paths", Type: strictyaml.Named, Example: "{portfolio: {root: ./portfolio, mode: rw}}",
			Doc: "llm-do: folders by name; the path `portfolio` is at `/portfolio`.", Keys: pathKeys()},
		approvalKey("preApproved", "ask", "ask", "Consent for the whole sandbox, a ceiling for workers."),
		{Name: "protect", Type: strictyaml.Texts, Example: `[.env, "*.key", "/ci/**"]`,
			Doc: "Further names that no tool changes, beside `.git`, `golem-forge.config.y*ml` and `*.worker`."},
		{Name: "network", Type: strictyaml.Bool, Default: "false", Example: "false", Or: []strictyaml.Key{{Type: strictyaml.Texts, Empty: true}},
			Doc: "Whether commands reach the network. `[]` is `false`; hosts by name are refused until there is egress control."},
		{Name: "require_os_sandbox", Type: strictyaml.Bool, Words: []string{"landlock", "namespaces", "container"}, Default: "false", Example: "true",
			Doc: "The least that commands are confined by; `true` is `landlock`. `false` takes the best there is, and tells."},
	}
	return strictyaml.Key{Name: "sandbox", Type: strictyaml.Group, Example: "{root: ., mode: ro}", Keys: keys,
		Doc: "What exists for workers. Without it, or without a word on folders, `cache` and `workspace` under `.sandbox`."}
}

// entryKeys are the keys that every folder of a sandbox takes.
func entryKeys(mode string) []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "mode", Type: strictyaml.Word, Words: []string{"ro", "rw", "overlay"}, Default: mode, Example: "ro",
			Doc: "Access: read-only, read-write, or `overlay`: what is changed stays in a layer of the session until you apply it."},
		{Name: "suffixes", Type: strictyaml.Texts, Example: "[.md, .pdf]", Doc: "The only endings that files here may have, in any case."},
		{Name: "max_file_bytes", Type: strictyaml.Count, Example: "10000000", Doc: "The largest file that is read or written here."},
		approvalKey("", "", "", "Consent here; what is not written is as for the whole sandbox."),
		{Name: "trust", Type: strictyaml.Word, Words: []string{untrusted, trusted}, Example: "untrusted",
			Doc: "`untrusted`: what reads from here is tainted, and asks before it reaches beyond. It holds for the folder by whatever name it is shown, and for mounts of what is in it, but for those that say `trusted`."},
	}
}

func mountKeys() []strictyaml.Key {
	return append([]strictyaml.Key{
		{Name: "source", Type: strictyaml.Text, Example: "~/.npm", Doc: "The folder on the host. Needed."},
		{Name: "target", Type: strictyaml.Text, Example: "/cache", Doc: "Where workers see it. Needed."},
		{Name: "readonly", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "`true` is `mode: ro`."},
	}, entryKeys("rw")...)
}

func zoneKeys() []strictyaml.Key {
	return append([]strictyaml.Key{
		{Name: "path", Type: strictyaml.Text, Example: "./data", Doc: "The folder on the host; with `mode: sandboxed` below the root. Needed."},
	}, entryKeys("rw")...)
}

func pathKeys() []strictyaml.Key {
	return append([]strictyaml.Key{
		{Name: "root", Type: strictyaml.Text, Example: "./portfolio", Doc: "The folder on the host. Needed."},
	}, entryKeys("ro")...)
}

func approvalKey(read, write, del, doc string) strictyaml.Key {
	words := []string{"preApproved", "ask", "blocked"}
	return strictyaml.Key{Name: "approval", Type: strictyaml.Group, Example: "{write: ask, delete: blocked}", Doc: doc, Keys: []strictyaml.Key{
		{Name: "read", Type: strictyaml.Word, Words: words, Default: read, Example: "ask", Doc: "Reading and listing files."},
		{Name: "write", Type: strictyaml.Word, Words: words, Default: write, Example: "preApproved", Doc: "Making and changing files."},
		{Name: "delete", Type: strictyaml.Word, Words: words, Default: del, Example: "blocked", Doc: "Deleting files."},
	}}
}

func budgetKey() strictyaml.Key {
	return strictyaml.Key{Name: "budget", Type: strictyaml.Group, Example: "{turns: 50, cost: 2.50}",
		Doc: "What one run may use, with all workers in it. What is not written has no limit, except `turns` and `workers`.", Keys: []strictyaml.Key{
			{Name: "turns", Type: strictyaml.Whole, Example: "50", Doc: "Answers of models; 500 where it is not written."},
			{Name: "workers", Type: strictyaml.Whole, Example: "20", Doc: "Workers that other workers start, those before `--resume` included; 200 if you leave it out."},
			{Name: "tokens", Type: strictyaml.Whole, Example: "200000", Doc: "Tokens in and out."},
			{Name: "cost", Type: strictyaml.Money, Example: "2.50", Doc: "Price in US dollars."},
			{Name: "time", Type: strictyaml.Span, Example: "30m", Doc: "Time on the clock."},
		}}
}

func clearanceKey() strictyaml.Key {
	return strictyaml.Key{Name: "clearance", Type: strictyaml.Group, Example: "{targets: {origin: {type: local, path: .}}}",
		Doc: "Where results go when the user clears them, and what they pass on the way.", Keys: []strictyaml.Key{
			{Name: "targets", Type: strictyaml.Named, Example: "{origin: {type: github, repo: you/notes}}",
				Doc: "Repositories by name. No model names a path or an address.", Keys: []strictyaml.Key{
					{Name: "type", Type: strictyaml.Word, Words: []string{"local", "bare", "remote", "github"}, Example: "remote",
						Doc: "`local` (a folder with a work tree) and `bare` have a path, `remote` has a url, `github` a repo. Needed."},
					{Name: "path", Type: strictyaml.Text, Example: "~/notes.git", Doc: "The folder of a local or bare repository."},
					{Name: "url", Type: strictyaml.Text, Example: "git@example.com:you/notes.git", Doc: "The address of a remote one: https, ssh, user@host:path or file, with no secret in it; http only on this machine; with a repo, the GitHub Enterprise that has it."},
					{Name: "repo", Type: strictyaml.Text, Example: "you/notes", Doc: "Owner and name on GitHub."},
					{Name: "branch", Type: strictyaml.Text, Default: "main", Example: "drafts", Doc: "The branch that results are staged for."},
					{Name: "hooks", Type: strictyaml.Word, Words: []string{"skip", "run"}, Default: "skip", Example: "run",
						Doc: "`run` lets a push run the hooks of a repository on this machine that is yours; one of them can reject it."},
					{Name: "at", Type: strictyaml.Text, Example: "/out",
						Doc: "Where the repository's root stands among the files that workers see: `/` with a folder there, otherwise `/workspace`."},
				}},
			endpointsKey(),
			{Name: "scanners", Type: strictyaml.Texts, Default: "[format, size, content, secrets, malware]", Example: "[format, size, secrets]",
				Doc: "What looks at results before they are cleared."},
			{Name: "allow", Type: strictyaml.Texts, Example: "[image/png, application/pdf]",
				Doc: "Kinds of binary files that are told and not held back, by their media types; `image/*` is all images."},
			{Name: "malware", Type: strictyaml.Group, Example: "{clamd: /run/clamav/clamd.ctl}", Doc: "Engines that know malware. Without one only the EICAR test file is known.", Keys: []strictyaml.Key{
				{Name: "clamd", Type: strictyaml.Text, Example: "/run/clamav/clamd.ctl", Doc: "The socket of clamd."},
				{Name: "clamscan", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "Run clamscan, in the jail."},
				{Name: "yara", Type: strictyaml.Texts, Example: "[~/rules.yar]", Doc: "Files with rules for yara, which runs in the jail."},
			}},
			{Name: "external", Type: strictyaml.Named, Example: `{words: {command: [sh, -c, "grep -n -i confidential; test $? = 1"]}}`,
				Doc: "Scanners of your own, by name. They run in the jail.", Keys: []strictyaml.Key{
					{Name: "command", Type: strictyaml.Texts, Example: "[/usr/local/bin/look, --strict]",
						Doc: "A program of the system that gets a file on its standard input. Exit code 0 is clean, 1 has a finding a line; all else holds the file back. Needed."},
				}},
			{Name: "limits", Type: strictyaml.Group, Example: "{max_files: 200, max_bytes: 20MB}", Doc: "How much may be staged at once.", Keys: []strictyaml.Key{
				{Name: "max_files", Type: strictyaml.Whole, Example: "200", Doc: "Files."},
				{Name: "max_bytes", Type: strictyaml.Count, Example: "20MB", Doc: "Bytes in all; 4 GiB where none is written."},
				{Name: "max_percent", Type: strictyaml.Whole, Example: "50", Doc: "Bytes for each hundred that were taken in: a review flags more than that."},
				{Name: "scan_bytes", Type: strictyaml.Count, Example: "64MB", Doc: "The largest file that is scanned, 32 MiB unless written: a larger one is held back."},
				{Name: "scan_time", Type: strictyaml.Span, Example: "2m", Doc: "How long one file may be scanned, a minute unless written; after that it is held back."},
			}},
		}}
}

func limitsKey() strictyaml.Key {
	return strictyaml.Key{Name: "limits", Type: strictyaml.Group, Example: "{time: 60s, memory: 2GiB}",
		Doc: "What one command may use. What is not written has the default that docs/jail.md lists.", Keys: []strictyaml.Key{
			{Name: "cpu", Type: strictyaml.Span, Example: "30s", Doc: "Processor time."},
			{Name: "memory", Type: strictyaml.Count, Example: "2GiB", Doc: "Memory."},
			{Name: "pids", Type: strictyaml.Whole, Example: "256", Doc: "Processes at once, 4194304 at most."},
			{Name: "time", Type: strictyaml.Span, Example: "60s", Doc: "Time on the clock."},
			{Name: "output", Type: strictyaml.Count, Example: "1MiB", Doc: "Output that is kept, its head and its tail."},
			{Name: "file_size", Type: strictyaml.Count, Example: "100MB", Doc: "The largest file it writes."},
		}}
}
