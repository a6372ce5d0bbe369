package shell

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A Server starts services: commands that keep running while other commands run.
type Server interface {
	// Serve starts a service that sees what the sandbox shows. It shares the network of
	// the commands that see the same.
	Serve(files *sandbox.Sandbox, c jail.Command, layered bool) (Service, error)
}

// A Service is a command that keeps running. See jail.Service.
type Service interface {
	Output(offset, most int64) jail.Piece
	Done() <-chan struct{}
	Result() (jail.Result, error)
	Stop()
	Kill()
}

// How many services may run at once, and how many are remembered with those that ended.
const (
	maxServices = 8
	maxKnown    = 16
)

// Services holds the services of a session. They end with it.
type Services struct {
	server Server
	now    func() time.Time
	brief  bool          // golem ends with the call, so that no service can run
	early  time.Duration // how long service_start waits for an early end

	mu    sync.Mutex
	list  []*service
	ended bool
}

// NewServices returns an empty list of services. If brief is true, golem ends with the
// call and services cannot be started.
func NewServices(s Server, now func() time.Time, brief bool) *Services {
	return &Services{server: s, now: now, brief: brief, early: 500 * time.Millisecond}
}

// A service is a Service with its name, command line and directory.
type service struct {
	Service
	name, command, dir string
	begun              time.Time
	stopped            bool // by service_stop
	reported           bool // a result has said that it ended
}

// hasEnded reports whether the service has ended.
func (s *service) hasEnded() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// describe says whether the service runs, or how it ended.
func (s *service) describe(now time.Time) string {
	if !s.hasEnded() {
		return "running for " + seconds(now.Sub(s.begun))
	}
	r, err := s.Result()
	switch {
	case err != nil:
		return "ended with the jail that it ran in"
	case s.stopped:
		return "stopped after " + seconds(r.Took)
	}
	how := "ended: exit " + strconv.Itoa(r.Code) + " after " + seconds(r.Took)
	if r.Signal != "" {
		how = "ended by " + r.Signal + " after " + seconds(r.Took)
	}
	if len(r.Hit) > 0 {
		how += ", at its limit of " + listLimits(r.Hit)
	}
	return how
}

// checkAvailable returns an error if this golem can run no services.
func (s *Services) checkAvailable(op string) error {
	if s != nil && !s.brief {
		return nil
	}
	return &sandbox.Error{Op: op, Code: sandbox.ErrInvalid, Hint: "a service runs as long as the golem process that started it, and this one ends with the call; " +
		"start and use it in one shell command (server & client), or run it with golem exec"}
}

// start starts a service under a name that no running service has.
func (s *Services) start(v service, files *sandbox.Sandbox, c jail.Command, layered bool) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.chooseName(v)
	if err != nil {
		return nil, err
	}
	v.name = name
	if v.Service, err = s.server.Serve(files, c, layered); err != nil {
		return nil, err
	}
	v.begun = s.now()
	s.list = slices.DeleteFunc(s.list, func(o *service) bool { return o.name == v.name })
	for i := 0; len(s.list) >= maxKnown && i < len(s.list); {
		if s.list[i].hasEnded() {
			s.list = slices.Delete(s.list, i, i+1)
		} else {
			i++
		}
	}
	s.list = append(s.list, &v)
	return &v, nil
}

// checkStart returns an error if the service cannot be started.
func (s *Services) checkStart(v service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.chooseName(v)
	return err
}

// chooseName returns the name under which the service can be started.
func (s *Services) chooseName(v service) (string, error) {
	var running []string
	for _, o := range s.list {
		if !o.hasEnded() {
			running = append(running, o.name)
		}
	}
	if v.name == "" {
		v.name = freeName(v.command, running)
	}
	hint := ""
	switch {
	case s.ended:
		hint = "the session has ended"
	case slices.Contains(running, v.name):
		hint = "a service with this name is running; choose another name, or call service_stop first"
	case len(running) >= maxServices:
		hint = "at most " + strconv.Itoa(maxServices) + " services run at once; call service_stop for one of " + strings.Join(running, ", ")
	default:
		return v.name, nil
	}
	return "", &sandbox.Error{Op: "service_start", Path: v.name, Code: sandbox.ErrLimit, Hint: hint}
}

// freeName returns a name for a command: its first word, with a number if the name is
// taken.
func freeName(command string, taken []string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	name := path.Base(first)
	if nameWrong(name) != "" {
		name = "service"
	}
	for n, base := 2, name; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// nameWrong says what is wrong with the name of a service. It returns "" if it is valid.
func nameWrong(name string) string {
	const most = 32
	ok := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
	if name == "" || !ok || len(name) > most || strings.Trim(name, ".-") == "" {
		return "name: letters, digits, dots, dashes and underscores, at most " + strconv.Itoa(most)
	}
	return ""
}

// find returns the service with a name.
func (s *Services) find(op, name string) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, v := range s.list {
		if v.name == name {
			return v, nil
		}
		names = append(names, v.name)
	}
	hint := "there is " + strings.Join(names, ", ")
	if len(names) == 0 {
		hint = "there are no services; service_start starts one"
	}
	return nil, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// all returns all known services.
func (s *Services) all() []*service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// stop stops a service, and returns when it has ended.
func (s *Services) stop(v *service) {
	s.mu.Lock()
	v.stopped, v.reported = v.stopped || !v.hasEnded(), true
	s.mu.Unlock()
	v.Stop()
}

// reportEnded returns a note for each service that ended by itself, once per service.
func (s *Services) reportEnded() (notes []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.list {
		if !v.reported && v.hasEnded() {
			v.reported = true
			notes = append(notes, "service "+v.name+" has "+v.describe(s.now())+"; service_output returns its output")
		}
	}
	return notes
}

// markReported records that a result has reported the state of a service.
func (s *Services) markReported(v *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.reported = v.reported || v.hasEnded()
}

// Close ends all services.
func (s *Services) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, v := range s.list {
		v.Kill()
	}
}
