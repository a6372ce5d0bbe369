package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/measure"
)

// A fileServer is a program that serves files over MCP, with the names that it has for
// things.
type fileServer struct {
	name    string
	command []string
	top     string // what its paths begin with
	tools   map[string]string
	edit    func(path, old, new string) map[string]any
}

// benchMCP measures golem mcp beside other servers of files, each over its streams, with
// the same calls.
func benchMCP(b *testing.B, t *measure.Table, golem string) {
	dir := b.TempDir()
	tree := filepath.Join(dir, "tree")
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	put(filepath.Join(tree, "small"), strings.Repeat("0123456789abcde\n", 64))
	for i := range 1000 {
		put(filepath.Join(tree, "list", fmt.Sprint("file", i)), "x\n")
	}
	for i := range 50_000 {
		put(filepath.Join(tree, "many", fmt.Sprint(i%100), fmt.Sprint(i%25), fmt.Sprint("file", i, ".txt")), "some text\n")
	}
	servers := []fileServer{{"golem", []string{golem, "mcp", "--root", tree + ":rw", "--approval", "approve_all"}, "",
		map[string]string{"read": "read_file", "write": "write_file", "edit": "edit_file", "list": "list_files", "find": "find_files"},
		func(path, old, new string) map[string]any {
			return map[string]any{"path": path, "edits": []map[string]string{{"old": old, "new": new}}}
		}}}
	if script := filepath.Join(os.Getenv("JAIL_BENCH_PEERS"), "@modelcontextprotocol/server-filesystem/dist/index.js"); exists(script) {
		servers = append(servers, fileServer{"the official server", []string{"node", script, tree}, tree,
			map[string]string{"read": "read_text_file", "write": "write_file", "edit": "edit_file", "list": "list_directory", "find": "search_files"},
			func(path, old, new string) map[string]any {
				return map[string]any{"path": path, "edits": []map[string]string{{"oldText": old, "newText": new}}}
			}})
	}
	if program := os.Getenv("MCP_BENCH_MARK3LABS"); program != "" && exists(program) {
		servers = append(servers, fileServer{"mark3labs' server", []string{program, tree}, tree,
			map[string]string{"read": "read_file", "write": "write_file", "list": "list_directory", "find": "search_files"}, nil})
	}
	if len(servers) == 1 {
		fmt.Println("without other MCP servers, which are not there")
		return
	}
	var live []*fileClient
	for _, s := range servers {
		live = append(live, startServer(b, s, dir))
	}
	row := func(work string, rounds int, burst time.Duration, sides func(*fileClient) func(int)) {
		var all []func(int)
		for _, c := range live {
			all = append(all, sides(c))
		}
		took := measure.Turns(rounds, burst, all...)
		for i := 1; i < len(took); i++ {
			t.Against("mcp: "+work, took[0], servers[i].name, took[i], 1)
		}
	}
	one := func(tool string, args func(c *fileClient, n int) map[string]any) func(*fileClient) func(int) {
		return func(c *fileClient) func(int) {
			n := 0
			return measure.Repeat(func() {
				n++
				c.call(c.tools[tool], args(c, n))
			})
		}
	}
	row("cold start", measure.FewRounds, measure.Burst, func(c *fileClient) func(int) {
		return measure.Repeat(func() { startServer(b, c.fileServer, dir).end() })
	})
	path := func(c *fileClient, name string) string { return c.top + "/" + name }
	row("read 1 KiB", measure.ManyRounds, measure.Burst, one("read", func(c *fileClient, _ int) map[string]any { return map[string]any{"path": path(c, "small")} }))
	row("write 1 KiB", measure.ManyRounds, measure.Burst, one("write", func(c *fileClient, n int) map[string]any {
		return map[string]any{"path": path(c, "written-"+strconv.Itoa(len(c.name))), "content": strings.Repeat(strconv.Itoa(n)+"\n", 200)}
	}))
	for _, c := range live {
		put(filepath.Join(tree, "edited-"+strconv.Itoa(len(c.name))), "is 0\n")
	}
	if len(live) == 2 { // the third has another way to edit
		row("edit", measure.ManyRounds, measure.Burst, one("edit", func(c *fileClient, n int) map[string]any {
			return c.edit(path(c, "edited-"+strconv.Itoa(len(c.name))), fmt.Sprintf("is %d\n", n-1), fmt.Sprintf("is %d\n", n))
		}))
	}
	row("list 1,000 files", measure.ManyRounds, measure.Burst, one("list", func(c *fileClient, _ int) map[string]any { return map[string]any{"path": path(c, "list")} }))
	row("find in 50,000 files", measure.FewRounds, measure.Burst, one("find", func(c *fileClient, _ int) map[string]any {
		return map[string]any{"path": path(c, "many"), "pattern": "**/file4999*.txt"}
	}))
	row("64 reads in flight, each", measure.FewRounds, 100*time.Millisecond, func(c *fileClient) func(int) {
		return func(times int) { c.flight(times, 64, c.tools["read"], map[string]any{"path": path(c, "small")}) }
	})
	row("a small read while a find runs", measure.FewRounds, measure.Burst, func(c *fileClient) func(int) {
		return measure.Repeat(func() {
			find := c.send(c.tools["find"], map[string]any{"path": path(c, "many"), "pattern": "**/none*"})
			c.await(c.send(c.tools["read"], map[string]any{"path": path(c, "small")}))
			c.later = append(c.later, find)
		})
	})
	for i, c := range live {
		memory := c.memory()
		if i == 0 {
			continue
		}
		ours := live[0].memory()
		t.Row("mcp: resident memory afterwards", fmt.Sprintf("%d MB", ours>>10), fmt.Sprintf("%d MB %s", memory>>10, c.name), fmt.Sprintf("%.2f×", float64(ours)/float64(memory)), "1.00×", t.Judge(ours <= memory))
	}
	for _, c := range live {
		c.end()
	}
}

// A fileClient speaks with one of the servers, in as few steps as can be.
type fileClient struct {
	fileServer
	b     *testing.B
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	last  int
	later []int        // calls whose answers nobody waits for
	came  map[int]bool // answers that came before they were waited for
}

func startServer(b *testing.B, s fileServer, dir string) *fileClient {
	c := &fileClient{fileServer: s, b: b, cmd: exec.Command(s.command[0], s.command[1:]...), came: make(map[int]bool)}
	c.cmd.Dir, c.cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+filepath.Join(dir, "state"))
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	if err := c.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c.await(c.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`))
	io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return c
}

func (c *fileClient) request(method, params string) int {
	c.last++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.last, method, params); err != nil {
		c.b.Fatalf("%s: %v", c.name, err)
	}
	return c.last
}

func (c *fileClient) send(tool string, args map[string]any) int {
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": args})
	if err != nil {
		c.b.Fatal(err)
	}
	return c.request("tools/call", string(params))
}

func (c *fileClient) call(tool string, args map[string]any) { c.await(c.send(tool, args)) }

// await reads answers until that of a call is there.
func (c *fileClient) await(id int) {
	for !c.came[id] {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			c.b.Fatalf("%s: %v", c.name, err)
		}
		var head struct{ ID *int }
		if err := json.Unmarshal(line, &head); err != nil || head.ID == nil {
			continue // something that nobody has asked for
		}
		if bytes.Contains(line, []byte(`"isError":true`)) || bytes.Contains(line, []byte(`"error":{`)) {
			c.b.Fatalf("%s: %.500s", c.name, line)
		}
		c.came[*head.ID] = true
	}
	delete(c.came, id)
}

// flight makes calls, so many at a time.
func (c *fileClient) flight(times, most int, tool string, args map[string]any) {
	var open []int
	for range times {
		if len(open) == most {
			c.await(open[0])
			open = open[1:]
		}
		open = append(open, c.send(tool, args))
	}
	for _, id := range open {
		c.await(id)
	}
}

// memory returns how many KiB a server takes, when all that it was asked is answered.
func (c *fileClient) memory() int {
	for _, id := range c.later {
		c.await(id)
	}
	c.later = nil
	time.Sleep(time.Second) // it may tidy up
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		c.b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			size, _ := strconv.Atoi(strings.Fields(rest)[0])
			return size
		}
	}
	return 0
}

func (c *fileClient) end() {
	c.in.Close()
	timer := time.AfterFunc(10*time.Second, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	c.cmd.Wait()
}
