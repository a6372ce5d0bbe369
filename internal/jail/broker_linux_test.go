package jail_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestSocketsSurviveSignals opens sockets with the network on while the processes of the
// jail get signals, as Go sends them to its own threads. A socket must never be
// descriptor 0, which is already open.
func TestSocketsSurviveSignals(t *testing.T) {
	s, err := jail.Start(jail.Policy{Least: jail.Namespaces, Network: true, Mounts: []jail.Mount{{Source: sandbox.Host(t.TempDir()), Target: jail.Work}}}, time.Now)
	check(t, err)
	defer s.Close()
	mark := fmt.Sprintf("mark-%d", os.Getpid())
	done, ended := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		defer func() { ended <- sent }()
		cell := 0
		for {
			select {
			case <-done:
				return
			default:
			}
			if cell == 0 {
				cell = parentOf(mark)
			}
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", cell))
			for _, task := range tasks {
				tid, _ := strconv.Atoi(filepath.Base(task))
				if unix.Tgkill(cell, tid, unix.SIGURG) == nil {
					sent++
				}
			}
		}
	}()
	r, err := s.Run(context.Background(), jail.Command{Path: "/usr/bin/env", Args: []string{"env", "python3", "-c", `
import socket, time
least = time.time() + 2  # so that the test finds the process
count = 0
while count < 3000 or time.time() < least:
    count += 1
    s = socket.socket()
    if s.fileno() < 3:
        print("socket", s.fileno())
        break
    s.close()
print("end")`, mark}, Dir: jail.Work})
	close(done)
	sent := <-ended
	if out := string(r.Stdout.Head) + string(r.Stderr.Head); err != nil || out != "end\n" || sent == 0 {
		t.Errorf("got %q, %v, after %d signals", out, err, sent)
	}
}

// parentOf returns the process that started the one with a word as its last argument, 0 if
// there is none.
func parentOf(word string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file)
		if !strings.HasSuffix(string(line), "\x00"+word+"\x00") {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			return parent
		}
	}
	return 0
}
