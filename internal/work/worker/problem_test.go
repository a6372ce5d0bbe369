package worker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
)

// TestProblems checks every problem with its place and hint. Each row lists all problems
// of its file.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // the beginnings of the problems
	}{
		// keys
		{"nmae: a", []string{`1:1: unknown key "nmae"; did you mean name? known here: name, description`}},
		{"---\n# c\nnmae: a\n---\nHello.", []string{`3:1: unknown key "nmae"`}},
		{"# c\n---\nsandbox:\n  zone: []\n---\nHello.", []string{`4:3: unknown key "zone" in sandbox; did you mean zones?`}},
		{"---\r\nlocked: true\r\nnmae: a\r\n---\r\nHello.", []string{`3:1: unknown key "nmae"`}},
		{"name: a\nname: b", []string{`2:1: "name" twice, first in line 1; keep one`}},
		{"model: x", []string{`1:8: model: x; write VENDOR:MODEL, such as anthropic:claude-sonnet-4-5`}},
		{"child_sandbox: {}", []string{`1:1: unknown key "child_sandbox"; a child's access comes from its own file`}},
		{"a: 1\nb: 2\nc: 3", []string{`1:1: unknown key "a"`, `2:1: unknown key "b"`, `3:1: unknown key "c"`}},

		// the prompt
		{"prompt: a\ninstructions: b", []string{`1:9: prompt: a second prompt; it is in instructions already; keep one`}},
		{"---\nprompt: a\n---\nb", []string{`2:9: prompt: a second prompt; it is in the body of the file already`}},

		// simple values
		{"mode: batch", []string{`1:7: mode: batch; it is `}},
		{"mode: Chat", []string{`1:7: mode: Chat; it is single or chat; did you mean chat?`}},
		{"compatible_models: []", []string{`1:20: compatible_models: an empty list; leave the key out`}},
		{`compatible_models: [" "]`, []string{`1:21: compatible_models: an empty name`}},
		{"locked: yes", []string{`1:9: locked: yes; it is `}},
		{`locked: "true"`, []string{`1:9: locked: "true"; it is `}},
		{"max_context_tokens: 0", []string{`1:21: max_context_tokens: 0; leave it out for no limit`}},
		{"max_context_tokens: -1", []string{`1:21: max_context_tokens: -1; it is `}},
		{"budget: {turns: 0}", []string{`1:17: budget.turns: 0; a number above 0; leave the key out for no limit`}},
		{"budget: {cost: -1, token: 2}", []string{`1:16: budget.cost: -1; it is a number`, `1:20: unknown key "token" in budget; did you mean tokens?`}},
		{"output_schema: text", []string{`1:16: output_schema: a single value; it is a JSON schema`}},
		{"output_schema:", []string{`1:15: output_schema: nothing`}},
		{"attachment_policy: {max_attachments: many}", []string{`1:38: attachment_policy.max_attachments: many; it is `}},
		{"attachment_policy: {allowed_suffixes: []}", []string{`1:39: attachment_policy.allowed_suffixes: an empty list`}},
		{"attachment_policy: {allowed_suffixes: [pdf, ., .a/b]}", []string{
			`1:40: attachment_policy.allowed_suffixes: pdf; a suffix is a dot and more`, `1:45: attachment_policy.allowed_suffixes: .;`,
			`1:48: attachment_policy.allowed_suffixes: .a/b;`}},

		// the sandbox
		{"sandbox:", []string{`1:9: sandbox: nothing; write inherit for all of the parent's files, zones: [] for none, or leave the key out`}},
		{"sandbox: ~", []string{`1:10: sandbox: nothing;`}},
		{"sandbox: all", []string{`1:10: sandbox: all; it is `}},
		{"sandbox: []", []string{`1:10: sandbox: a list; it is `}},
		{"sandbox: {zones: }", []string{`1:18: sandbox.zones: nothing; name zones, or write [] for no files at all`}},
		{"sandbox: {zones: {a: {mode: rw}}}", []string{`1:18: sandbox.zones: a map; it is `}},
		{"sandbox: {zones: [a]}", []string{`1:19: sandbox.zones: a single value in the list; each is a map of name, mode, approval`}},
		{"sandbox: {zones: [{mode: rw}]}", []string{`1:19: sandbox.zones: a zone without a name`}},
		{"sandbox: {zones: [{name: a}, {name: a, mode: ro}]}", []string{`1:37: sandbox.zones: a twice; keep one`}},
		{"sandbox: {zones: [{name: /a}, {name: ..}, {name: a/b}, {name: .}, {name: ''}]}", []string{
			`1:26: sandbox.zones.name: /a; it is the name of a top directory, without slashes: data for /data`,
			`1:38: sandbox.zones.name: ..;`, `1:50: sandbox.zones.name: a/b;`, `1:63: sandbox.zones.name: .;`, `1:74: sandbox.zones.name: "";`}},
		{"sandbox: {zones: [{name: a, mode: RW}]}", []string{`1:35: sandbox.zones.mode: RW; it is ro or rw; did you mean rw?`}},
		{"sandbox: {zones: [{name: a, mode: yes}]}", []string{`1:35: sandbox.zones.mode: yes; it is `}},
		{"sandbox: {zones: [{name: a, mode: none}]}", []string{`1:35: sandbox.zones.mode: none; it is `}},
		{"sandbox: {zones: [{name: a, approval: {write: auto}}]}", []string{`1:47: sandbox.zones.approval.write: auto; it is `}},
		{"sandbox: {zones: [{name: a, approval: ask}]}", []string{`1:39: sandbox.zones.approval: ask; it is `}},
		{"sandbox: {restrict: }", []string{`1:21: sandbox.restrict: nothing`}},
		{"sandbox: {restrict: ''}", []string{`1:21: sandbox.restrict: ""; it is a path of the parent's, such as /src`}},
		{"sandbox: {restrict: /../x}", []string{`1:21: sandbox.restrict: /../x; it is a path of the parent's, such as /src; .. may not climb above /`}},
		{"sandbox: {restrict: [/a]}", []string{`1:21: sandbox.restrict: a list; it is `}},
		{`sandbox: {restrict: "/a\0b"}`, []string{`1:21: sandbox.restrict: `}},
		{`sandbox: {readonly: "false"}`, []string{`1:21: sandbox.readonly: "false"; it is `}},
		{"sandbox: {restrict: /a, zones: []}", []string{`1:25: sandbox.zones beside restrict; these are different ways`}},
		{"sandbox: {zones: [], readonly: true}", []string{`1:22: sandbox.readonly beside zones;`}},
		{"sandbox: {paths: {a: {root: .}}, zones: []}", []string{`1:34: sandbox.zones beside paths;`}},
		{"sandbox: {root: ., mounts: []}", []string{`1:11: unknown key "root" in sandbox; that is the project's; a worker takes part of it by restrict, zones or paths`,
			`1:20: unknown key "mounts" in sandbox;`}},
		{"sandbox: {mode: sandboxed, zones: []}", []string{`1:11: unknown key "mode" in sandbox; that is the project's;`}},
		{"sandbox: {approval: {write: sometimes}}", []string{`1:29: `}},
		{"sandbox: {paths: {}}", []string{`1:18: sandbox.paths: an empty map`}},
		{"sandbox: {paths: {a: }}", []string{`1:19: sandbox.paths.a: no root; write root: and the directory`}},
		{"sandbox: {paths: {a: {mode: rw}}}", []string{`1:19: sandbox.paths.a: no root;`}},
		{"sandbox: {paths: {a: ./a}}", []string{`1:22: sandbox.paths.a: ./a; it is `}},
		{"sandbox: {paths: {a/b: {root: .}}}", []string{`1:19: sandbox.paths: a/b; a path's name has no slashes`}},
		{"sandbox: {paths: {a: {root: ' '}}}", []string{`1:29: sandbox.paths.a.root: " "; it is a directory`}},
		{"sandbox: {paths: {a: {root: ~/a}}}", []string{`1:29: sandbox.paths.a.root: ~/a; ~ is known in the project file only; mount the directory there`}},
		{"sandbox: {paths: {a: {root: ., max_file_bytes: 0}}}", []string{`1:48: sandbox.paths.a.max_file_bytes: 0; leave it out for no limit`}},
		{"sandbox: {paths: {a: {root: ., max_file_bytes: big}}}", []string{`1:48: sandbox.paths.a.max_file_bytes: big; it is `}},
		{"sandbox: {paths: {a: {root: ., suffixes: [md]}}}", []string{`1:43: sandbox.paths.a.suffixes: md; a suffix is a dot and more`}},
		{"sandbox: {paths: {a: {root: ., sufixes: [.md]}}}", []string{`1:32: unknown key "sufixes" in sandbox.paths.a; did you mean suffixes?`}},
		{"sandbox: {network: [a.example.com, http://b.example.com, '*', 'c.example.com:0']}", []string{`1:36: sandbox.network: http://b.example.com: not a host; write a name such as example.com`,
			`1:58: sandbox.network: *: not a host; write a name`, `1:63: sandbox.network: c.example.com:0: not a port; write a number from 1 to 65535`}},
		{"sandbox: {network: on}", []string{`1:20: sandbox.network: on; it is `}},
		{"sandbox: {require_os_sandbox: docker}", []string{`1:31: sandbox.require_os_sandbox: docker; it is `}},

		// toolsets
		{"toolsets: [filesytem]", []string{`1:12: unknown key "filesytem" in toolsets; did you mean filesystem? known here: filesystem, shell, git, clearance, web, workers, mcp, custom`}},
		{"toolsets: {filesytem: }", []string{`1:12: unknown key "filesytem" in toolsets; did you mean filesystem?`}},
		{"toolsets: [{filesystem: , shell: }]", []string{`1:12: toolsets: a map in the list; each is a name, or a map of one name`}},
		{"toolsets: [[shell]]", []string{`1:12: toolsets: a list in the list;`}},
		{"toolsets: [~]", []string{`1:12: toolsets: nothing in the list;`}},
		{"toolsets: [custom, custom: {}]", []string{`1:20: toolsets: custom twice; keep one`}},
		{"toolsets: shell", []string{`1:11: toolsets: shell; it is `}},
		{"toolsets: {filesystem: true}", []string{`1:24: toolsets.filesystem: true; it is `}},
		{"sandbox: {zones: []}\ntoolsets: [filesystem, git, custom, shell]", []string{
			`2:12: filesystem beside zones: []; without files it could do nothing; name a zone, or leave the toolset out`,
			`2:24: git beside zones: []`, `2:37: shell beside zones: []`}},
		{"toolsets: {shell: {rules: []}}", []string{`1:27: toolsets.shell.rules: an empty list`}},
		{"toolsets: {shell: {rules: [{pattern: ls}]}}", []string{`1:28: shell rule: no approval level; write approval: preApproved, ask or blocked`}},
		{"toolsets: {shell: {rules: [{approval: ask}]}}", []string{`1:28: shell rule: pattern ""; write the words that the command begins with`}},
		{`toolsets: {shell: {rules: [{pattern: "a\nb", approval: ask}]}}`, []string{`1:38: shell rule: pattern "a\nb";`}},
		{"toolsets: {shell: {rules: [{pattern: ls, allowed: true}]}}", []string{`1:28: shell rule: no approval level`, `1:42: unknown key "allowed" in toolsets.shell.rules`}},
		{"toolsets: {shell: {rules: [{use: readonly}]}}", []string{`1:34: toolsets.shell.rules.use: readonly; it is read_only or build; did you mean read_only?`}},
		{"toolsets: {shell: {rules: [{use: build, pattern: ls}]}}", []string{`1:41: shell rule: pattern beside use;`}},
		{"toolsets: {shell: {rules: [{use: build, approval: ask}]}}", []string{`1:41: shell rule: approval beside use; a predefined set needs no approval`}},
		{"shell_rules: [{pattern: git log | cat, allowed: false}]", []string{`1:25: shell rule: pattern git log | cat; a pattern is the words of one command`}},
		{"shell_rules: [{pattern: timeout 5 ls, approval: preApproved}]", []string{`1:25: shell rule: pattern timeout 5 ls; timeout is looked through: name the commands that it may run`}},
		{"shell_rules: [{pattern: sudo, approval: preApproved}]", []string{`1:25: shell rule: pattern sudo; sudo is never understood`}},
		{"shell_rules: [{pattern: git log, approval: preApproved, match: [git log -p, git logs]}]", []string{
			`1:77: shell rule: match git logs: it does not match; git logs is another command`}},
		{"shell_rules: [{pattern: git log, approval: preApproved, match: ['git log --output=x', 'git log; $x']}]", []string{
			`1:65: shell rule: match git log --output=x: it does not match; git log --output=x: --output changes what the command does`,
			`1:87: shell rule: match git log; $x: it does not match; $x: what it runs is not known before it runs`}},
		{"shell_rules: [{pattern: rm, allowed: false, not_match: ['ls; timeout 5 rm x']}]", []string{
			`1:57: shell rule: not_match ls; timeout 5 rm x: it matches; rm x does`}},
		{"shell_rules: [{use: read_only, not_match: [ls]}]", []string{`1:44: shell rule: not_match ls: it matches; each of its commands does`}},
		{"shell_rules: [{use: read_only, match: ls}]", []string{`1:39: shell_rules.match: ls; it is a list of texts`}},
		{"toolsets: {shell: {default: {}}}", []string{`1:29: shell default: no approval level;`}},
		{"toolsets: {shell: {default: ask}}", []string{`1:29: toolsets.shell.default: ask; it is `}},
		{"toolsets: [workers]", []string{`1:12: toolsets.workers: nobody to call; write allowed_workers: and their names, "*" for all, or [] for none`}},
		{"toolsets: {workers: {}}", []string{`1:12: toolsets.workers: nobody to call`}},
		{"toolsets: {workers: {allowed_workers: [a b, ok]}}", []string{`1:40: allowed_workers: a b; it is a worker's name, or "*" for all`}},
		{"toolsets: {workers: {allowed_workers: a}}", []string{`1:39: toolsets.workers.allowed_workers: a; it is `}},

		// git
		{"toolsets: {git: {default_target: a b}}", []string{`1:34: default_target: a b; write the name of a target`}},
		{"toolsets: {git: {default_target: {path: .}}}", []string{`1:34: default_target: no type; write type: local, bare, remote or github`}},
		{"toolsets: {git: {default_target: {type: local}}}", []string{`1:34: default_target: no path; a local target needs it`}},
		{"toolsets: {git: {default_target: {type: local, path: ., url: 'https://a/b'}}}", []string{`1:62: default_target.url in a local target; a local target has path`}},
		{"toolsets: {git: {default_target: {type: ftp, path: .}}}", []string{`1:41: toolsets.git.default_target.type: ftp; it is `}},
		{"toolsets: {git: {default_target: {type: local, path: --upload-pack=x}}}", []string{`1:54: default_target.path: --upload-pack=x; it is a directory`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'ext::sh -c x'}}}", []string{`1:54: default_target.url: ext::sh -c x has a space`}},
		{"toolsets: {git: {default_target: {type: remote, url: '--upload-pack=x'}}}", []string{`1:54: default_target.url:`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'https://u:hunter2@a/b'}}}", []string{`1:54: default_target.url: a secret or a user in the address; credentials come from`}},
		{"toolsets: {git: {default_target: {type: github, repo: reports}}}", []string{`1:55: default_target.repo: reports is no repository; it is an owner and a name`}},
		{"toolsets: {git: {default_target: {type: local, path: ., branch: -f}}}", []string{`1:65: default_target.branch: -f is no name of a branch; it is the name of a branch`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'ssh://git@-oProxyCommand=touch/x'}}}", []string{`1:54: default_target.url: it names no host; https://host/path`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'git@-ofoo:y'}}}", []string{`1:54: default_target.url: git@-ofoo:y is no address`}},
		{"toolsets: {git: {default_target: {type: remote, url: '-ofoo@h:y'}}}", []string{`1:54: default_target.url: -ofoo@h:y is no address`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'git://h/x'}}}", []string{`1:54: default_target.url: git is not a supported protocol`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'git://h/x'}}}", []string{`1:54: default_target.url: git is not a supported protocol`}},
		{"toolsets: {git: {default_target: {type: remote, url: 'https://token@github.com/x/y'}}}", []string{`1:54: default_target.url: a secret or a user in the address`}},
		{"toolsets: {git: {default_target: {type: local, path: ., branch: 'a@{1}'}}}", []string{`1:65: default_target.branch: a@{1} is no name of a branch`}},
		// foreign programs
		{"toolsets: {custom: false}", []string{`1:20: toolsets.custom: false; it is a map of names`}},
		{"toolsets: {mcp: {search: x}}", []string{`1:26: toolsets.mcp.search: x; it is a map`}},
		{"toolsets: {custom: {count: {command: [./x], schema: ./x.json, aproval: ask}}}", []string{
			`1:63: unknown key "aproval" in toolsets.custom.count; did you mean approval? known here: schema, command, with, files, network, level, env, approval, timeout`}},
		{"toolsets: {custom: {count: }}", []string{`1:21: toolsets.custom.count: no command`, `1:21: toolsets.custom.count: no schema`}},
		{"toolsets: {custom: {count: {schema: ./x.json}}}", []string{`1:21: toolsets.custom.count: no command; write command: [./tools/x.py]`}},
		{"toolsets: {custom: {count: {command: [./x]}}}", []string{`1:21: toolsets.custom.count: no schema; write schema: and the JSON file`}},
		{"toolsets: {custom: {count: {command: [], schema: ./s}}}", []string{`1:38: toolsets.custom.count.command: an empty list`}},
		{"toolsets: {custom: {count: {command: [/bin/sh], schema: ./s}}}", []string{`1:39: toolsets.custom.count.command: /bin/sh; it begins with a file of the program's directory`}},
		{"toolsets: {custom: {count: {command: [../x], schema: ./s}}}", []string{`1:39: toolsets.custom.count.command: ../x; it begins`}},
		{"toolsets: {custom: {count: {command: [./../x], schema: ./s}}}", []string{`1:39: toolsets.custom.count.command: ./../x; it is in the program's directory`}},
		{"toolsets: {custom: {count: {command: [sh, ./a/../../x], schema: /etc/passwd}}}", []string{
			`1:43: toolsets.custom.count.command: ./a/../../x; it is in the program's directory`, `1:65: toolsets.custom.count.schema: /etc/passwd; it is in the program's directory`}},
		{"toolsets: {custom: {count: {command: [-c], schema: ./s}}}", []string{`1:39: toolsets.custom.count.command: -c; it begins`}},
		{"toolsets: {custom: {count: {command: [./x], schema: ./s, with: [lib]}}}", []string{`1:65: toolsets.custom.count.with: lib; it is a file or a directory`}},
		{"toolsets: {custom: {count: {command: [./x], schema: ./s, files: {restrict: in}}}}", []string{`1:76: toolsets.custom.count.files.restrict: in; it is a directory by its absolute name`}},
		{"toolsets: {custom: {count: {command: [./x], schema: ./s, files: {restrict: /../in}}}}", []string{`1:76: toolsets.custom.count.files.restrict: /../in;`}},
		{"toolsets: {custom: {count: {command: [./x], schema: ./s, timeout: 0}}}", []string{`1:67: toolsets.custom.count.timeout: 0; a time above zero`}},
		{"toolsets: {custom: {a b: {command: [./x], schema: ./s}}}", []string{`1:21: toolsets.custom: a b; its name is letters`}},
		{"toolsets: {custom: {count: {command: [./x], schema: ./s, network: [example.com]}}}", []string{`1:67: toolsets.custom.count.network: a list; it is true or false`}},
		{"toolsets: {mcp: {search: {command: [node, ./s.js], files: {readonly: false}}}}", []string{`1:70: toolsets.mcp.search.files: readonly: false; a server runs between calls`}},
		{"toolsets: {mcp: {search: {command: [node], schema: ./x}}}", []string{`1:44: unknown key "schema" in toolsets.mcp.search`}},
		{"toolsets: {mcp: {" + strings.Repeat("s", 33) + ": {command: [node]}}}", []string{`1:18: toolsets.mcp.sssssss`}},
		{"toolsets: {mcp: {search: {url: 'http://example.com/mcp'}}}", []string{`1:32: toolsets.mcp.search.url: not https; write an address such as`}},
		{"toolsets: {mcp: {search: {url: 'https://me:x@example.com/mcp'}}}", []string{`1:32: toolsets.mcp.search.url: a name before the host`}},
		{"toolsets: {mcp: {search: {url: 'https://*.example.com/mcp'}}}", []string{`1:32: toolsets.mcp.search.url: not a`}},
		{"toolsets: {mcp: {search: {url: 'https:///mcp'}}}", []string{`1:32: toolsets.mcp.search.url: not an address`}},
		{"toolsets: {mcp: {search: {url: 'https://example.com/mcp', command: [node], env: [A]}}}", []string{`1:68: toolsets.mcp.search.command beside url; leave it out`, `1:81: toolsets.mcp.search.env beside url`}},
		{"toolsets: {mcp: {search: {command: [node], trust: trusted}}}", []string{`1:51: toolsets.mcp.search.trust: no url`}},
		{"toolsets: {mcp: {search: {url: 'https://example.com/mcp', headers: {Host: secret X, A: sk-123, B: secret, C: env PATH}}}}", []string{
			`1:69: toolsets.mcp.search.headers: Host; it is the name of a header`, `1:88: toolsets.mcp.search.headers.A: no source; write secret NAME`, `1:99: toolsets.mcp.search.headers.B: no source`, `1:110: toolsets.mcp.search.headers.C: PATH; write the name`}},
		{"toolsets: {git: {credentials: {mode: none}}}", []string{`1:38: toolsets.git.credentials.mode: none; it is `}},

		// old keys next to the current ones
		{"allow_workers: [a]\ntoolsets: {workers: {allowed_workers: [a]}}", []string{`1:16: allow_workers beside toolsets.workers.allowed_workers; they say the same; keep toolsets.workers.allowed_workers`}},
		{"shell_rules: [{pattern: a, approval: ask}]\ntoolsets: {shell: {rules: [{pattern: a, approval: ask}]}}", []string{`1:14: shell_rules beside toolsets.shell.rules;`}},
		{"shell_default: {approval: ask}\ntoolsets: {shell: {default: {approval: ask}}}", []string{`1:16: shell_default beside toolsets.shell.default;`}},
		{"shell_rules: [{pattern: a, approval: ask, allowed: false}]", []string{`1:38: shell rule: approval beside allowed or approval_required; they say the same; keep approval`}},
		{"tool_rules: {sandbox.write: {allowed: false}}\ntoolsets: {filesystem: {approval: {read: ask}}}", []string{`1:14: tool_rules.sandbox.write beside toolsets.filesystem.approval;`}},
		{"tool_rules: {shell: {allowed: false}}\ntoolsets: {shell: {default: {approval: ask}}}", []string{`1:14: tool_rules.shell beside toolsets.shell.default;`}},
		{"tool_rules: {shell: {}}", []string{`1:14: tool_rules.shell: says nothing; write allowed: false or approval_required`}},
		{"tool_rules: {shell: }", []string{`1:14: tool_rules.shell: says nothing`}},
		{"tool_rules: {}", []string{`1:13: tool_rules: an empty map`}},
		{"tool_rules: {sandbox.reed: {allowed: false}}", []string{`1:14: tool_rules.sandbox.reed: no such name; did you mean sandbox.read? it is the name of a tool, or one of sandbox.read, sandbox.write, shell, worker.call, worker.create`}},
		{"tool_rules: {shell: {allowed: no}}", []string{`1:31: tool_rules.shell.allowed: no; it is `}},
	} {
		got := problemsOf(t, c.text)
		for i, p := range got {
			text := strings.TrimPrefix(p.Error(), "w.worker:")
			if i >= len(c.want) || !strings.HasPrefix(text, c.want[i]) {
				t.Errorf("%q:\ngot problem %d\n%s\nwant\n%s", c.text, i+1, text, strings.Join(c.want, "\n"))
				break
			}
			if p.Hint == "" {
				t.Errorf("%q: %s has no hint", c.text, text)
			}
		}
		if len(got) < len(c.want) {
			t.Errorf("%q: got %d problems, want %d:\n%v", c.text, len(got), len(c.want), got)
		}
	}
}

// TestEnvironment: golem refuses secrets, and variables that make git run programs. The
// error does not show the secret.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"GIT_SSH_COMMAND", "sh -c x", "GIT_SSH_COMMAND may not be set; "},
		{"GIT_CONFIG_COUNT", "1", "GIT_CONFIG_COUNT may not be set"},
		{"GIT_CONFIG_KEY_0", "core.sshCommand", "may not be set"},
		{"GIT_EXTERNAL_DIFF", "x", "may not be set; such variables have git run programs"},
		{"GIT_ASKPASS", "x", "may not be set"},
		{"SSH_ASKPASS", "x", "may not be set"},
		{"GIT_TRACE", "/tmp/x", "may not be set"},
		{"GIT_PROXY_COMMAND", "x", "may not be set"},
		{"GIT_DIR", "/x", "may not be set"},
		{"git_ssh_command", "x", "may not be set"},
		{"LD_PRELOAD", "x", "may not be set"},
		{"PATH", "/x", "may not be set"},
		{"GIT_AUTHOR_NAM", "x", "did you mean GIT_AUTHOR_NAME?"},
		{"GITLAB_TOKEN", "x", `unknown key "GITLAB_TOKEN" in toolsets.git.credentials.env; did you mean GITHUB_TOKEN?`},
		{"FOO", "x", `unknown key "FOO"`},
		{"GITHUB_TOKEN", "ghp_hunter2", "credentials.env.GITHUB_TOKEN: a value; a secret does not belong in a file; write $GITHUB_TOKEN"},
		{"GITHUB_TOKEN", "$GH_TOKEN", "a secret does not belong in a file"},
		{"SSH_AUTH_SOCK", "/run/hunter2", "credentials.env.SSH_AUTH_SOCK: a value"},
		{"GIT_TERMINAL_PROMPT", "1", "credentials.env.GIT_TERMINAL_PROMPT: not 0"},
		{"GIT_AUTHOR_NAME", `"a\nb"`, "credentials.env.GIT_AUTHOR_NAME: not a name or address; one line"},
		{"GIT_AUTHOR_NAME", "a <b>", "not a name or address"},
		{"GIT_COMMITTER_EMAIL", `""`, "not a name or address"},
		{"GIT_AUTHOR_EMAIL", "", "toolsets.git.credentials.env.GIT_AUTHOR_EMAIL: nothing; it is "},
		{"GIT_AUTHOR_EMAIL", "[a]", "GIT_AUTHOR_EMAIL: a list; it is "},
	} {
		text := "toolsets:\n  git:\n    credentials:\n      env:\n        " + c.name + ": " + c.value + "\n"
		got := problemsOf(t, text)
		if len(got) != 1 || got[0].Place.Line != 5 || !strings.Contains(got[0].Error(), c.want) {
			t.Errorf("%s=%s: got\n%v\nwant one in line 5 with\n%s", c.name, c.value, got, c.want)
		}
		if strings.Contains(got.Error(), "hunter2") {
			t.Errorf("%s: the error has the value: %v", c.name, got)
		}
	}
}

// TestHostile: golem refuses hostile YAML quickly and with little memory. The limit is
// wide, because the machine may be busy, but it catches growth.
func TestHostile(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for _, c := range "bcdefghij" {
		last := string(c - 1)
		laughs += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+last+",", 9) + "*" + last + "]\n"
	}
	for _, c := range []struct{ name, text, want string }{
		{"billion laughs", laughs, "an anchor"},
		{"an anchor", "name: &a b", "1:7: an anchor"},
		{"an alias", "name: a\ndescription: &x b\nprompt: *x", "3:9: an alias"},
		{"a merge key", "sandbox: {<<: {restrict: /}}", "a merge key"},
		{"a tag", "name: !!str a", "1:7: a tag"},
		{"a tag of its own", "name: !go a", "1:7: a tag"},
		{"a tag on a map", "sandbox: !!map {}", "1:10: a tag"},
		{"a key twice, deep", "sandbox: {zones: [{name: a, mode: ro, mode: rw}]}", `"mode" twice`},
		{"a toolset twice", "toolsets: {shell: , shell: {default: {approval: preApproved}}}", `"shell" twice`},
		{"a key that is a list", "? [a]\n: b", "a key that is a list"},
		{"tabs", "sandbox:\n\tzones: []", "not YAML"},
		{"deep brackets", "output_schema: " + strings.Repeat("[", 100_000), "nested too deep"},
		{"deep maps", "output_schema: " + strings.Repeat("{a: ", 1000) + strings.Repeat("}", 1000), "nested too deep"},
		{"deep indents", nestMaps(300), "nested too deep"},
		{"a long text", "description: " + strings.Repeat("x", 300_000), "a value of 300000 bytes"},
		{"50 MB", strings.Repeat("x", 50<<20), "52428800 bytes"},
		{"50 MB of front matter", "---\n" + strings.Repeat("a: b\n", 10<<20), "bytes"},
		{"NUL", "name: a\x00b", "not YAML"},
		{"variables without end", "toolsets:\n  git:\n    credentials:\n      env:\n" + repeatLines("        GIT_%d: x\n", 20_000), "5:9: a map of 20000 entries; at most 1000"},
		{"variables", "toolsets:\n  git:\n    credentials:\n      env:\n" + repeatLines("        GIT_%d: x\n", 1000), "GIT_98 may not be set"},
		{"keys without end", repeatLines("k%d: 1\n", 80_000), "1:1: a map of 80000 entries; at most 1000"},
		{"keys", repeatLines("k%d: 1\n", 1000), "1:1: unknown key \"k0\""},
		{"items without end", "output_schema: {a: [" + repeatLines("%d, ", 1001) + "]}", "1:20: a list of 1001 entries; at most 1000"},
		{"zones without end", "sandbox: {zones: [" + repeatLines("{name: z%d}, ", 101) + "]}", "1:18: sandbox.zones: a list of 101 entries; a worker names at most 100 directories"},
		{"paths without end", "sandbox: {paths: {" + repeatLines("z%d: {root: .}, ", 101) + "}}", "1:18: sandbox.paths: a map of 101 entries; a worker names at most 100 directories"},
		{"invalid UTF-8 in front", "---\nname: \xff\n---\n", "not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			if got := problemsOf(t, c.text).Error(); !strings.Contains(got, c.want) {
				t.Errorf("got %.500s, want %s", got, c.want)
			} else if len(got) > 100_000 {
				t.Errorf("got %d bytes of problems", len(got))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func repeatLines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func nestMaps(n int) string {
	var b strings.Builder
	b.WriteString("output_schema:\n")
	for i := range n {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

// TestProblemsAreShown: control characters in a file do not reach the terminal.
func TestProblemsAreShown(t *testing.T) {
	for _, text := range []string{
		"\"n\\e[2Jame\": a", "name: \"a\\e[8m\"", "sandbox: {restrict: \"/../\\e[2J\"}", "toolsets: [\"\\e[2J\"]", "toolsets: [custom, \"\\u202e\"]",
		"sandbox: {zones: [{name: \"a/\\e\"}]}", "sandbox: {paths: {\"\\e/\": {root: .}, \"\\e\": {}}}", "tool_rules: {\"\\e\": {}}",
		"toolsets: {git: {default_target: \"\\e\", credentials: {env: {\"GIT_\\e\": x}}}}", "allow_workers: [\"\\e\"]",
		"shell_rules: [{pattern: \"\\e\", approval: ask}]", "mode: \"\\e[2J\"",
		"toolsets: {git: {default_target: {type: remote, url: \"\\e\", branch: \"\\e\"}}}",
	} {
		_, err := worker.Parse("w.worker", []byte(text))
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("%q: got %q", text, err)
		}
	}
}

// TestProblemsInOrder: the error is one value with all problems, in the order of the
// file.
func TestProblemsInOrder(t *testing.T) {
	_, err := worker.Parse("w.worker", []byte("locked: maybe\nsandbox: {zones: [{name: a/b}]}\nnmae: x\nmode: y"))
	var problems strictyaml.Problems
	if !errors.As(err, &problems) || len(problems) != 4 {
		t.Fatalf("got %v, want four problems", err)
	}
	for i, p := range problems {
		if p.Place.Line != i+1 {
			t.Errorf("problem %d: got line %d", i+1, p.Place.Line)
		}
	}
}
