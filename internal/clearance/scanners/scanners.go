package scanners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// clamavDir is the database directory of clamscan.
const clamavDir = "/var/lib/clamav"

// Options say which scanners to open.
type Options struct {
	Project *project.Project
	Budget  *scan.Budget // shared by all scanners of this process
	Cache   *state.Dir   // where verdicts are cached, nil for nowhere
	Now     func() time.Time
}

// Open returns the scanners of results. They are closed after use.
func Open(from Options) (*Set, error) {
	s := &Set{now: from.Now, policy: from.Project.Jail()}
	s.policy.Least = max(s.policy.Least, jail.Landlock)
	e, limits := from.Project.Engines, from.Project.ClearanceLimits
	o := scan.Options{Scanners: from.Project.Scanners, Allow: e.Allow, Limits: scan.Limits{Size: limits.ScanBytes, Time: limits.ScanTime}, Run: s.run, Budget: from.Budget}
	if e.Clamd != "" {
		o.Clamd = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", string(e.Clamd))
		}
	}
	if e.Clamscan {
		s.policy.Mounts = append(s.policy.Mounts, jail.Mount{Source: clamavDir, Target: jail.Tools + "/clamav"})
		o.Clamscan = []string{"clamscan", "--database=" + jail.Tools + "/clamav"}
	}
	for _, file := range e.Yara {
		o.Yara = append(o.Yara, scan.Content{Path: filepath.ToSlash(string(file)), Open: func() (io.ReadCloser, error) { return openRules(string(file)) }})
	}
	for _, x := range e.External {
		o.External = append(o.External, scan.Command{Name: x.Name, Argv: x.Command})
	}
	if from.Cache != nil {
		kept, err := newVerdicts(from.Cache)
		if err != nil {
			return nil, err
		}
		o.Cache, s.kept = kept, kept
	}
	var err error
	s.Set, err = scan.New(o)
	return s, err
}

// A Set holds the scanners of a project, and the jail that external ones run in.
type Set struct {
	*scan.Set
	now    func() time.Time
	policy jail.Policy
	kept   *verdicts // nil if verdicts are not cached

	mu   sync.Mutex
	jail *jail.Jail
}

// openRules opens a file with rules. Its path had no symlinks when golem checked it. Models
// read the errors, so they have only the name of the file.
func openRules(file string) (io.ReadCloser, error) {
	name := sandbox.Shown(filepath.Base(file))
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, fmt.Errorf("its rules %s do not exist or cannot be read", name)
	}
	if info, err := os.Lstat(file); err != nil || real != file || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("its rules %s are not a file, or it is reached by a symlink now", name)
	}
	r, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("its rules %s cannot be read", name)
	}
	return r, nil
}

// run runs an external scanner in the jail. It sees the system and its input, has no
// network, and cannot write to files.
func (s *Set) run(ctx context.Context, argv []string, stdin io.Reader) (stdout []byte, exit int, err error) {
	input, err := io.ReadAll(stdin)
	if err != nil {
		return nil, 0, err
	}
	running, err := s.start()
	if err != nil {
		return nil, 0, jail.CommandError(err) // models read verdicts too
	}
	line := "exec"
	for _, word := range argv {
		line += " " + jail.QuoteWord(word)
	}
	c := jail.Shell(line)
	c.Input = input
	r, err := running.Run(ctx, c)
	switch {
	case err != nil:
		return nil, 0, jail.CommandError(err)
	case r.Code == notThere:
		return nil, 0, errors.New("a program that it runs is not on this machine; install it, or take the scanner out of the configuration")
	case r.Late:
		return nil, 0, context.DeadlineExceeded
	case r.Stopped || r.Signal != "":
		return nil, 0, fmt.Errorf("the signal %s ended it", r.Signal)
	}
	text, hidden := r.Stdout.Text()
	if hidden > 0 {
		return nil, 0, errors.New("its output is too large")
	}
	return []byte(text), r.Code, nil
}

// start starts the jail if it does not run.
func (s *Set) start() (*jail.Jail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jail != nil && !s.jail.Ended() {
		return s.jail, nil
	}
	var err error
	s.jail, err = jail.Start(s.policy, s.now)
	return s.jail, err
}

// notThere is the exit code of a shell that does not find a program.
const notThere = 127

// Close stores the verdicts and ends the jail.
func (s *Set) Close() error {
	if s.kept != nil {
		s.kept.save()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jail == nil {
		return nil
	}
	return s.jail.Close()
}
