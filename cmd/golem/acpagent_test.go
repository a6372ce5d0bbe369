package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// acpAgent is an agent for the jail that speaks the Agent Client Protocol. A prompt has one
// order a line, and the agent reports what each did:
//
//	write FILE TEXT   writes a file
//	read FILE         reads a file
//	sh COMMAND        runs a shell command
//	get URL           gets a URL
//	ask               asks for permission, and reports the outcome
//	call METHOD       calls a method of the editor, and reports the error
//	print TEXT        prints a line that is no message
//	hang NUMBER       ignores signals and the end of its input, with a process sleep NUMBER
//	exit              ends at once
func acpAgent() {
	a := &scriptedAgent{in: bufio.NewReader(os.Stdin)}
	fmt.Fprintln(os.Stderr, "the agent starts\x1b[2J")
	for {
		m := a.next()
		switch m.Method {
		case "initialize":
			a.send(map[string]any{"id": m.ID, "result": map[string]any{"protocolVersion": 1, "seen": m.Params, "authMethods": []any{}}})
		case "session/new":
			a.send(map[string]any{"id": m.ID, "result": map[string]any{"sessionId": "s1"}})
		case "session/prompt":
			var p struct{ Prompt []struct{ Text string } }
			json.Unmarshal(m.Params, &p)
			for line := range strings.Lines(p.Prompt[0].Text) {
				a.say(a.obey(strings.TrimSpace(line)))
			}
			a.send(map[string]any{"id": m.ID, "result": map[string]any{"stopReason": "end_turn"}})
		}
	}
}

type scriptedAgent struct {
	in    *bufio.Reader
	calls int
}

type acpMessage struct {
	ID             json.RawMessage
	Method         string
	Params, Result json.RawMessage
	Error          *struct {
		Code    int
		Message string
	}
}

func (a *scriptedAgent) next() (m acpMessage) {
	line, err := a.in.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &m)
	}
	if err != nil {
		os.Exit(0)
	}
	return m
}

func (a *scriptedAgent) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	data, _ := json.Marshal(m)
	os.Stdout.Write(append(data, '\n'))
}

func (a *scriptedAgent) say(text string) {
	a.send(map[string]any{"method": "session/update", "params": map[string]any{"sessionId": "s1", "update": map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}}}})
}

func (a *scriptedAgent) call(method string, params map[string]any) acpMessage {
	a.calls++
	id := fmt.Sprintf("call-%d", a.calls)
	a.send(map[string]any{"id": id, "method": method, "params": params})
	for {
		if m := a.next(); m.Method == "" && string(m.ID) == `"`+id+`"` {
			return m
		}
	}
}

// obey carries out an order and returns what to report.
func (a *scriptedAgent) obey(line string) string {
	order, rest, _ := strings.Cut(line, " ")
	switch order {
	case "write":
		file, text, _ := strings.Cut(rest, " ")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			return err.Error()
		}
		return "wrote " + file
	case "read":
		data, err := os.ReadFile(rest)
		return fmt.Sprintf("%s%v", data, err)
	case "sh":
		out, err := exec.Command("sh", "-c", rest).CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	case "get":
		client := http.Client{Timeout: 20 * time.Second}
		r, err := client.Get(rest)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		data, _ := io.ReadAll(r.Body)
		return string(data)
	case "ask":
		m := a.call("session/request_permission", map[string]any{"sessionId": "s1", "toolCall": map[string]any{"toolCallId": "t1", "title": "a tool"}, "options": []map[string]any{{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}}})
		return string(m.Result)
	case "call":
		m := a.call(rest, map[string]any{"sessionId": "s1", "path": "/etc/passwd"})
		if m.Error == nil {
			return "it was allowed"
		}
		return m.Error.Message
	case "print":
		fmt.Println(rest)
		return "printed"
	case "hang":
		a.say("hanging")
		exec.Command("sh", "-c", `trap "" TERM INT HUP; sleep `+rest+` & sleep `+rest).Run()
		select {}
	case "exit":
		os.Exit(3)
	}
	return "no such order"
}
