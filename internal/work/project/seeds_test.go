package project_test

import (
	"testing"
)

// seeds are the project files of the documents that the system comes from, word for word,
// and the settings that those documents show as code, in YAML. Each means what its
// document says.
var seeds = []struct{ name, yaml, dialect, mounts, rest string }{
	{"two-level configuration", `
# golem-forge.config.yaml
sandbox:
  mode: sandboxed          # or 'direct'
  root: .sandbox           # relative to project root
  zones:
    cache:
      path: ./cache
      mode: rw
    workspace:
      path: ./workspace
      mode: rw
    data:
      path: ./data
      mode: ro             # read-only by default
`, "zones", `
		/cache rw program + .sandbox/cache
		/data ro program + .sandbox/data
		/workspace rw program + .sandbox/workspace`, "interactive 5"},

	{"the proposal, with other settings", `
# golem-forge.config.yaml

sandbox:
  mode: sandboxed  # or 'direct'
  root: .sandbox   # relative to project root

  zones:
    cache:
      path: ./cache
      mode: rw
    workspace:
      path: ./workspace
      mode: rw
    data:
      path: ./data
      mode: ro        # read-only by default

# Other project-level settings
approval:
  mode: auto  # or 'manual', 'tool'

delegation:
  maxDepth: 5
`, "zones", `
		/cache rw program + .sandbox/cache
		/data ro program + .sandbox/data
		/workspace rw program + .sandbox/workspace`, "approve_all 5"},

	{"sandboxed mode: virtual paths map to a .sandbox/ directory", `
sandbox:
  mode: sandboxed
  root: .sandbox
`, "zones", `
		/cache rw program + .sandbox/cache
		/workspace rw program + .sandbox/workspace`, "interactive 5"},

	{"direct mode: virtual paths map to real directories", `
sandbox:
  mode: direct
  cache: ./downloads
  workspace: ./reports
`, "zones", `
		/cache rw program + downloads
		/workspace rw program + reports`, "interactive 5"},

	{"single directory mode: the cache is a subdirectory", `
sandbox:
  mode: direct
  workspace: '.'
`, "zones", `
		/cache rw program + .cache
		/workspace rw program + .`, "interactive 5"},

	{"custom zones mode", `
sandbox:
  mode: sandboxed
  root: .sandbox
  zones:
    input: { path: ./input, mode: ro }
    output: { path: ./output, mode: rw }
    temp: { path: ./temp, mode: rw }
`, "zones", `
		/input ro program + .sandbox/input
		/output rw program + .sandbox/output
		/temp rw program + .sandbox/temp`, "interactive 5"},

	{"the mode of a zone is rw unless written", `
sandbox:
  zones:
    data: { path: ./data }
`, "zones", `/data rw program + .sandbox/data`, "interactive 5"},

	{"default zones, used when no project config exists", ``, "default", `
		/cache rw program + .sandbox/cache
		/workspace rw program + .sandbox/workspace`, "interactive 5"},

	{"simple program access", `
sandbox:
  root: .
`, "mounts", `/ rw program + .`, "interactive 5"},

	{"read-only analysis", `
sandbox:
  root: .
  readonly: true
`, "mounts", `/ ro program + .`, "interactive 5"},

	{"program with shared cache", `
sandbox:
  root: .
  mounts:
    - { source: ~/.npm, target: /cache, readonly: true }
`, "mounts", `
		/ rw program + .
		/cache ro home/.npm`, "interactive 5"},

	{"with additional mounts", `
sandbox:
  root: .
  readonly: false
  mounts:
    - { source: ~/.npm, target: /cache, readonly: true }
`, "mounts", `
		/ rw program + .
		/cache ro home/.npm`, "interactive 5"},

	{"llm-do", `
# workers/example.worker
sandbox:
  paths:
    portfolio:
      root: ./portfolio
      mode: rw
      suffixes: [.md, .pdf]
      max_file_bytes: 10000000
    pipeline:
      root: ./pipeline
      mode: ro
  network: false
  require_os_sandbox: false
`, "paths", `
		/pipeline ro program + pipeline
		/portfolio rw program + portfolio [.md .pdf] 10000000`, "interactive 5"},

	{"llm-do in a worker that was never read", `
sandbox:
  paths:
    cache:
      root: "./cache"
      mode: "rw"
      suffixes: [".json", ".txt"]
`, "paths", `/cache rw program + cache [.json .txt]`, "interactive 5"},

	{"the mode of a path is ro unless written", `
sandbox:
  paths:
    pipeline: { root: ./pipeline }
`, "paths", `/pipeline ro program + pipeline`, "interactive 5"},
}

func TestSeeds(t *testing.T) {
	w := newWorld(t)
	for _, seed := range seeds {
		t.Run(seed.name, func(t *testing.T) {
			p, err := w.parse(seed.yaml)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.table(p); got != trimIndent(seed.mounts) || p.Dialect != seed.dialect {
				t.Errorf("%s:\n%s\nwant %s:\n%s", p.Dialect, got, seed.dialect, trimIndent(seed.mounts))
			}
			if got := p.Approval + " " + findValue(p, "delegation.max_depth").Text; got != seed.rest {
				t.Errorf("%s, want %s", got, seed.rest)
			}
			if !p.Network.IsEmpty() || p.Level != "" || len(p.Rules) > 0 {
				t.Errorf("network %v, level %q, rules %v", p.Network, p.Level, p.Rules)
			}
		})
	}
}

// TestSeedSandbox uses the sandbox of the first document as its text does.
func TestSeedSandbox(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse(seeds[0].yaml)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Sandbox(openPlainMount)
	if err != nil {
		t.Fatal(err)
	}
	if entries, _ := s.List("/"); len(entries) != 3 || entries[0].Name != "cache" {
		t.Errorf("list / shows %v", entries)
	}
	_, err = s.Write("/data/new.txt", nil)
	if want := "write /data/new.txt: read_only; writable: /cache, /workspace"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := s.Write("/cache/doc.pdf", nil); err != nil {
		t.Error(err)
	}
}
