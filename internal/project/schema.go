package project

import "github.com/golem-forge/golem/internal/strictyaml"

// Schema returns all keys of the project file. The checks, the output of `golem config`
// and the tables in docs/config.md come from it.
func Schema() strictyaml.Key {
	return strictyaml.Key{Type: strictyaml.Group, Keys: []strictyaml.Key{
		sandboxKey(),
		networkKey(),
		credentialsKey(false),
		{Name: "model", Type: strictyaml.Text, Example: "anthropic:claude-sonnet-4-5",
			Doc: "The model for workers that name none."},
		{Name: "model_server", Type: strictyaml.Group, Example: "{url: http://localhost:8000/v1, key: TEAM_KEY}",
			Doc: "Your own server in place of the vendor's. Golem sends it no key except the one named here.", Keys: []strictyaml.Key{
				{Name: "url", Type: strictyaml.Text, Example: "http://localhost:8000/v1", Doc: "Its address: https, or http on this machine. Elsewhere http is allowed only without a key."},
				{Name: "key", Type: strictyaml.Text, Example: "TEAM_KEY", Doc: "The environment variable that holds its key."},
				{Name: "api", Type: strictyaml.Word, Words: []string{"chat", "responses"}, Example: "chat",
					Doc: "The API of OpenAI that golem uses for `openai:NAME`, also at the vendor's own server. Without it golem uses `responses` for models that think, such as gpt-5 and o3, and `chat` for all others."},
			}},
		{Name: "approval", Type: strictyaml.Group, Example: "{mode: interactive}", Doc: "How golem answers questions.", Keys: []strictyaml.Key{
			{Name: "mode", Type: strictyaml.Word, Words: approvalWords(), Default: "interactive", Example: "auto_deny",
				Doc: "`interactive` asks the user, `approve_all` approves everything that is not blocked, `auto_deny` declines. `auto`, `manual` and `tool` are older names of `approve_all`, `interactive` and `interactive`."},
		}},
		{Name: "delegation", Type: strictyaml.Group, Example: "{max_depth: 5}", Doc: "How workers call workers.", Keys: []strictyaml.Key{
			{Name: "max_depth", Type: strictyaml.Whole, Default: "5", Example: "2",
				Doc: "How many calls may be nested, from 0 (no worker calls another) to 100."},
		}},
		{Name: "worker_paths", Type: strictyaml.Texts, Default: "[., workers, .workers]", Example: "[., workers, shared/workers]",
			Doc: "Directories of the program where golem looks for workers by name."},
		budgetKey(),
		clearanceKey(),
		limitsKey(),
		{Name: "jail", Type: strictyaml.Group, Example: "{etc: [php]}", Doc: "What commands see besides the directories of the sandbox.", Keys: []strictyaml.Key{
			{Name: "etc", Type: strictyaml.Texts, Example: "[php, maven/settings.xml]",
				Doc: "Names in /etc that commands see besides those that docs/jail.md lists. Commands never see files that not everybody may read."},
		}},
	}}
}

func approvalWords() []string {
	return []string{"interactive", "approve_all", "auto_deny", "auto", "manual", "tool"}
}

func sandboxKey() strictyaml.Key {
	keys := []strictyaml.Key{
		{Name: "root", Type: strictyaml.Text, Example: ".",
			Doc: "Mounts: the directory at `/`. Zones with `mode: sandboxed`: the directory of the zones, by default `.sandbox`."},
		{Name: "mode", Type: strictyaml.Word, Words: []string{"ro", "rw", "overlay", "sandboxed", "direct"}, Example: "ro",
			Doc: "Mounts: access to the root, by default `rw`. With `overlay` changes stay in the session's overlay. Zones: `sandboxed` (paths lie under the root; the default) or `direct` (paths as they are)."},
		{Name: "readonly", Type: strictyaml.Bool, Example: "true", Doc: "Mounts: `true` means `mode: ro` for the root."},
		{Name: "suffixes", Type: strictyaml.Texts, Example: "[.md, .txt]", Doc: "Mounts: the only suffixes that files in the root may have."},
		{Name: "max_file_bytes", Type: strictyaml.Count, Example: "10MB", Doc: "Mounts: the largest file in the root."},
		{Name: "trust", Type: strictyaml.Word, Words: []string{untrusted, trusted}, Example: "untrusted",
			Doc: "Mounts: `untrusted` taints every worker that reads the root. A tainted worker asks before an effect beyond the overlay."},
		{Name: "mounts", Type: strictyaml.Groups, Example: "[{source: ~/.npm, target: /cache, readonly: true}]",
			Doc: "Mounts: further directories.", Keys: mountKeys()},
		{Name: "zones", Type: strictyaml.Named, Example: "{data: {path: ./data, mode: ro}}",
			Doc: "Zones: directories by name. The zone `data` is at `/data`.", Keys: zoneKeys()},
		{Name: "cache", Type: strictyaml.Text, Example: "./downloads",
			Doc: "Zones: the directory at `/cache`. Without zones it is `./cache`, and with `mode: direct` `.cache` in the workspace."},
		{Name: "workspace", Type: strictyaml.Text, Example: "./reports",
			Doc: "Zones: the directory at `/workspace`. Without zones it is `./workspace`."},
		{Name: "paths", Type: strictyaml.Named, Example: "{portfolio: {root: ./portfolio, mode: rw}}",
			Doc: "llm-do: directories by name. The path `portfolio` is at `/portfolio`.", Keys: pathKeys()},
		approvalKey("preApproved", "ask", "ask", "Approval levels for the whole sandbox. Workers may only be stricter."),
		{Name: "protect", Type: strictyaml.Texts, Example: `[.env, "*.key", "/ci/**"]`,
			Doc: "More protected paths, besides `.git`, `golem-forge.config.y*ml` and `*.worker`. No tool changes them."},
		{Name: "network", Type: strictyaml.Bool, Default: "false", Example: "false", Or: []strictyaml.Key{{Type: strictyaml.Texts, Empty: true}},
			Doc: "The hosts that commands reach: `true` for all, `false` for none, or a list such as `[api.example.com]`. `[]` means `false`. A host without a port means 80 and 443."},
		{Name: "require_os_sandbox", Type: strictyaml.Bool, Words: []string{"landlock", "namespaces", "container"}, Default: "false", Example: "true",
			Doc: "The weakest level of the jail that commands may run in. `true` means `landlock`. `false` uses the strongest level of the machine, and golem names it."},
	}
	return strictyaml.Key{Name: "sandbox", Type: strictyaml.Group, Example: "{root: ., mode: ro}", Keys: keys,
		Doc: "The files that workers see. If no directories are named, these are `cache` and `workspace` under `.sandbox`."}
}

// entryKeys returns the keys that every directory of a sandbox may have.
func entryKeys(mode string) []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "mode", Type: strictyaml.Word, Words: []string{"ro", "rw", "overlay"}, Default: mode, Example: "ro",
			Doc: "Access: read-only, read-write, or `overlay`: changes stay in the session's overlay until you apply them."},
		{Name: "suffixes", Type: strictyaml.Texts, Example: "[.md, .pdf]", Doc: "The only suffixes that files here may have, in upper or lower case."},
		{Name: "max_file_bytes", Type: strictyaml.Count, Example: "10000000", Doc: "The largest file that golem reads or writes here."},
		approvalKey("", "", "", "Approval levels here. Missing keys are as for the whole sandbox."),
		{Name: "trust", Type: strictyaml.Word, Words: []string{untrusted, trusted}, Example: "untrusted",
			Doc: "`untrusted` taints every worker that reads here. A tainted worker asks before an effect beyond the overlay. This covers the directory under all of its names and mounts of its subdirectories, except mounts with `trusted`."},
	}
}

func mountKeys() []strictyaml.Key {
	return append([]strictyaml.Key{
		{Name: "source", Type: strictyaml.Text, Example: "~/.npm", Doc: "The directory on the host. Required."},
		{Name: "target", Type: strictyaml.Text, Example: "/cache", Doc: "Where workers see it. Required."},
		{Name: "readonly", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "`true` means `mode: ro`."},
	}, entryKeys("rw")...)
}

func zoneKeys() []strictyaml.Key {
	return append([]strictyaml.Key{
		{Name: "path", Type: strictyaml.Text, Example: "./data", Doc: "The directory on the host; with `mode: sandboxed` below the root. Required."},
	}, entryKeys("rw")...)
}

func pathKeys() []strictyaml.Key {
	return append([]strictyaml.Key{
		{Name: "root", Type: strictyaml.Text, Example: "./portfolio", Doc: "The directory on the host. Required."},
	}, entryKeys("ro")...)
}

func approvalKey(read, write, del, doc string) strictyaml.Key {
	words := []string{"preApproved", "ask", "blocked"}
	return strictyaml.Key{Name: "approval", Type: strictyaml.Group, Example: "{write: ask, delete: blocked}", Doc: doc, Keys: []strictyaml.Key{
		{Name: "read", Type: strictyaml.Word, Words: words, Default: read, Example: "ask", Doc: "Reading and listing files."},
		{Name: "write", Type: strictyaml.Word, Words: words, Default: write, Example: "preApproved", Doc: "Creating and changing files."},
		{Name: "delete", Type: strictyaml.Word, Words: words, Default: del, Example: "blocked", Doc: "Deleting files."},
	}}
}

func budgetKey() strictyaml.Key {
	return strictyaml.Key{Name: "budget", Type: strictyaml.Group, Example: "{turns: 50, cost: 2.50}",
		Doc: "What one run may use, with all of its workers. Missing keys mean no limit, except `turns` and `workers`.", Keys: []strictyaml.Key{
			{Name: "turns", Type: strictyaml.Whole, Example: "50", Doc: "Answers of models, by default 500."},
			{Name: "workers", Type: strictyaml.Whole, Example: "20", Doc: "Workers that other workers start, including those before `--resume`; by default 200."},
			{Name: "tokens", Type: strictyaml.Whole, Example: "200000", Doc: "Input and output tokens."},
			{Name: "cost", Type: strictyaml.Money, Example: "2.50", Doc: "Price in US dollars."},
			{Name: "time", Type: strictyaml.Span, Example: "30m", Doc: "Elapsed time."},
		}}
}

func clearanceKey() strictyaml.Key {
	return strictyaml.Key{Name: "clearance", Type: strictyaml.Group, Example: "{targets: {origin: {type: local, path: .}}}",
		Doc: "Where results go when the user clears them, and the checks before that.", Keys: []strictyaml.Key{
			{Name: "targets", Type: strictyaml.Named, Example: "{origin: {type: github, repo: you/notes}}",
				Doc: "Repositories by name. No model names a path or an address.", Keys: []strictyaml.Key{
					{Name: "type", Type: strictyaml.Word, Words: []string{"local", "bare", "remote", "github"}, Example: "remote",
						Doc: "`local` (a directory with a work tree) and `bare` have a path, `remote` has a url, `github` a repo. Required."},
					{Name: "path", Type: strictyaml.Text, Example: "~/notes.git", Doc: "The directory of a local or bare repository."},
					{Name: "url", Type: strictyaml.Text, Example: "git@example.com:you/notes.git", Doc: "The address of a remote: https, ssh, user@host:path or file, without a secret; http only on this machine. With a repo: the address of the GitHub Enterprise server."},
					{Name: "repo", Type: strictyaml.Text, Example: "you/notes", Doc: "Owner and name on GitHub."},
					{Name: "branch", Type: strictyaml.Text, Default: "main", Example: "drafts", Doc: "The branch that results are staged for."},
					{Name: "hooks", Type: strictyaml.Word, Words: []string{"skip", "run"}, Default: "skip", Example: "run",
						Doc: "With `run`, a push runs the hooks of your own repository on this machine. A hook can reject the push."},
					{Name: "at", Type: strictyaml.Text, Example: "/out",
						Doc: "The place of the repository's root among the files that workers see: by default `/` if a directory is there, otherwise `/workspace`."},
				}},
			endpointsKey(),
			{Name: "scanners", Type: strictyaml.Texts, Default: "[format, size, content, secrets, malware]", Example: "[format, size, secrets]",
				Doc: "The scanners that check results before they are cleared."},
			{Name: "allow", Type: strictyaml.Texts, Example: "[image/png, application/pdf]",
				Doc: "Media types of binary files that golem reports but does not hold back. `image/*` means all images."},
			{Name: "malware", Type: strictyaml.Group, Example: "{clamd: /run/clamav/clamd.ctl}", Doc: "Malware engines. Without one golem knows only the EICAR test file.", Keys: []strictyaml.Key{
				{Name: "clamd", Type: strictyaml.Text, Example: "/run/clamav/clamd.ctl", Doc: "The socket of clamd."},
				{Name: "clamscan", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "Run clamscan, in the jail."},
				{Name: "yara", Type: strictyaml.Texts, Example: "[~/rules.yar]", Doc: "Files with rules for yara, which runs in the jail."},
			}},
			{Name: "external", Type: strictyaml.Named, Example: `{words: {command: [sh, -c, "grep -n -i confidential; test $? = 1"]}}`,
				Doc: "Your own scanners, by name. They run in the jail.", Keys: []strictyaml.Key{
					{Name: "command", Type: strictyaml.Texts, Example: "[/usr/local/bin/look, --strict]",
						Doc: "A program of the system that gets a file on stdin. Exit code 0 means clean, 1 means one finding per line. Anything else holds the file back. Required."},
				}},
			{Name: "limits", Type: strictyaml.Group, Example: "{max_files: 200, max_bytes: 20MB}", Doc: "How much one commit may stage.", Keys: []strictyaml.Key{
				{Name: "max_files", Type: strictyaml.Whole, Example: "200", Doc: "Files."},
				{Name: "max_bytes", Type: strictyaml.Count, Example: "20MB", Doc: "Total bytes, by default 4 GiB."},
				{Name: "max_percent", Type: strictyaml.Whole, Example: "50", Doc: "Bytes that go out for each hundred that were read. A review flags more than that."},
				{Name: "scan_bytes", Type: strictyaml.Count, Example: "64MB", Doc: "The largest file that is scanned, by default 32 MiB. Golem holds a larger one back."},
				{Name: "scan_time", Type: strictyaml.Span, Example: "2m", Doc: "How long the scan of one file may take, by default a minute. After that golem holds the file back."},
			}},
		}}
}

func limitsKey() strictyaml.Key {
	return strictyaml.Key{Name: "limits", Type: strictyaml.Group, Example: "{time: 60s, memory: 2GiB}",
		Doc: "What one command may use. Missing keys have the defaults that docs/jail.md lists.", Keys: []strictyaml.Key{
			{Name: "cpu", Type: strictyaml.Span, Example: "30s", Doc: "Processor time."},
			{Name: "memory", Type: strictyaml.Count, Example: "2GiB", Doc: "Memory."},
			{Name: "pids", Type: strictyaml.Whole, Example: "256", Doc: "Processes at once, at most 4194304."},
			{Name: "time", Type: strictyaml.Span, Example: "60s", Doc: "Elapsed time."},
			{Name: "output", Type: strictyaml.Count, Example: "1MiB", Doc: "The output that golem keeps, head and tail."},
			{Name: "file_size", Type: strictyaml.Count, Example: "100MB", Doc: "The largest file that it writes."},
		}}
}
