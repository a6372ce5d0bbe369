package main

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestNetworkAfterKill kills golem while a program uses its network. The program must
// reach nothing afterwards, at both levels.
func TestNetworkAfterKill(t *testing.T) {
	for _, level := range []string{"namespaces", "landlock"} {
		t.Run(level, func(t *testing.T) {
			var heard atomic.Int64
			ear, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ear.Close()
			go func() {
				for {
					c, err := ear.Accept()
					if err != nil {
						return
					}
					heard.Add(1)
					c.Close()
				}
			}()
			datagrams, err := net.ListenPacket("udp", ear.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer datagrams.Close()
			go func() {
				for {
					if _, _, err := datagrams.ReadFrom(make([]byte, 64)); err != nil {
						return
					}
					heard.Add(1)
				}
			}()
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Host != "api.example.org" {
					heard.Add(1)
				}
				<-r.Context().Done()
			}))
			defer proxy.Close()
			cmd := exec.Command("golem", "exec", "--net", "api.example.org", "--", "netclient", "linger", "api.example.org", ear.Addr().String())
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "GOLEM_STATE="+t.TempDir(), "HTTP_PROXY="+proxy.URL)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := startAt(cmd, level); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if line != "connected\n" {
				t.Errorf("got %q, %v", line, err)
			}
			cmd.Process.Kill()
			cmd.Wait()
			for end := time.Now().Add(time.Minute); hasProcess(ear.Addr().String()); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the program has not ended")
				}
			}
			if n := heard.Load(); n > 0 {
				t.Errorf("the program reached something else %d times", n)
			}
		})
	}
}

// startAt starts a command that has a level of the jail at most.
func startAt(cmd *exec.Cmd, level string) error {
	if level == "namespaces" {
		return cmd.Start()
	}
	return withoutNamespaces(cmd.Start)
}

// hasProcess reports whether a process has an argument.
func hasProcess(arg string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), "\x00"+arg+"\x00") {
			return true
		}
	}
	return false
}
