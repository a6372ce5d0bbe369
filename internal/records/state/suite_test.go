package state_test

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/records/state/statetest"
)

const wordsVariable = "STATE_TEST_WORDS"

var suite = statetest.Suite{
	Open: func(dir string) (statetest.Store, error) { return state.Open(dir) },
	Start: func(words [3]string) (statetest.Process, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStoreSuite$")
		cmd.Env = append(os.Environ(), wordsVariable+"="+strings.Join(words[:], "\n"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		return process{cmd, out}, cmd.Start()
	},
}

type process struct {
	*exec.Cmd
	io.Reader
}

func (p process) Kill() error { return p.Process.Kill() }

// TestStoreSuite runs the suite of statetest on a directory.
func TestStoreSuite(t *testing.T) {
	if words := strings.Split(os.Getenv(wordsVariable), "\n"); len(words) == 3 {
		suite.Play(t, os.Stdout, [3]string(words))
		return
	}
	suite.Run(t)
}
