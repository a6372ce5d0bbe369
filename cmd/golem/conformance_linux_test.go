package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// conformanceProgram has tools with the names that the suite calls. They do what the
// suite wants as far as a tool of a program or of an MCP server can.
var conformanceProgram = map[string]string{
	"golem-forge.config.yaml": "sandbox:\n  root: ./tree\n",
	"main.worker": `---
sandbox: inherit
toolsets:
  filesystem:
  custom:
    test_simple_text: {command: [echo, This is a simple text response for testing.], schema: ./free.json}
    test_error_handling: {command: ["false"], schema: ./free.json}
    test_tool_with_progress: {command: [sleep, "3.5"], schema: ./free.json}
    test_header: {command: [cat], schema: ./header.json}
    json_schema_2020_12_tool: {command: [cat], schema: ./schema.json}
    test_elicitation: {command: [echo, done], schema: ./asks.json}
    test_input_required_result_elicitation: {command: [echo, done], schema: ./asks.json}
    test_input_required_result_request_state: {command: [echo, state-ok], schema: ./asks.json}
    test_input_required_result_tampered_state: {command: [echo, done], schema: ./asks.json}
  mcp:
    test: {command: [sh, ./image.sh], approval: preApproved}
---
Work.
`,
	"image.sh": `while read -r line; do
	id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"image","version":"1"}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"image_content","description":"A tool of the suite.","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) result='{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}]}' ;;
	*) continue ;;
	esac
	echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
`,
	"free.json":   `{"description": "A tool of the suite.", "type": "object", "x-golem": {"approval": "preApproved"}}`,
	"asks.json":   `{"description": "A tool of the suite.", "type": "object", "properties": {"message": {"type": "string"}}}`,
	"header.json": `{"description": "A tool with a header.", "type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "required": ["region"], "x-golem": {"approval": "preApproved"}}`,
	"schema.json": `{"description": "A tool with a schema.", "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
 "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
 "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}},
 "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
 "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]}, "then": {"required": ["phone"]}, "else": {"required": ["email"]},
 "additionalProperties": false, "x-golem": {"approval": "preApproved"}}`,
	"tree/a": "0",
}

// The reasons why golem fails a scenario.
const (
	noPrompts    = "golem has no prompts"
	noMedia      = "tools of others answer with text and images"
	noSampling   = "golem asks no client for its model, its roots or anything but consent"
	oneForm      = "golem asks for consent alone, by a form of its own"
	oneResource  = "golem has its own resources, and sends notifications only for golem://approvals"
	noLogging    = "golem sends no log messages"
	noCompletion = "golem completes nothing"
)

// conformanceFailures are the scenarios that are expected to fail, and why.
var conformanceFailures = map[string]string{
	"completion-complete":           noCompletion,
	"prompts-get-simple":            noPrompts,
	"prompts-get-with-args":         noPrompts,
	"prompts-get-embedded-resource": noPrompts,
	"prompts-get-with-image":        noPrompts,
	"resources-read-text":           oneResource,
	"resources-read-binary":         oneResource,
	"resources-templates-read":      oneResource,
	"resources-subscribe":           oneResource,
	"resources-unsubscribe":         oneResource,
	"tools-call-audio":              noMedia,
	"tools-call-embedded-resource":  noMedia,
	"tools-call-mixed-content":      noMedia,
	"tools-call-with-logging":       noLogging,
	"tools-call-sampling":           noSampling,
	"elicitation-sep1034-defaults":  oneForm,
	"elicitation-sep1330-enums":     oneForm,
	"server-sse-polling":            "a stream is not taken up again: a call whose client has gone is ended",

	"input-required-result-basic-elicitation":       oneForm,
	"input-required-result-multi-round":             oneForm,
	"input-required-result-multiple-input-requests": oneForm,
	"input-required-result-basic-sampling":          noSampling,
	"input-required-result-basic-list-roots":        noSampling,
	"input-required-result-capability-check":        noSampling,
	"input-required-result-non-tool-request":        noPrompts,
	"server-stateless":                              "no tool needs a client's model, which two checks want; and prompts/list is answered, with none, though golem declares no prompts",
}

// conformanceChecks holds how many checks of an expected failure fail, if more than one.
var conformanceChecks = map[string]string{"server-stateless": "3"}

// tryConformance runs the official suite against golem mcp --http, for each revision that
// the suite knows. It checks that each scenario passes or fails as expected, and logs a
// report.
func tryConformance(t *testing.T, m nodeModules) {
	_, _, golem := newTrustedProgram(t, conformanceProgram)
	if out, err := golem("tools", "--accept", "test", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// The suite sends no token, so a proxy adds it.
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := socket.Addr().String()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-for-the-suite-alone"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := golem("mcp", "--http", "127.0.0.1:0", "--token-file", token, "--host", host, "--origin", "http://"+host)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}()
	var target *url.URL
	var begun strings.Builder
	for lines := bufio.NewScanner(said); target == nil; {
		if !lines.Scan() {
			t.Fatalf("golem mcp does not listen:\n%s", begun.String())
		}
		begun.WriteString(lines.Text() + "\n")
		if _, address, ok := strings.Cut(lines.Text(), "listening at "); ok {
			if target, err = url.Parse(strings.TrimSuffix(address, "/mcp")); err != nil {
				t.Fatal(err)
			}
		}
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the suite disconnects before answers end
	proxy := &http.Server{Handler: &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: quiet, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer a-token-for-the-suite-alone")
		// If the answer comes while the transport still sends the body, it sometimes
		// closes the connection in the middle of the answer. So the proxy reads the whole
		// body first.
		body, _ := io.ReadAll(r.In.Body) // an incomplete body makes the request invalid
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
	}}}
	go proxy.Serve(socket)
	defer proxy.Close()

	var suites sync.WaitGroup
	reports, details := make([]string, 3), t.TempDir()
	for i, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		suites.Go(func() {
			// The suite ends with an error if a scenario fails.
			dir := filepath.Join(details, revision)
			out, err := m.command(t, golem(), "conformance", "server", "--url", "http://"+host+"/mcp", "--suite", "all", "--spec-version", revision, "--output-dir", dir).CombinedOutput()
			reports[i] = conformanceReport(t, revision, dir, string(out))
			if reports[i] == "" {
				t.Errorf("%s: %v\n%s", revision, err, out)
			}
		})
	}
	suites.Wait()
	report := strings.Join(reports, "")
	t.Log("\n" + report)
	if file := os.Getenv("GOLEM_TEST_CONFORMANCE"); file != "" { // make test prints the file
		if err := os.WriteFile(file, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// conformanceLine matches a line of the suite's summary.
var conformanceLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed`)
})

// conformanceReport returns a report of the scenarios, or "" if there are none. The suite
// wrote the checks of the scenarios to dir.
func conformanceReport(t *testing.T, revision, dir, out string) string {
	var passed, failed []string
	for _, line := range conformanceLine().FindAllStringSubmatch(out, -1) {
		name := line[2]
		why, expected := conformanceFailures[name]
		switch failing := line[1] == "✗"; {
		case failing && expected && line[4] == cmp.Or(conformanceChecks[name], "1"):
			failed = append(failed, fmt.Sprintf("  %s: %s passed, %s failed: %s\n", name, line[3], line[4], why))
		case failing:
			failed = append(failed, fmt.Sprintf("  %s: %s passed, %s failed, WHICH IS NEW\n", name, line[3], line[4]))
			t.Errorf("%s: %s: %s checks fail: %s", revision, name, line[4], conformanceReasons(dir, name))
		case expected:
			t.Errorf("%s: %s passes, and is expected to fail", revision, name)
		default:
			passed = append(passed, name)
		}
	}
	if len(passed)+len(failed) == 0 {
		return ""
	}
	slices.Sort(failed)
	return fmt.Sprintf("MCP conformance, revision %s: %d scenarios pass, %d fail as expected\n  pass: %s\n%s",
		revision, len(passed), len(failed), strings.Join(passed, ", "), strings.Join(failed, ""))
}

// conformanceReasons returns the suite's messages for the failed checks of a scenario.
func conformanceReasons(dir, scenario string) string {
	var reasons []string
	files, _ := filepath.Glob(filepath.Join(dir, "server-"+scenario+"-20*", "checks.json"))
	for _, file := range files {
		var checks []struct{ ID, Status, ErrorMessage string }
		data, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(data, &checks) != nil {
			continue
		}
		for _, check := range checks {
			if check.Status == "FAILURE" {
				reasons = append(reasons, check.ID+": "+check.ErrorMessage)
			}
		}
	}
	return strings.Join(reasons, "; ")
}
