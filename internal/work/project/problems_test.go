package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// problems are mistakes with all of the reported problems, and no others. A line that
// ends in … continues in the words of package strictyaml.
var problems = []struct{ yaml, want string }{
	// form
	{`sandbox: {zone: {}}`, `p.yaml:1:11: unknown key "zone" in sandbox; did you mean zones?…`},
	{`modle: x`, `p.yaml:1:1: unknown key "modle"; did you mean model?…`},
	{`[a]`, `p.yaml:1:1: a list; a project file is a map of sandbox, network, credentials, model, summary_model, fallback_models, effort, temperature, max_answer_tokens, show_thinking, model_server, approval, delegation, ignored_without_git, worker_paths, budget, intake, clearance, commit, limits, jail`},
	{`just a text`, `p.yaml:1:1: a single value; a project file is a map of sandbox, network, credentials, model, summary_model, fallback_models, effort, temperature, max_answer_tokens, show_thinking, model_server, approval, delegation, ignored_without_git, worker_paths, budget, intake, clearance, commit, limits, jail`},
	{`sandbox:`, `p.yaml:1:9: sandbox: nothing; it is …`},
	{`sandbox: {zones: null}`, `p.yaml:1:18: sandbox.zones: nothing; it is …`},
	{`sandbox: {zones: {}}`, `p.yaml:1:18: sandbox.zones: an empty map;…`},
	{`sandbox: {zones: []}`, `p.yaml:1:18: sandbox.zones: a list; it is …`},
	{`sandbox: {mounts: []}`, `p.yaml:1:19: sandbox.mounts: an empty list;…`},
	{`sandbox: {protect: []}`, `p.yaml:1:20: sandbox.protect: an empty list;…`},
	{`workerPaths: []`, `p.yaml:1:14: worker_paths: an empty list;…`},
	{`clearance: {scanners: []}`, `p.yaml:1:23: clearance.scanners: an empty list;…`},
	{`clearance: {targets: {}}`, `p.yaml:1:22: clearance.targets: an empty map;…`},
	{`sandbox: {root: ., suffixes: []}`, `p.yaml:1:30: sandbox.suffixes: an empty list;…`},
	{`sandbox: {root: ., mode: RW}`, `p.yaml:1:26: sandbox.mode: RW; it is …`},
	{`sandbox: {root: ., mode: yes}`, `p.yaml:1:26: sandbox.mode: yes; it is …`},
	{`sandbox: {root: ., readonly: "false"}`, `p.yaml:1:30: sandbox.readonly: "false"; it is …`},
	{`sandbox: {root: ., readonly: no}`, `p.yaml:1:30: sandbox.readonly: no; it is …`},
	{`sandbox: {zones: {data: {path: d, mode: sandboxed}}}`, `p.yaml:1:41: sandbox.zones.data.mode: sandboxed; it is …`},
	{`sandbox: {zones: {data: {path: d, approval: {write: always}}}}`, `p.yaml:1:53: sandbox.zones.data.approval.write: always; it is …`},
	{`sandbox: {trust: maybe, root: .}`, `p.yaml:1:18: sandbox.trust: maybe; it is …`},
	{`sandbox: {require_os_sandbox: seatbelt}`, `p.yaml:1:31: sandbox.require_os_sandbox: seatbelt; it is …`},

	// two spellings
	{"sandbox:\n  zones: {a: {path: a}}\n  paths: {b: {root: b}}", `p.yaml:3:3: sandbox.paths is the llm-do spelling, sandbox.zones (p.yaml:2) the zone spelling; keep one of the two spellings`},
	{"sandbox:\n  mounts: [{source: ., target: /a}]\n  cache: c", `p.yaml:3:3: sandbox.cache is the zone spelling, sandbox.mounts (p.yaml:2) the mount spelling; keep one of the two spellings`},
	{"sandbox:\n  mode: direct\n  readonly: true", `p.yaml:3:3: sandbox.readonly is the mount spelling, sandbox.mode: direct (p.yaml:2) the zone spelling; keep one of the two spellings`},
	{"sandbox:\n  workspace: w\n  mode: ro", `p.yaml:3:3: sandbox.mode: ro is the mount spelling, sandbox.workspace (p.yaml:2) the zone spelling; keep one of the two spellings`},
	{"sandbox:\n  root: .\n  paths: {b: {root: b}}", `p.yaml:2:3: sandbox.root is not of the llm-do spelling, as sandbox.paths (p.yaml:3) is; each path has a root of its own; keep one of the two spellings`},
	{"sandbox:\n  mode: ro\n  zones: {a: {path: a}}\n  paths: {b: {root: b}}", `
		p.yaml:3:3: sandbox.zones is the zone spelling, sandbox.mode: ro (p.yaml:2) the mount spelling; keep one of the two spellings
		p.yaml:4:3: sandbox.paths is the llm-do spelling, sandbox.mode: ro (p.yaml:2) the mount spelling; keep one of the two spellings`},
	{"sandbox: {mode: direct, root: .sandbox}", `p.yaml:1:25: sandbox.root has no meaning with sandbox.mode: direct (p.yaml:1); direct takes paths as they are; remove one of the two`},
	{"sandbox: {mode: ro}", `p.yaml:1:11: sandbox.mode: ro is about the root, and there is none; write root: . beside it, or put it on a mount`},
	{"sandbox: {suffixes: [.md], mounts: [{source: ., target: /a}]}", `p.yaml:1:11: sandbox.suffixes is about the root, and there is none; write root: . beside it, or put it on a mount`},

	// modes
	{`sandbox: {root: ., mode: rw, readonly: true}`, `p.yaml:1:26: sandbox.mode: rw contradicts readonly: true (p.yaml:1); keep one of the two`},
	{`sandbox: {root: ., mode: ro, readonly: false}`, `p.yaml:1:26: sandbox.mode: ro contradicts readonly: false (p.yaml:1); keep one of the two`},

	// entries
	{`sandbox: {mounts: [{source: in}]}`, `p.yaml:1:20: sandbox.mounts[0]: a mount has a source and a target; write {source: ./in, target: /in}`},
	{`sandbox: {mounts: [{target: /in}]}`, `p.yaml:1:20: sandbox.mounts[0]: a mount has a source and a target; write {source: ./in, target: /in}`},
	{`sandbox: {zones: {data: {mode: ro}}}`, `p.yaml:1:19: sandbox.zones.data has no path; name its directory, such as path: ./data`},
	{`sandbox: {zones: {data: }}`, `p.yaml:1:19: sandbox.zones.data has no path; name its directory, such as path: ./data`},
	{`sandbox: {paths: {data: {mode: ro}}}`, `p.yaml:1:19: sandbox.paths.data has no root; name its directory, such as root: ./data`},
	{`sandbox: {zones: {a/b: {path: a}}}`, `p.yaml:1:19: sandbox.zones.a/b: a name has letters, digits and _, and after the first character also - and .; it would stand at /a/b; choose another name`},
	{`sandbox: {zones: {..: {path: a}}}`, `p.yaml:1:19: sandbox.zones...: a name has letters, digits and _, and after the first character also - and .; it would stand at /..; choose another name`},
	{`sandbox: {zones: {"": {path: a}}}`, `p.yaml:1:19: sandbox.zones.: a name has 1 to 64 bytes; it would stand at /; choose another name`},
	{`sandbox: {root: ., suffixes: [md, "*.md", ., .a/b]}`, `
		p.yaml:1:31: sandbox.suffixes: md is no suffix; a suffix starts with a dot, such as .md
		p.yaml:1:35: sandbox.suffixes: *.md is no suffix; a suffix starts with a dot, such as .md
		p.yaml:1:43: sandbox.suffixes: . is no suffix; a suffix starts with a dot, such as .md
		p.yaml:1:46: sandbox.suffixes: .a/b is no suffix; a suffix starts with a dot, such as .md`},
	{`sandbox: {protect: ["[", /]}`, `
		p.yaml:1:21: sandbox.protect: [ is not a pattern; .env, *.key and /ci/** are
		p.yaml:1:26: sandbox.protect: / is not a pattern; .env, *.key and /ci/** are`},

	// targets
	{"sandbox:\n  root: .\n  mounts:\n    - {source: in, target: /}", `p.yaml:4:7: sandbox.mounts[0]: two mounts at /, the other is at p.yaml:2; give each a target of its own`},
	{"sandbox:\n  mounts:\n    - {source: in, target: /a}\n    - {source: out, target: /a/}", `p.yaml:4:7: sandbox.mounts[1]: two mounts at /a, the other is at p.yaml:3; give each a target of its own`},
	{"sandbox:\n  cache: c\n  zones:\n    cache: {path: d}", `p.yaml:4:5: sandbox.zones.cache: two mounts at /cache, the other is at p.yaml:2; give each a target of its own`},
	{`sandbox: {mounts: [{source: in, target: in}]}`, `p.yaml:1:41: sandbox.mounts[0].target: in does not start with /; a target is a path of its own, such as /cache`},
	{`sandbox: {mounts: [{source: in, target: /a/../b}]}`, `p.yaml:1:41: sandbox.mounts[0].target: /a/../b has a .. in it; a target is a path of its own, such as /cache`},
	{`sandbox: {mounts: [{source: in, target: /.golem-tmp-x}]}`, `p.yaml:1:41: sandbox.mounts[0].target: /.golem-tmp-x is not a usable name; a target is a path of its own, such as /cache`},
	{`sandbox: {mounts: [{source: in, target: /work/x}]}`, `p.yaml:1:41: sandbox.mounts[0].target: /work/x is in /work, which commands have already; a target is a path of its own, such as /cache`},
	{`sandbox: {zones: {tmp: {path: t}}}`, `p.yaml:1:19: sandbox.zones.tmp is in /tmp, which commands have already; it would stand at /tmp; choose another name`},
	{`sandbox: {paths: {usr: {root: t}}}`, `p.yaml:1:19: sandbox.paths.usr is in /usr, which commands have already; it would stand at /usr; choose another name`},

	// directories
	{`sandbox: {root: ""}`, `p.yaml:1:17: sandbox.root: an empty path; . is the program's directory`},
	{`sandbox: {root: ../nowhere}`, `p.yaml:1:17: sandbox.root: ../nowhere does not exist; outside the program a directory must exist; create it, or name another`},
	{`sandbox: {root: ~/afile}`, `p.yaml:1:17: sandbox.root: ~/afile is not a directory; golem mounts only directories`},
	{`sandbox: {root: afile}`, `p.yaml:1:17: sandbox.root: afile is not a directory, or not in one; there is a file; name a directory`},
	{`sandbox: {root: afile/deep}`, `p.yaml:1:17: sandbox.root: afile/deep is not a directory, or not in one; there is a file; name a directory`},
	{`sandbox: {root: link}`, `p.yaml:1:17: sandbox.root: link is reached by a symlink; name the directory that the symlink points to`},
	{`sandbox: {mode: direct, zones: {a: {path: away/deep}}}`, `p.yaml:1:43: sandbox.zones.a.path: away/deep is reached by a symlink; name the directory that the symlink points to`},
	{`sandbox: {root: $HOME/x}`, `p.yaml:1:17: sandbox.root: $HOME/x starts with a variable; golem does not expand variables; write ~/… or the whole path`},
	{`sandbox: {workspace: $HOME}`, `p.yaml:1:22: sandbox.workspace: $HOME starts with a variable; golem does not expand variables; write ~/… or the whole path`},
	{`sandbox: {root: ~other/x}`, `p.yaml:1:17: sandbox.root: ~other is not expanded; ~/… is your home; write the whole path for another's, or ./~other`},
	{`sandbox: {root: ~}`, `p.yaml:1:17: sandbox.root: nothing; it is …`},
	{`sandbox: {mounts: [{source: ` + strings.Repeat("x", 256) + `, target: /a}]}`, `p.yaml:1:29: sandbox.mounts[0].source: ` + strings.Repeat("x", 56) + "…" + strings.Repeat("x", 28) + ` is too long; a path has at most 4096 bytes, a part of it 255`},
	{`sandbox: {root: "a\0b"}`, `p.yaml:1:17: a control character in "a\x00b"; write it without`},
	{`sandbox: {root: /}`, `p.yaml:1:17: sandbox.root: / is the whole host; golem shows agents single directories; cd into a project directory, or name one: golem exec --root DIR, golem run ./DIR, or in the project file`},
	{`sandbox: {zones: {a: {path: ../in}}}`, `p.yaml:1:29: sandbox.zones.a.path: ../in does not lie under sandbox.root; with mode: sandboxed all zones do; write a path relative to it, or mode: direct for paths as they are`},
	{`sandbox: {zones: {a: {path: /etc}}}`, `p.yaml:1:29: sandbox.zones.a.path: /etc does not lie under sandbox.root; with mode: sandboxed all zones do; write a path relative to it, or mode: direct for paths as they are`},
	{`sandbox: {zones: {a: {path: ~/npm}}}`, `p.yaml:1:29: sandbox.zones.a.path: ~/npm does not lie under sandbox.root; with mode: sandboxed all zones do; write a path relative to it, or mode: direct for paths as they are`},
	{`sandbox: {root: ~/reports, zones: {a: {path: missing}}}`, `p.yaml:1:46: sandbox.zones.a.path: missing does not exist; outside the program a directory must exist; create it, or name another`},

	// the network
	{`sandbox: {network: [example.com/x]}`, `p.yaml:1:21: sandbox.network: example.com/x: not a host; write a name such as example.com, …`},
	{`sandbox: {network: ["example.com:99999"]}`, `p.yaml:1:21: sandbox.network: example.com:99999: not a port; write a number from 1 to 65535`},
	{`{sandbox: {network: [a.com]}, network: {allow: [b.com]}}`, `p.yaml:1:21: sandbox.network beside network; keep one of the two: network has all keys, and sandbox.network is its short form`},
	{`network: {allow: [{host: a.com, port: 1}, [b.com]]}`, `
		p.yaml:1:33: unknown key "port" in network.allow; did you mean host? known here: host, methods, paths, git, credential
		p.yaml:1:43: network.allow: a list in the list; each is a text, which is the host, or a map of host, methods, paths, git, credential`},
	{`network: {allow: [{}, {host: "*"}]}`, `
		p.yaml:1:19: network.allow: no host; write host: NAME, such as host: api.example.com
		p.yaml:1:30: network.allow.host: *: not a host; write a name such as example.com, …`},
	{`network: {presets: [go, cargo]}`, `p.yaml:1:25: network.presets: no preset cargo; there are debian, go, npm, pypi`},
	{`network: {allow: [{host: a.com, credential: x}]}`, `p.yaml:1:45: network.allow.credential: no credential "x"; define it under credentials, in this file or in your own configuration`},
	{`credentials: {a: {from: keyring}, b: {header: "x-key: ${value}"}, ../c: {from: keyring, header: "x-key: ${value}"}}`, `
		p.yaml:1:15: credentials.a has no header; write one such as header: "Authorization: Bearer ${value}"
		p.yaml:1:35: credentials.b has no source; write from: env:NAME or from: keyring
		p.yaml:1:67: credentials.../c: not a name; a name has letters, digits, ., _ and -, such as github`},
	{`credentials: {a: {from: keyring, ttl: 10m, header: "x-key: ${value}"}}`, `p.yaml:1:34: unknown key "ttl" in credentials.a; only your own configuration has it, with command: golem config edit --user`},
	{`credentials: {a: {from: my-secret, header: "x-key: ${value}", env: 1A}}`, `
		p.yaml:1:25: credentials.a.from: no source; write env:NAME for an environment variable, or keyring for a secret that golem secret set stores; the value itself is not written down
		p.yaml:1:68: credentials.a.env: not a name of a variable; write a name such as GITHUB_TOKEN`},
	{`credentials: {a: {from: keyring, header: "x-key: my-secret"}}`, `p.yaml:1:42: credentials.a.header: it has no ${value}, or more than one; …`},
	{`credentials: {a: {from: keyring, header: "x-key: ${value} ${HOME}"}}`, `p.yaml:1:42: credentials.a.header: a $ that is neither ${value} nor ${basic:USER}; …`},
	{`credentials: {a: {from: keyring, header: "Host: ${value}"}}`, `p.yaml:1:42: credentials.a.header: Host is not for you to set; …`},
	{`credentials: {a: {from: keyring, header: "${value}"}}`, `p.yaml:1:42: credentials.a.header: no name of a header before a colon; …`},
	{`{credentials: {a: {from: env:OPENAI_API_KEY, header: "x-key: ${value}"}}, network: {allow: [{host: "*.com", credential: a}]}}`, `p.yaml:1:121: network.allow.credential: $OPENAI_API_KEY does not go to *.com; golem sends a key of openai only to *.openai.com, chatgpt.com; for another host, …`},
	{`network: {allow: [{host: a.com, methods: [get]}, {host: b.com, paths: [x]}, {host: c.com, git: write}]}`, `p.yaml:1:96: network.allow.git: write; it is …`},
	{`network: {allow: [{host: a.com, methods: [get]}, {host: b.com, paths: [x]}]}`, `
		p.yaml:1:19: network.allow: get: not a method; write GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
		p.yaml:1:50: network.allow: x: not a pattern of paths; write a path such as …`},
	{`network: {allow: }`, `p.yaml:1:18: network.allow: nothing; it is a list of hosts, and [] is no host`},
	{`sandbox: {network: [example.com, "*"]}`, `p.yaml:1:20: sandbox.network: * is no host; network: true is an open network, false none`},
	{`sandbox: {network: example.com}`, `p.yaml:1:20: sandbox.network: example.com; it is …`},

	// numbers
	{`delegation: {maxDepth: -1}`, `p.yaml:1:24: delegation.max_depth: -1; it is …`},
	{`delegation: {maxDepth: 2.0}`, `p.yaml:1:24: delegation.max_depth: 2.0; it is …`},
	{`delegation: {maxDepth: 1e9}`, `p.yaml:1:24: delegation.max_depth: 1e9; it is …`},
	{`delegation: {maxDepth: "5"}`, `p.yaml:1:24: delegation.max_depth: "5"; it is …`},
	{`delegation: {maxDepth: 1000000000}`, `p.yaml:1:24: delegation.max_depth: 1000000000; at most 100`},
	{`delegation: {maxDepth: 99999999999999999999}`, `p.yaml:1:24: delegation.max_depth: 99999999999999999999; it is …`},
	{`budget: {workers: 0}`, `p.yaml:1:19: budget.workers: 0; 0 would be no limit; write a number; without the key the default applies`},
	{`budget: {workers: 1000000001}`, `p.yaml:1:19: budget.workers: 1000000001; at most 1000000000`},
	{`budget: {turns: 0, tokens: 0, cost: 0, time: 0}`, `
		p.yaml:1:17: budget.turns: 0; 0 would be no limit; write a number; without the key the default applies
		p.yaml:1:28: budget.tokens: 0; 0 would be no limit; leave the key out for none
		p.yaml:1:37: budget.cost: 0; 0 would be no limit; leave the key out for none
		p.yaml:1:46: budget.time: 0; 0 would be no limit; leave the key out for none`},
	{`budget: {turns: 1000000001, tokens: 1000000000001, cost: 1e7, time: 10000h}`, `
		p.yaml:1:17: budget.turns: 1000000001; at most 1000000000
		p.yaml:1:37: budget.tokens: 1000000000001; at most 1000000000000
		p.yaml:1:58: budget.cost: 1e7; at most 1000000
		p.yaml:1:69: budget.time: 10000h; at most 8784h`},
	{`budget: {cost: -1, time: -5s, tokens: nan}`, `
		p.yaml:1:16: budget.cost: -1; it is …
		p.yaml:1:26: budget.time: -5s; it is …
		p.yaml:1:39: budget.tokens: nan; it is …`},
	{`budget: {cost: .nan, time: soon}`, `
		p.yaml:1:16: budget.cost: .nan; it is …
		p.yaml:1:28: budget.time: soon; it is …`},
	{`jail: {etc: [php, ../root, "p*", passwd]}`, `
		p.yaml:1:19: jail.etc: ../root cannot be shown; it is a file or directory of /etc, such as php or maven/settings.xml
		p.yaml:1:28: jail.etc: p* cannot be shown; write the name in full, without * or ?
		p.yaml:1:34: jail.etc: passwd cannot be shown; commands have an /etc/passwd that golem writes`},
	{`limits: {cpu: 0s, memory: 0, pids: 0, time: 0.0000000001, output: 0KB, file_size: 0}`, `
		p.yaml:1:15: limits.cpu: 0s; 0 would be no limit; leave the key out for the default; a command always has a limit
		p.yaml:1:27: limits.memory: 0; 0 would be no limit; leave the key out for the default; a command always has a limit
		p.yaml:1:36: limits.pids: 0; 0 would be no limit; leave the key out for the default; a command always has a limit
		p.yaml:1:45: limits.time: 0.0000000001; 0 would be no limit; leave the key out for the default; a command always has a limit
		p.yaml:1:67: limits.output: 0KB; 0 would be no limit; leave the key out for the default; a command always has a limit
		p.yaml:1:83: limits.file_size: 0; 0 would be no limit; leave the key out for the default; a command always has a limit`},
	{`limits: {memory: 4, disk: 999, output: 1000, file_size: 4B}`, `
		p.yaml:1:18: limits.memory: 4; that is 4 bytes; write a unit, such as 4MB or 4GiB
		p.yaml:1:27: limits.disk: 999; that is 999 bytes; write a unit, such as 999MB or 999GiB`},
	{`limits: {memory: 9000000GB, pids: 4194305, output: -5, cpu: 99999999999}`, `
		p.yaml:1:18: limits.memory: 9000000GB; at most 1125899906842624
		p.yaml:1:35: limits.pids: 4194305; at most 4194304
		p.yaml:1:52: limits.output: -5; it is …
		p.yaml:1:61: limits.cpu: 99999999999; it is …`},
	{`sandbox: {zones: {a: {path: a, max_file_bytes: 0}}}`, `p.yaml:1:48: sandbox.zones.a.max_file_bytes: 0; 0 would be no limit; leave the key out for none`},
	{`clearance: {allow: [png], malware: {clamscan: maybe}, external: {format: {command: [a]}, b: {command: [./b]}, c: {}}}`, `
		p.yaml:1:21: clearance.allow: png is no media type; image/png and image/* are
		p.yaml:1:47: clearance.malware.clamscan: maybe; it is true or false
		p.yaml:1:66: clearance.external.format: not a name for a scanner; choose another name, such as words
		p.yaml:1:104: clearance.external.b.command: ./b is no program of the system; name one without a path, or by its path below /usr
		p.yaml:1:111: clearance.external.c has no command; write command: with the program and its arguments`},
	{`intake: {a: {}, "b c": {suffixes: [pdf, ./x], command: [./b, "{}"]}, d: {suffixes: [.d], command: [cat, document]}}`, `
		p.yaml:1:10: intake.a has no command; write command: with the program and its arguments, and {} for the document
		p.yaml:1:10: intake.a has no suffixes; write suffixes: with those of the documents, such as [.pdf]
		p.yaml:1:17: intake.b c: …
		p.yaml:1:36: intake.b c.suffixes: pdf is no suffix; write one with its dot, such as .pdf
		p.yaml:1:41: intake.b c.suffixes: ./x is no suffix; write one with its dot, such as .pdf
		p.yaml:1:57: intake.b c.command: ./b is no program of the system; name one without a path, or by its path below /usr
		p.yaml:1:70: intake.d.command: no argument has the document; write "{}" where the program takes the path of the document`},
	{`clearance: {limits: {max_files: 0, max_bytes: 1.5}}`, `
		p.yaml:1:33: clearance.limits.max_files: 0; 0 would be no limit; leave the key out for none
		p.yaml:1:47: clearance.limits.max_bytes: 1.5; it is …`},

	{`clearance: {endpoints: {a: {}, "b c": {url: "https://x/"}, c: {url: "http://example.com/"}, d: {url: "https://u:canary@x/"}, e: {url: "file:///x"}, f: {url: "http://127.0.0.1:1/x"}}}`, `
		p.yaml:1:25: clearance.endpoints.a has no url; write the address that it is sent to
		p.yaml:1:32: clearance.endpoints.b c: …
		p.yaml:1:69: clearance.endpoints.c.url: results would go to another machine unencrypted; write https://HOST/path, …
		p.yaml:1:102: clearance.endpoints.d.url: a user or a secret in the address; write https://HOST/path, …
		p.yaml:1:135: clearance.endpoints.e.url: it is no address; write https://HOST/path, …`},
	{`clearance: {endpoints: {a: {url: "https://x/", method: GET}}}`, `p.yaml:1:56: clearance.endpoints.a.method: GET; it is …`},
	{`clearance: {endpoints: {a: {url: "https://x/", type: json, headers: {Authorization: Bearer canary, X-Y: "a b", "X Y": z, Host: x, X-Z: "a é", Cookie: "env:C", Z: [a]}}}}`, `
		p.yaml:1:54: clearance.endpoints.a.type: json is no type of a content; application/json and text/plain are
		p.yaml:1:85: clearance.endpoints.a.headers.Authorization: a secret is not written down; write env:NAME, and set that variable where you call golem
		p.yaml:1:112: clearance.endpoints.a.headers: X Y is no name of a header; letters, digits and - are in one
		p.yaml:1:122: clearance.endpoints.a.headers: Host is not for you to set; leave it out; type: says what the body is
		p.yaml:1:136: clearance.endpoints.a.headers.X-Z: no value of a header; write one line of plain text, or env:NAME for the value of a variable
		p.yaml:1:163: clearance.endpoints.a.headers.Z: no value of a header; …`},
	{`clearance: {endpoints: {a: {url: "https://x/", headers: [a]}}}`, `p.yaml:1:57: clearance.endpoints.a.headers: not a map of texts; …`},

	// runs
	{`model_server: {url: "ftp://x"}`, `p.yaml:1:21: model_server.url: no address of a server; write https://HOST/v1, without user and password`},
	{`model_server: {url: "https://me:secret@x/"}`, `p.yaml:1:21: model_server.url: no address of a server; write https://HOST/v1, without user and password`},
	{`model_server: {url: "https://x/", key: sk-123}`, `p.yaml:1:40: model_server.key: no name of a variable; name the variable, such as TEAM_KEY; the key itself is not written down`},
	{`model_server: {key: K}`, `p.yaml:1:21: model_server.key without a url; say which server it is for: model_server: {url: …, key: …}`},
	{`model: ""`, `p.yaml:1:8: model: an empty text; name one, such as anthropic:claude-sonnet-4-5, or leave the key out`},
	{`approval: {mode: ask}`, `p.yaml:1:18: approval.mode: ask; it is …`},
	{`workerPaths: [../x, /y, ~/z, "", a, ./a/]`, `
		p.yaml:1:15: worker_paths: ../x is no directory of the program; workers lie in the program; name a directory relative to it, such as workers
		p.yaml:1:21: worker_paths: /y is no directory of the program; workers lie in the program; name a directory relative to it, such as workers
		p.yaml:1:25: worker_paths: ~/z is no directory of the program; workers lie in the program; name a directory relative to it, such as workers
		p.yaml:1:30: worker_paths: an empty path; . is the program's directory
		p.yaml:1:34: worker_paths: a does not exist; name an existing directory of the program, such as workers
		p.yaml:1:37: worker_paths: ./a/ twice; keep one`},
	{"model: x\nworkerPaths: [., in, workers, wrokers, afile]", `
		p.yaml:2:31: worker_paths: wrokers does not exist; name an existing directory of the program, such as workers
		p.yaml:2:40: worker_paths: afile is not a directory; name an existing directory of the program, such as workers`},

	// clearance
	{`clearance: {targets: {origin: {path: .}}}`, `p.yaml:1:23: clearance.targets.origin has no type; write type: local, bare, remote or github`},
	{`clearance: {targets: {origin: {type: local}}}`, `p.yaml:1:23: clearance.targets.origin has no path; a target of type local needs one`},
	{`clearance: {targets: {origin: {type: github, repo: a/b, path: x}}}`, `p.yaml:1:57: clearance.targets.origin.path has no meaning with type: github (p.yaml:1); a target of type github has a repo; remove one of the two`},
	{`clearance: {targets: {origin: {type: github, repo: a/b, url: "ssh://x"}}}`, `p.yaml:1:62: clearance.targets.origin.url: ssh://x is no server; write https://host of a GitHub Enterprise, or leave it out for github.com`},
	{`clearance: {targets: {origin: {type: github, repo: a/b, url: "https://hunter2@x"}}}`, `p.yaml:1:62: clearance.targets.origin.url: a secret or a user in the address; credentials come from the host or the worker's git settings; write https://host of a GitHub Enterprise, or leave it out for github.com`},
	{`clearance: {targets: {-x: {type: github, repo: a/b}}}`, `p.yaml:1:23: clearance.targets.-x: a name has letters, digits and _, and after the first character also - and .; choose another name, such as origin`},
	{`clearance: {targets: {o: {type: github, repo: a}}}`, `p.yaml:1:47: clearance.targets.o.repo: a is no repository; write owner/name`},
	{`clearance: {targets: {o: {type: github, repo: a/..}}}`, `p.yaml:1:47: clearance.targets.o.repo: a/.. is no repository; write owner/name`},
	{`clearance: {targets: {o: {type: bare, path: /proc/x}}}`, `p.yaml:1:45: clearance.targets.o.path: /proc/x is under /proc; there are no repositories there`},
	{`clearance: {targets: {o: {type: github, repo: a/b, hooks: run}}}`, `p.yaml:1:59: clearance.targets.o.hooks: its server decides which hooks run; remove it; it is for repositories on this machine: local, bare, and an address with file:`},
	{`clearance: {targets: {o: {type: github, repo: a/b, branch: a..b}}}`, `p.yaml:1:60: clearance.targets.o.branch: a..b is no name of a branch; main and drafts/notes are`},
	{`clearance: {targets: {o: {type: github, repo: a/b, at: /out}}}`, `p.yaml:1:56: clearance.targets.o.at: /out is on no mount; write the path of a mount, or of a directory in one`},
	{`clearance: {targets: {o: {type: github, repo: a/b, at: out}}}`, `p.yaml:1:56: clearance.targets.o.at: out does not start with /; write the path of a mount, or of a directory in one`},
	{`{sandbox: {mounts: [{source: in, target: /in}]}, clearance: {targets: {o: {type: github, repo: a/b}}}}`, `p.yaml:1:72: clearance.targets.o: no mount is at /workspace, where its root would stand; write at: with the path of a mount`},
	{`clearance: {scanners: [secret, size, size]}`, `
		p.yaml:1:24: clearance.scanners: unknown scanner secret; did you mean secrets? known here: format, size, content, secrets, malware
		p.yaml:1:38: clearance.scanners: size twice; keep one`},

	// all at once, and nothing more
	{"sandbox: {zone: {}, mode: ro}", `p.yaml:1:11: unknown key "zone" in sandbox; did you mean zones?…`},
	{"sandbox: {mode: RW, zones: {a: {path: a}}}", `p.yaml:1:17: sandbox.mode: RW; it is …`},
	{"sandbox: {mounts: [{source: in, target: a}, {source: in, target: b}]}", `
		p.yaml:1:41: sandbox.mounts[0].target: a does not start with /; a target is a path of its own, such as /cache
		p.yaml:1:66: sandbox.mounts[1].target: b does not start with /; a target is a path of its own, such as /cache`},
	{`{sandbox: {zones: {a: {pth: a}}}, clearance: {targets: {o: {type: github, repo: a/b}, p: {type: github, repo: a/b, at: /a}}}}`,
		`p.yaml:1:24: unknown key "pth" in sandbox.zones.a; did you mean path?…`},
	{"modle: x\nsandbox:\n  zones:\n    data: {path: ../x}\n    out: {pth: out}\n  network: [a_.com/]\nlimits: {pids: 0}", `
		p.yaml:1:1: unknown key "modle"; did you mean model?…
		p.yaml:4:18: sandbox.zones.data.path: ../x does not lie under sandbox.root; with mode: sandboxed all zones do; write a path relative to it, or mode: direct for paths as they are
		p.yaml:5:11: unknown key "pth" in sandbox.zones.out; did you mean path?…
		p.yaml:6:13: sandbox.network: a_.com/: not a host; write a name such as example.com, …
		p.yaml:7:16: limits.pids: 0; 0 would be no limit; leave the key out for the default; a command always has a limit`},
}

// matchesLines reports whether the lines are those wanted. A wanted line that ends in … may
// continue.
func matchesLines(got, want string) bool {
	lines, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(lines, wanted, func(got, want string) bool {
		head, goesOn := strings.CutSuffix(want, "…")
		return got == want || goesOn && strings.HasPrefix(got, head)
	})
}

func TestProblems(t *testing.T) {
	w := newWorld(t)
	for _, test := range problems {
		_, err := w.parse(test.yaml)
		if err == nil {
			t.Errorf("%s\nloads", test.yaml)
		} else if got := err.Error(); !matchesLines(got, trimIndent(test.want)) {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", test.yaml, got, trimIndent(test.want))
		}
		if !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("%s\nis not invalid: %v", test.yaml, err)
		}
	}
}

func TestSystemDirectories(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"work", "usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "dev", "proc", "sys", "tmp", "run"} {
		for _, target := range []string{"/" + name, "/" + name + "/x", "//" + name + "/", "/./" + name} {
			if _, err := w.parse(`sandbox: {mounts: [{source: in, target: ` + target + `}]}`); err == nil {
				t.Errorf("%s is a target", target)
			}
		}
		if _, err := w.parse(`sandbox: {zones: {` + name + `: {path: in}}}`); err == nil {
			t.Errorf("%s is a zone", name)
		}
	}
	for _, target := range []string{"/library", "/workspace", "/temp", "/x/etc", "/"} {
		if _, err := w.parse(`sandbox: {mounts: [{source: in, target: ` + target + `}]}`); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestKernelDirectories finds /proc, /sys and /dev by any path.
func TestKernelDirectories(t *testing.T) {
	w := newWorld(t)
	must(t, os.Symlink("/proc", filepath.Join(w.env.Home, "toproc")))
	for _, source := range []string{"/proc", "/proc/self", "/sys/kernel", "/dev", "/dev/nothing-there", "/usr/../proc", "~/toproc", "~/toproc/self", "../home/toproc"} {
		_, err := w.parse(`sandbox: {mounts: [{source: ` + source + `, target: /a}]}`)
		if err == nil || !strings.Contains(err.Error(), "there are no files there; cd into a project directory") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestRulesOfYara checks that a project names no rules for yara that a mount may not show.
func TestRulesOfYara(t *testing.T) {
	w := newWorld(t)
	must(t, os.MkdirAll(filepath.Join(w.env.State, "layers"), 0o777))
	for name, file := range map[string]string{"own.yar": w.program, "foreign.yar": w.env.Home, "kept.yar": w.env.State} {
		must(t, os.WriteFile(filepath.Join(file, name), nil, 0o666))
	}
	must(t, os.Symlink(filepath.Join(w.env.Home, "foreign.yar"), filepath.Join(w.program, "led.yar")))
	must(t, os.Symlink(w.env.Home, filepath.Join(w.program, "in", "led")))
	must(t, os.Symlink(filepath.Join(w.env.State, "kept.yar"), filepath.Join(w.env.Home, "led.yar")))
	ceiling, err := project.ParsePolicy("policy.yaml", []byte("roots: ["+w.program+"]\n"), nil)
	must(t, err)
	for _, test := range []struct{ file, free, limited string }{
		{"own.yar", "", ""},
		{"missing.yar", "", ""},
		{"~/foreign.yar", "", "may not be mounted; policy.yaml:1 lists"},
		{"~/missing.yar", "", "may not be mounted; policy.yaml:1 lists"},
		{"led.yar", "is reached by a symlink", "is reached by a symlink"},
		{"in/led/foreign.yar", "is reached by a symlink", "is reached by a symlink"},
		{"../state/kept.yar", "shows golem's own state", "shows golem's own state"},
		{"~/led.yar", "shows golem's own state", "shows golem's own state"},
		{"/proc/self/cwd/own.yar", "is under /proc", "is under /proc"},
	} {
		for want, ceiling := range map[*string]project.Ceiling{&test.free: nil, &test.limited: {ceiling}} {
			w.env.Ceiling = ceiling
			_, err := w.parse(`clearance: {malware: {yara: [` + test.file + `]}}`)
			if *want == "" && err != nil || *want != "" && (err == nil || !strings.Contains(err.Error(), "clearance.malware.yara: "+test.file+" "+*want)) {
				t.Errorf("%s: got %v, want %q", test.file, err, *want)
			}
		}
	}
}

// TestTargetDirectories checks that a project names no repository on this machine that a mount
// may not show, because workers read every branch of it.
func TestTargetDirectories(t *testing.T) {
	w := newWorld(t)
	must(t, os.MkdirAll(filepath.Join(w.env.State, "store"), 0o777))
	must(t, os.Symlink(filepath.Join(w.env.State, "store"), filepath.Join(w.env.Home, "led")))
	ceiling, err := project.ParsePolicy("policy.yaml", []byte("roots: ["+w.program+"]\n"), nil)
	must(t, err)
	for _, test := range []struct{ dir, free, limited string }{
		{filepath.Join(w.program, "in"), "", ""},
		{filepath.Join(w.program, "missing"), "", ""},
		{w.env.Home + "/reports", "", "may not be mounted; policy.yaml:1 lists"},
		{w.env.Home + "/missing.git", "", "may not be mounted; policy.yaml:1 lists"},
		{w.env.Home + "/led", "shows golem's own state", "shows golem's own state"},
		{"/proc/self/cwd", "is under /proc", "is under /proc"},
	} {
		for want, ceiling := range map[*string]project.Ceiling{&test.free: nil, &test.limited: {ceiling}} {
			for _, target := range []string{"type: local, path: " + test.dir, "type: bare, path: " + test.dir, "type: remote, url: 'file://" + test.dir + "'", "type: remote, url: 'file://" + strings.ReplaceAll(test.dir, "e", "%65") + "'"} {
				w.env.Ceiling = ceiling
				_, err := w.parse("sandbox: {root: .}\nclearance: {targets: {t: {at: /, " + target + "}}}")
				if *want == "" && err != nil || *want != "" && (err == nil || !strings.Contains(err.Error(), *want)) {
					t.Errorf("%s: got %v, want %q", target, err, *want)
				}
			}
		}
	}
}

// TestState checks that no mount shows golem's state, and that no mount lies in it.
func TestState(t *testing.T) {
	w := newWorld(t)
	must(t, os.Symlink(w.top, filepath.Join(w.env.Home, "up")))
	must(t, os.MkdirAll(filepath.Join(w.env.State, "layers"), 0o777))
	for _, test := range []struct{ state, yaml string }{
		{w.env.State, `sandbox: {root: ..}`},
		{w.env.State, `sandbox: {root: ../state}`},
		{w.env.State, `sandbox: {root: ../state/layers}`},
		{w.env.State, `sandbox: {root: ~/up}`},
		{w.env.State, `sandbox: {root: ~/up/state/layers}`},
		{filepath.Join(w.env.Home, "up", "state", "not", "yet"), `sandbox: {root: ../state}`},
		{filepath.Join(w.program, ".golem"), `sandbox: {root: .}`},
		{filepath.Join(w.env.Home, "up", "program", "not-yet"), `sandbox: {root: not-yet/x}`},
		{filepath.Join(w.program, ".sandbox", "cache", "state"), ``},
		{filepath.Join(w.program, "x"), `sandbox: {mode: direct, workspace: x/y}`},
		{filepath.Join(w.env.Home, "reports", ".cache"), `sandbox: {mode: direct, cache: in, workspace: ~/reports}`},
	} {
		w.env.State = test.state
		_, err := w.parse(test.yaml)
		if err == nil || !strings.Contains(err.Error(), "shows golem's own state; cd into a project directory") {
			t.Errorf("state %s, %s: %v", strings.TrimPrefix(test.state, w.top), test.yaml, err)
		}
	}
	w.env.State = filepath.Join(w.top, "state")
	if _, err := w.parse(`sandbox: {root: ., mounts: [{source: ~/npm, target: /npm}]}`); err != nil {
		t.Errorf("a state directory next to the mounts: %v", err)
	}
}

// TestNoHome checks that ~ is an error if the home is unknown.
func TestNoHome(t *testing.T) {
	w := newWorld(t)
	w.env.Home = ""
	_, err := w.parse(`sandbox: {root: ~/npm}`)
	if want := "p.yaml:1:17: sandbox.root: your home directory is not known here; write the whole path"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	p, err := w.parse(`sandbox: {root: ./a~b/~/c}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.table(p); got != "/ rw program + a~b/~/c" {
		t.Errorf("~ inside a path is expanded: %s", got)
	}
}

// TestAddresses accepts addresses that git can reach, and none that make git run a
// program.
func TestAddresses(t *testing.T) {
	w := newWorld(t)
	for _, url := range []string{
		"https://example.com/a/b.git", "http://localhost:3000/a", "ssh://git@example.com:22/a", "ssh://example.com/a",
		"git@example.com:a/b.git", "example.com:a", "you@host:~/a", "file:///srv/a.git",
	} {
		if _, err := w.parse(`clearance: {targets: {o: {type: remote, url: "` + url + `"}}}`); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"", "-x", "--upload-pack=x", "ext::sh -c touch% /tmp/x", "fd::17/foo", "file://host/etc", "ssh://-oProxyCommand=x/y", "ssh://-o@host/y",
		"-oProxyCommand=x:y", "git@-x:y", "https://token@example.com/a", "https://you:secret@example.com/a", "ssh://you:secret@example.com/a",
		"https:///a", "http://10.0.0.1:3000/a", "git://example.com/a", "../a", "/srv/a", "host:-x", "https://example.com/a b", "host::a", "ext::https://x",
	} {
		_, err := w.parse(`clearance: {targets: {o: {type: remote, url: "` + url + `"}}}`)
		if err == nil || !strings.Contains(err.Error(), "clearance.targets.o.url") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestBranches(t *testing.T) {
	w := newWorld(t)
	for name, want := range map[string]bool{
		"main": true, "drafts/a-b": true, "v1.0": true, "a@b": true, "ü": true,
		"-x": false, "a..b": false, "a b": false, "a/": false, "/a": false, "a//b": false, ".a": false, "a/.b": false, "a.lock": false,
		"a.": false, "@": false, "a@{b": false, "a~1": false, "a^": false, "a:b": false, "a?": false, "a*": false, "a[": false, "HEAD": false, "": false,
	} {
		if _, err := w.parse(`clearance: {targets: {o: {type: github, repo: a/b, branch: "` + name + `"}}}`); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestMissingProgramDirectory refuses a program that does not exist.
func TestMissingProgramDirectory(t *testing.T) {
	w := newWorld(t)
	for _, root := range []string{filepath.Join(w.top, "none"), filepath.Join(w.top, "program", "afile")} {
		_, err := project.Parse(root, "p.yaml", nil, w.env, nil)
		var problems strictyaml.Problems
		if !errors.As(err, &problems) || !strings.HasPrefix(err.Error(), "p.yaml: the program's directory ") {
			t.Errorf("%s: %v", root, err)
		}
	}
}

// TestProgramBehindSymlink mounts the program's directories by every path to it.
func TestProgramBehindSymlink(t *testing.T) {
	w := newWorld(t)
	must(t, os.Symlink("program", filepath.Join(w.top, "alias")))
	real := w.program
	w.program = filepath.Join(w.top, "alias")
	for _, source := range []string{"in", w.program + "/in", real + "/in"} {
		p, err := w.parse(`sandbox: {root: ` + source + `}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.table(p); got != "/ rw alias + in" {
			t.Errorf("%s: %s", source, got)
		}
	}
}
