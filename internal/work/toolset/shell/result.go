package shell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// Ran is the result of a command, for programs.
type Ran struct {
	ExitCode     int     `json:"exitCode"` // 128 plus the number of the signal, if one ended the command
	Signal       string  `json:"signal,omitempty"`
	TimedOut     bool    `json:"timedOut"`
	Stopped      bool    `json:"stopped"`
	Stdout       string  `json:"stdout"`
	Stderr       string  `json:"stderr"`
	HiddenStdout int64   `json:"hiddenStdout"` // bytes that are not kept
	HiddenStderr int64   `json:"hiddenStderr"`
	Cwd          string  `json:"cwd,omitempty"` // the directory where it ended and the next one starts
	Level        string  `json:"level"`
	Network      string  `json:"network"` // off, on, or the hosts that it may reach
	Seconds      float64 `json:"seconds"`
	Limit        string  `json:"limit,omitempty"` // the limits that were reached
	Loose        string  `json:"loose,omitempty"` // limits that are only partly enforced here
}

// A view is a command that has run, with the files that it saw.
type view struct {
	files   *sandbox.Sandbox
	effects []policy.Effect
	changes.Result
	from *startPoint
	at   *Place // the start of the next command; nil if every command starts at the top
}

// result returns the result of the call. A command that fails is no error of the tool:
// the call did what it was asked to do.
func (v view) result() tool.Result {
	stdout, hiddenOut := v.Stdout.Text()
	stderr, hiddenErr := v.Stderr.Text()
	ran := Ran{ExitCode: v.Code, Signal: v.Signal, TimedOut: v.Late, Stopped: v.Stopped, Stdout: stdout, Stderr: stderr,
		HiddenStdout: hiddenOut, HiddenStderr: hiddenErr, Level: v.Level.String(), Network: v.network(), Seconds: v.Took.Seconds(), Limit: listLimits(v.Hit), Loose: listLimits(v.Loose)}
	dir, notes := v.finish()
	ran.Cwd = dir
	first := v.summary()
	if dir != "" && dir != v.from.dir {
		first += "; now in " + sandbox.Shown(dir)
	}
	r := tool.Result{Text: first, Data: ran, Settings: v.Settings(), Notes: append(v.hints(stdout, stderr), notes...), Record: first}
	if stdout != "" {
		r.Output = "\n" + strings.TrimSuffix(stdout, "\n")
	}
	if stderr != "" {
		r.Output += "\nstderr:\n" + strings.TrimSuffix(stderr, "\n")
	}
	if v.hasFailed() {
		r.Stderr = stderr
	}
	if v.Changed != nil {
		l := approval.Classify("shell", v.files, v.Changed)
		r.Deferred, r.Notes = l.Deferred(), append(r.Notes, l.Notes()...)
		if r.Deferred == nil {
			v.Changed.Discard()
			r.Notes = append(r.Notes, "it has changed nothing else")
		}
	}
	return r
}

// hasFailed reports whether the command ended otherwise than with exit code 0.
func (v view) hasFailed() bool { return v.Code != 0 || v.Late || v.Stopped || v.Signal != "" }

// summary returns the line that says how the command ended, and how it was confined.
func (v view) summary() string {
	how := fmt.Sprintf("exit %d in", v.Code)
	switch {
	case v.Late:
		how = "timed out; golem ended it and all its processes after"
	case v.Stopped:
		how = "stopped after"
	case v.Signal != "":
		how = "ended by " + v.Signal + " after"
	}
	where := v.Level.String() + ", network " + v.network()
	if len(v.Loose) > 0 {
		where += "; limits in part: " + listLimits(v.Loose)
	}
	text := fmt.Sprintf("%s %s (%s)", how, seconds(v.Took), where)
	if hit := v.describeHit(); hit != "" {
		text += "; " + hit
	}
	return text
}

// describeHit says which limits the command reached. It returns "" if it reached none.
func (v view) describeHit() string {
	if len(v.Hit) == 0 {
		return ""
	}
	var limits []string
	for _, l := range v.Hit {
		limits = append(limits, string(l)+", "+v.Describe(l))
	}
	return "it reached its limit of " + strings.Join(limits, ", and of ")
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }

// network says which hosts the command could reach: on for all, off for none.
func (v view) network() string {
	var hosts []string
	for _, e := range v.effects {
		switch {
		case e.Verb != policy.Connect:
		case e.Target == "*":
			return "on"
		default:
			hosts = append(hosts, sandbox.Shown(e.Target))
		}
	}
	if len(hosts) == 0 {
		return "off"
	}
	return "only " + strings.Join(hosts, ", ")
}

// isLimited reports whether the command could reach some hosts and not all.
func (v view) isLimited() bool { return v.network() != "on" && v.network() != "off" }

// listLimits lists limits by name.
func listLimits(limits []jail.Limit) string {
	var names []string
	for _, l := range limits {
		names = append(names, string(l))
	}
	return strings.Join(names, ", ")
}
