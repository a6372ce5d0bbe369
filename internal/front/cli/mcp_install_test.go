package cli

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestEntries checks that golem adds its entry to a client's file once, or refuses.
// Everything else in the file stays as it is.
func TestEntries(t *testing.T) {
	entry := client{under: "mcpServers"}.entry("golem", []string{"mcp"})
	const golem = `    "golem": {
      "command": "golem",
      "args": ["mcp"]
    }`
	for _, test := range []struct{ old, want string }{
		{"", "{\n  \"mcpServers\": {\n" + golem + "\n  }\n}\n"},
		{"{}\n", "{\n  \"mcpServers\": {\n" + golem + "\n  }\n}\n"},
		{"{\n}\n", "{\n  \"mcpServers\": {\n" + golem + "\n  }\n}\n"},
		{"{\n  \"theme\": \"dark\"\n}\n", "{\n  \"mcpServers\": {\n" + golem + "\n  },\n  \"theme\": \"dark\"\n}\n"},
		{"{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"}\n  }\n}\n", "{\n  \"mcpServers\": {\n" + golem + ",\n    \"x\": {\"command\": \"y\"}\n  }\n}\n"},
		{"{\"mcpServers\": { }, \"a\": 1}", "{\"mcpServers\": {\n" + golem + "\n  }, \"a\": 1}"},
		{`{"a": {"mcpServers": {}}, "mcpServers": {"x": {}}}`, `{"a": {"mcpServers": {}}, "mcpServers": {` + "\n" + golem + ",\n    \"x\": {}}}"},
		{`{"mcpServers": {"golem": {"args": ["mcp"], "command": "golem"}}}`, `{"mcpServers": {"golem": {"args": ["mcp"], "command": "golem"}}}`},
		{`{"mcpServers": {"golem": {"command": "evil"}}}`, "its entry golem is another server"},
		{`{"mcpServers": {"golem": {"command": "golem", "args": ["mcp"], "env": {"GOLEM_APPROVAL": "approve_all"}}}}`, "its entry golem is another server, or has fields"},
		{`{"mcpServers": {"golem": {"command": "golem", "args": ["exec"]}}}`, "its entry golem is another server"},
		{`{"mcpServers": {"golem": {"command": "/bin/golem", "args": ["mcp"]}, "golem": {"command": "golem", "args": ["mcp", "--copy"]}}}`, "it is written in a way"},
		{"{\n  // a comment\n}", "line 2 of it is not plain JSON: a comment, or a mistake"},
		{`{"mcpServers": {`, "line 1 of it is not plain JSON: a comment, or a mistake"},
		{"[]", "it is no JSON object"},
		{"null", "it is no JSON object"},
		{`{"mcpServers": []}`, "mcpServers in it is no object"},
		{`{"mcpServers": null}`, "mcpServers in it is no object"},
		{`{} {}`, "line 1 of it is not plain JSON"},
		{`{"mcpServers": {"golem": {"command": "evil"}}, "mcpServers": {}}`, "it is written in a way"},
		{"{\r\n  \"mcpServers\": {\r\n    \"x\": {}\r\n  }\r\n}\r\n", "{\r\n  \"mcpServers\": {\n" + golem + ",\r\n    \"x\": {}\r\n  }\r\n}\r\n"},
	} {
		got, err := entry.into(test.old)
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.old, got, test.want)
		}
		var was, is map[string]any
		if err != nil || test.old == "" || json.Unmarshal([]byte(test.old), &was) != nil {
			continue
		}
		if err := json.Unmarshal([]byte(got), &is); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		servers, _ := is["mcpServers"].(map[string]any)
		if had, _ := was["mcpServers"].(map[string]any); had == nil {
			delete(is, "mcpServers")
		} else if had["golem"] == nil {
			delete(servers, "golem")
		}
		if !reflect.DeepEqual(is, was) {
			t.Errorf("%s: the rest of the file has changed: %s", test.old, got)
		}
	}
	// golem replaces an older entry of its own.
	for _, test := range []struct{ old, want string }{
		{`{"a": 1, "mcpServers": {"x": {}, "golem": {"command": "/opt/golem", "args": ["mcp", "--copy"]}, "y": {}}}`,
			`{"a": 1, "mcpServers": {"x": {}, ` + strings.TrimSpace(golem) + `, "y": {}}}`},
		{"{\n  \"mcpServers\": {\n    \"golem\" : {\n      \"type\": \"stdio\",\n      \"command\": \"C:\\\\golem.exe\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"golem\" : " + strings.TrimPrefix(golem, `    "golem": `) + "\n  }\n}\n"},
	} {
		if got, err := entry.into(test.old); err != nil || got != test.want {
			t.Errorf("%s: got\n%s, %v, want\n%s", test.old, got, err, test.want)
		}
	}
	toml := client{}.entry("golem", []string{"mcp"})
	const codex = "[mcp_servers.golem]\ncommand = \"golem\"\nargs = [\"mcp\"]\n"
	for _, test := range []struct{ old, want string }{
		{"", codex},
		{codex, codex},
		{"model = \"x\"", "model = \"x\"\n\n" + codex},
		{"[mcp_servers.other]\ncommand = \"y\"\n\n\n", "[mcp_servers.other]\ncommand = \"y\"\n\n" + codex},
		{"[ mcp_servers . \"golem\" ]\ncommand = \"y\"\n", "it says something about mcp_servers already"},
		{"mcp_servers = {}\n", "it says something about mcp_servers already"},
		{"[mcp_servers]\ngolem = {command = \"y\"}\n", "it says something about mcp_servers already"},
		{"[mcp_servers.\"gol\\u0065m\"]\ncommand = \"y\"\n", "it says something about mcp_servers already"},
		{"text = \"\"\"\nnot closed\n", "a text in it has no end"},
		{"a = 1\n[mcp_servers.golem]\ncommand = \"/opt/golem\"\nargs = [\"mcp\", \"--copy\"]\n\n[b]\n", "a = 1\n" + codex + "\n[b]\n"},
		{"[mcp_servers.golem]\ncommand = \"evil\"\nargs = [\"mcp\"]\n", "it says something about mcp_servers already"},
		{"[mcp_servers.golem]\ncommand = \"golem\"\nargs = [\"mcp\", \"--copy\"]\ncwd = \"/\"\n", "it says something about mcp_servers already"},
		{"# " + codex, "# " + codex + "\n" + codex},
		{codex + "\n[features]\nx = true\n", codex + "\n[features]\nx = true\n"},
		{codex + "env = {GOLEM_APPROVAL = \"approve_all\"}\n", "it says something about mcp_servers already"},
		{codex + "[mcp_servers.golem.env]\nGOLEM_APPROVAL = \"approve_all\"\n", "it says something about mcp_servers already"},
		{"text = \"\"\"\n" + codex + "\"\"\"\n", "it says something about mcp_servers already"},
		// These set a variable that answers for the user, in several places and
		// spellings.
		{"[mcp_servers.golem.env]\nGOLEM_APPROVAL = \"approve_all\"\n", "it says something about mcp_servers already"},
		{"[mcp_servers.golem.env]\nGOLEM_APPROVAL = \"approve_all\"\n" + codex, "it says something about mcp_servers already"},
		{"\ufeff[ 'mcp_servers' . golem . env ]\r\nGOLEM_APPROVAL = \"approve_all\"\r\n", "it says something about mcp_servers already"},
		{"mcp_servers.golem.env.GOLEM_APPROVAL = \"approve_all\"\n", "it says something about mcp_servers already"},
		{"[\"mcp\\u005fservers\".golem.env]\nGOLEM_APPROVAL = \"approve_all\"\n", "it says something about mcp_servers already"},
		{"\"mcp\\u005fservers\" = {golem = {env = {GOLEM_APPROVAL = \"approve_all\"}}}\n", "it says something about mcp_servers already"},
		{codex + "[\"mcp\\u005fservers\".golem.env]\nGOLEM_APPROVAL = \"approve_all\"\n", "it says something about mcp_servers already"},
		{"[[mcp_servers]]\n", "it says something about mcp_servers already"},
		{"[mcp_servers.golem2.env]\nPATH = \"C:\\\\x\"\n", "[mcp_servers.golem2.env]\nPATH = \"C:\\\\x\"\n\n" + codex},
	} {
		got, err := toml.into(test.old)
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.old, got, test.want)
		}
	}
}

// TestClientEntries checks the form of the entry that each client reads.
func TestClientEntries(t *testing.T) {
	for name, want := range map[string]string{
		"claude-code": `{"mcpServers":{"golem":{"args":["mcp","x"],"command":"golem"}}}`,
		"vscode":      `{"servers":{"golem":{"args":["mcp","x"],"command":"golem","type":"stdio"}}}`,
		"opencode":    `{"mcp":{"golem":{"command":["golem","mcp","x"],"type":"local"}}}`,
		"crush":       `{"mcp":{"golem":{"args":["mcp","x"],"command":"golem","type":"stdio"}}}`,
		"qwen":        `{"mcpServers":{"golem":{"args":["mcp","x"],"command":"golem"}}}`,
		"roo":         `{"mcpServers":{"golem":{"args":["mcp","x"],"command":"golem"}}}`,
		"zed":         `{"context_servers":{"golem":{"args":["mcp","x"],"command":"golem"}}}`,
		"windsurf":    `{"mcpServers":{"golem":{"args":["mcp","x"],"command":"golem"}}}`,
		"cline":       `{"mcpServers":{"golem":{"args":["mcp","x"],"command":"golem"}}}`,
	} {
		i := slices.IndexFunc(clients(), func(c client) bool { return c.name == name })
		if i < 0 {
			t.Errorf("no client %s", name)
			continue
		}
		e := clients()[i].entry("golem", []string{"mcp", "x"})
		var value any
		if err := json.Unmarshal([]byte(e.whole()), &value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := json.Marshal(value); string(got) != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		// an older entry of golem is replaced, with everything else kept
		older := clients()[i].entry("/opt/golem", []string{"mcp"})
		text, err := older.into(`{"theme": "dark"}`)
		if err == nil {
			text, err = e.into(text)
		}
		if err != nil || !e.in(text) || !strings.Contains(text, `"theme": "dark"`) || strings.Contains(text, "/opt") {
			t.Errorf("%s: got %s, %v", name, text, err)
		}
	}
	if _, err := (client{under: "mcp", kind: "local", words: true}).entry("golem", nil).into(`{"mcp": {"golem": {"type": "local", "command": ["evil", "mcp"]}}}`); err == nil {
		t.Error("golem replaced the entry of another program")
	}
}
