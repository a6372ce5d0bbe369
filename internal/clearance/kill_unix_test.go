//go:build unix

package clearance_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A process that stages and pushes again and again is killed at every moment:
// what it has told is so, what it had begun was made once or not at all, and
// branch, index and work tree agree.
func TestKill(t *testing.T) {
	if dir := os.Getenv("GOLEM_TEST_STATE"); dir != "" {
		pushForever(t, dir, os.Getenv("GOLEM_TEST_LOCAL"))
		return
	}
	s := setUp(t)
	unsettled := 0
	for round := range 25 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "GOLEM_TEST_STATE="+s.state, "GOLEM_TEST_LOCAL="+s.local)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		staged, pushed := "", ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			verb, id, _ := strings.Cut(lines.Text(), " ")
			switch verb {
			case "staged":
				if staged == "" {
					time.AfterFunc(time.Duration(round)*3*time.Millisecond, func() { cmd.Process.Kill() })
				}
				staged = id
			case "pushed":
				pushed = id
			default:
				t.Log(lines.Text())
			}
		}
		cmd.Wait()
		if staged == "" {
			t.Fatal("nothing was staged: this test sees nothing")
		}
		before := plain(t, s.local, "rev-list", "--count", "main")
		got, err := s.desk.Push(t.Context(), staged, "")
		if err != nil {
			t.Fatalf("round %d: what was staged cannot be pushed: %v", round, err)
		}
		if pushed == staged && plain(t, s.local, "rev-list", "--count", "main") != before {
			t.Errorf("round %d: it was told to be pushed, and was pushed again", round)
		}
		if pushed != staged {
			unsettled++
		}
		if now := plain(t, s.local, "rev-parse", "main"); now != got.CommitSHA {
			t.Errorf("round %d: main is %s, want %s", round, now, got.CommitSHA)
		}
		if status := plain(t, s.local, "status", "--porcelain"); status != "" {
			t.Errorf("round %d: branch, index and tree do not agree:\n%s", round, status)
		}
		newest, older, _ := strings.Cut(plain(t, s.local, "log", "--format=%s", "main"), "\n")
		if slices.Contains(strings.Split(older, "\n"), newest) {
			t.Errorf("round %d: %s is there twice", round, newest)
		}
	}
	plain(t, s.local, "fsck", "--strict")
	if unsettled == 0 {
		t.Error("no kill came before a push was told: this test sees too little")
	}
}

func pushForever(t *testing.T, dir, local string) {
	desk := openDesk(t, dir, local, local)
	for i := 0; ; i++ {
		mark := fmt.Sprint(os.Getpid(), "-", i)
		r := request("local", "a.txt="+mark, "new/"+mark+"=x", "many/1="+mark, "many/2="+mark, "many/3="+mark)
		r.Message = "push " + mark
		c, err := desk.Stage(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("staged", c.ID)
		if _, err := desk.Push(t.Context(), c.ID, ""); err != nil {
			t.Fatal(err)
		}
		fmt.Println("pushed", c.ID)
	}
}
