package git

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// A Set holds the tools and what they work on. A zero Set can only list its tools.
type Set struct {
	Commits func(context.Context) (*clearance.Commits, error)
	Targets []Target
	Default string // the default target, "" for origin or the only one
	Limits  Limits
	// Scanners returns the scanners for results. It is nil if there are none.
	Scanners func() (*scan.Set, error)
	// Request returns a request with the author, time, workers and session.
	Request func(context.Context) (clearance.Request, error)
	// Untrusted reports whether the files in a directory are untrusted. It may be nil.
	Untrusted func(dir string) bool
	// Outside are the directories at which other directories of the host are mounted.
	// They are not part of the directories above them.
	Outside []string
}

// A Target is a repository as the tools know it.
type Target struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Branch  string `json:"branch"`
	At      string `json:"at"`                // virtual directory of its root
	Address string `json:"address,omitempty"` // for a remote
}

// Limits limit what is staged at once. Zero is no limit.
type Limits struct {
	Files, Bytes int64
	Ratio        clearance.Limit // bytes that leave per byte that was read
}

// Tools returns the tools.
func (s Set) Tools() []tool.Tool {
	return append([]tool.Tool{s.stage(), s.status(), s.listStaged(), s.diff(), s.discard(), s.pull(), s.branches(), s.merge(), s.push()}, s.oldTools()...)
}

// newTool returns a tool with what all tools of the set have in common.
func newTool(name, description string) tool.Tool {
	return tool.Tool{Name: name, Toolset: "git", Mode: policy.Both, ForUser: true, Description: description}
}

// newReadTool returns the same for a tool that changes nothing.
func newReadTool(name, description string) tool.Tool {
	t := newTool(name, description)
	t.Verbs = []policy.Verb{policy.Read}
	return t
}

// openCommits opens the staged commits.
func (s Set) openCommits(ctx context.Context, op string) (*clearance.Commits, error) {
	if s.Commits == nil || len(s.Targets) == 0 {
		return nil, &sandbox.Error{Op: op, Code: sandbox.ErrNotFound,
			Hint: "the project file names no repository for results; the user can add one with golem config edit: clearance: {targets: {origin: {type: local, path: .}}}"}
	}
	return s.Commits(ctx)
}

// findTarget returns the target of a name, or the default for "".
func (s Set) findTarget(op, name string) (Target, error) {
	name = cmp.Or(name, s.Default)
	var names []string
	for _, t := range s.Targets {
		if t.Name == name || name == "" && (len(s.Targets) == 1 || t.Name == "origin") {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Target{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrNotFound, Hint: "the targets are " + strings.Join(names, ", ") + "; name one of them"}
}

// findNamed returns the target from two arguments with the same meaning: target, and the
// older remote.
func (s Set) findNamed(op, target, remote string) (Target, error) {
	if target != "" && remote != "" && target != remote {
		return Target{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "target and remote are two names for one argument; write one of them"}
	}
	return s.findTarget(op, cmp.Or(target, remote))
}

// checkBranch refuses an invalid name of a branch. An empty name means the configured
// branch.
func checkBranch(op, branch string) error {
	if branch == "" {
		return nil
	}
	if why := git.BadBranch(branch); why != "" {
		return &sandbox.Error{Op: op, Path: branch, Code: sandbox.ErrInvalid, Hint: why + "; main and drafts/notes are"}
	}
	return nil
}

// isRemote reports whether the target is reached over the network.
func (t Target) isRemote() bool { return t.Address != "" && !strings.HasPrefix(t.Address, "file:") }

// pathInside returns the path of a file in the repository of a target.
func (t Target) pathInside(op, name string) (string, error) {
	if t.At == "/" {
		return strings.TrimPrefix(name, "/"), nil
	}
	if name == t.At {
		return "", nil
	}
	rel, ok := strings.CutPrefix(name, t.At+"/")
	if !ok {
		return "", &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrOutside, Hint: "the repository " + t.Name + " is mounted at " + t.At + "; name files there"}
	}
	return rel, nil
}

// virtualName returns the virtual name of a file of the repository.
func (t Target) virtualName(inside string) string { return path.Join(t.At, inside) }

// targetOf returns the target of a staged commit. If it is no longer configured, the result has
// only its name.
func (s Set) targetOf(c *clearance.StagedCommit) Target {
	i := slices.IndexFunc(s.Targets, func(t Target) bool { return t.Name == c.Target })
	if i < 0 {
		return Target{Name: c.Target, At: "/"}
	}
	return s.Targets[i]
}

// describeDestination describes the destination of a commit.
func (s Set) describeDestination(c *clearance.StagedCommit) string {
	t := s.targetOf(c)
	text := t.Name + " " + c.Branch
	switch {
	case t.Address != "":
		text += " (" + t.Address + ")"
	case t.Type != "":
		text += " (" + t.Type + ")"
	}
	return text
}

// shortID returns the part of an ID that people read.
func shortID(id string) string { return id[:min(12, len(id))] }

// letter returns the letter for an operation.
func letter(o clearance.Operation) string {
	switch o {
	case clearance.Create:
		return "A"
	case clearance.Delete:
		return "D"
	}
	return "M"
}

// firstLine returns the first line of a message, shortened.
func firstLine(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return first
}

// countMore returns a text for how many others there are, "" for none.
func countMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
