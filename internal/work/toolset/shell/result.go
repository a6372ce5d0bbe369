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
	r := tool.Result{Text: first, Data: ran, Notes: append(v.hints(stdout, stderr), notes...), Record: first}
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
		limits = append(limits, string(l)+", "+v.describeLimit(l))
	}
	return "it reached its limit of " + strings.Join(limits, ", and of ")
}

// DescribeHit says which limits a command reached, "" for none, and returns settings of
// the project file that double them.
func DescribeHit(r jail.Result) (text string, settings []string) {
	most := r.Limits
	for _, l := range r.Hit {
		switch l {
		case jail.TimeLimit:
			settings = append(settings, "limits.time="+(2*most.Time).String())
		case jail.CPULimit:
			settings = append(settings, "limits.cpu="+(2*most.CPU).String())
		case jail.MemoryLimit:
			settings = append(settings, "limits.memory="+strings.ReplaceAll(size(2*most.Memory), " ", ""))
		case jail.ProcessesLimit:
			settings = append(settings, "limits.pids="+strconv.FormatInt(2*most.Processes, 10))
		case jail.DiskLimit:
			settings = append(settings, "limits.disk="+strings.ReplaceAll(size(2*most.Disk), " ", ""))
		case jail.FileSizeLimit:
			settings = append(settings, "limits.file_size="+strings.ReplaceAll(size(2*most.FileSize), " ", ""))
		}
	}
	return (view{Result: changes.Result{Result: r}}).describeHit(), settings
}

// describeLimit returns how much a limit allows, and the key that sets it.
func (v view) describeLimit(l jail.Limit) string {
	most := v.Limits
	switch l {
	case jail.TimeLimit:
		if v.Took < most.Time {
			return "the timeout of the call"
		}
		return exactly(most.Time) + " (limits.time)"
	case jail.CPULimit:
		return exactly(most.CPU) + " (limits.cpu)"
	case jail.MemoryLimit:
		return size(most.Memory) + " (limits.memory)"
	case jail.ProcessesLimit:
		return strconv.FormatInt(most.Processes, 10) + " with their threads (limits.pids)"
	case jail.FilesLimit:
		return strconv.FormatInt(most.Files, 10) + " in each process (no key sets it)"
	case jail.FileSizeLimit:
		return size(most.FileSize) + " (limits.file_size)"
	case jail.DiskLimit:
		return size(most.Disk) + " for all changes of the session (limits.disk)"
	case jail.OutputLimit:
		return size(most.Output) + " of each stream (limits.output)"
	case jail.TempLimit:
		return size(most.Temp) + " (no key sets it; it is at most half of limits.memory)"
	}
	return "unknown"
}

func exactly(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }

// size formats a number of bytes in the largest unit that has no fraction.
func size(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1e9, "GB"}, {1 << 20, "MiB"}, {1e6, "MB"}, {1 << 10, "KiB"}, {1e3, "kB"}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
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
