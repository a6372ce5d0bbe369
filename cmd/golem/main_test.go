package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"golem": main, "netclient": netClient, "acpagent": acpAgent})
}

// TestScript runs the commands that a user types, and compares the output.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"-home") // otherwise all scripts have one, and see the settings of others
			env.Setenv("GOLEM_STATE", filepath.Join(env.WorkDir, ".state"))
			env.Setenv("ESC", "\x1b")   // starts a terminal escape sequence
			env.Setenv("RLO", "\u202e") // reverses the direction of the text
			env.Setenv("BAD", "\xff")   // not UTF-8
			env.Setenv("RUNSC", testutil.FindRunsc())
			env.Setenv("FORGED", "/out/a\nyes: everything, by root\nit passes")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   checkExitCode,
			"damage":  damageTrust,
			"answer":  answerPending,
			"answers": answerAllPending,
			"staged":  setStaged,
			"flip":    flipBit,
			"kept":    copyStateFile,
			"chop":    removeLastLine,
			"sparse":  makeSparse,
			"mkfifo":  makePipe,
			"ln":      hardLink,
			"bare":    runBare,

			"internet": internet,
		},
	})
}

// checkExitCode runs a command and checks its exit code: exits CODE PROGRAM ARG…
func checkExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code: got %d, want %d", got, want)
	}
}

// damageTrust overwrites the stored trust of the user.
func damageTrust(ts *testscript.TestScript, neg bool, args []string) {
	kept, err := filepath.Glob(filepath.Join(ts.Getenv("GOLEM_STATE"), "*", "trust.json"))
	ts.Check(err)
	if neg || len(args) > 0 || len(kept) == 0 {
		ts.Fatalf("usage: damage, after the user has trusted a program")
	}
	for _, name := range kept {
		ts.Check(os.WriteFile(name, []byte(`[{"hash`), 0o600))
	}
}

// setStaged sets STAGED to the ID of the last staged commit.
func setStaged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: staged")
	}
	ts.Check(ts.Exec("golem", "tool", "git_list_staged", "--json"))
	var list struct {
		Result struct {
			Staged []struct{ ID string }
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	if len(list.Result.Staged) == 0 {
		ts.Fatalf("nothing is staged")
	}
	ts.Setenv("STAGED", list.Result.Staged[len(list.Result.Staged)-1].ID)
}

// answerPending approves or declines the only pending request: answer yes, answer no REASON
func answerPending(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("golem", "approvals", "--json"))
	var list struct{ Pending []struct{ ID string } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	if neg || len(args) == 0 || len(list.Pending) != 1 {
		ts.Fatalf("%d requests wait, want 1", len(list.Pending))
	}
	words := []string{"approve", list.Pending[0].ID}
	ts.Setenv("ID", list.Pending[0].ID)
	if args[0] == "no" {
		words = append(words, "--no", "--reason", args[1])
	}
	ts.Check(ts.Exec("golem", words...))
}

// answerAllPending approves all requests that wait without an answer: answers yes
func answerAllPending(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("golem", "approvals", "--json"))
	var list struct{ Pending []struct{ ID, Answer string } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	count := 0
	for _, p := range list.Pending {
		if p.Answer == "" {
			ts.Check(ts.Exec("golem", "approve", p.ID))
			count++
		}
	}
	if neg || len(args) != 1 || args[0] != "yes" || count == 0 {
		ts.Fatalf("usage: answers yes, while a request waits")
	}
}

// statePath returns the path of a file in the state directory.
func statePath(ts *testscript.TestScript, name string) string {
	found, err := filepath.Glob(filepath.Join(ts.Getenv("GOLEM_STATE"), "*", name))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s: found %d, want 1", name, len(found))
	}
	return found[0]
}

// copyStateFile copies a file of the state directory to the current directory: kept NAME
func copyStateFile(ts *testscript.TestScript, neg bool, args []string) {
	data, err := os.ReadFile(statePath(ts, args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o600))
}

// flipBit changes a bit in the middle of a line of a file of the state directory. A second
// flip restores it: flip NAME LINE
func flipBit(ts *testscript.TestScript, neg bool, args []string) {
	name := statePath(ts, args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	number, err := strconv.Atoi(args[1])
	ts.Check(err)
	lines := strings.SplitAfter(string(data), "\n")
	line := []byte(lines[number-1])
	line[len(line)/2] ^= 1
	lines[number-1] = string(line)
	ts.Check(os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600))
}

// removeLastLine removes the last line of a file of the state directory: chop NAME
func removeLastLine(ts *testscript.TestScript, neg bool, args []string) {
	name := statePath(ts, args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	ts.Check(os.WriteFile(name, []byte(strings.Join(lines[:len(lines)-1], "")), 0o600))
}

// makeSparse makes a sparse file of a size: sparse NAME BYTES
func makeSparse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sparse NAME BYTES")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(f.Truncate(size))
	ts.Check(f.Close())
}
