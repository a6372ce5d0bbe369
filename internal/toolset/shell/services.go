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

// A Server starts services: commands that continue while others run.
type Server interface {
	// Serve starts one, which sees what the sandbox shows, in the network of the commands
	// that see the same.
	Serve(files *sandbox.Sandbox, c jail.Command, layered bool) (Service, error)
}

// A Service is a command that continues. See jail.Service.
type Service interface {
	Output(offset, most int64) jail.Piece
	Done() <-chan struct{}
	Result() (jail.Result, error)
	Stop()
	Kill()
}

// The most services that run at once, and that are remembered with those that have ended.
const (
	maxServices = 8
	maxKnown    = 16
)

// Services are those of a session. They end with it.
type Services struct {
	server Server
	now    func() time.Time
	brief  bool          // there is no time for one
	early  time.Duration // how long one is watched for an early end

	mu    sync.Mutex
	list  []*service
	ended bool
}

// NewServices returns the services of a session, of which there are none yet. A session
// that is for one call has none.
func NewServices(s Server, now func() time.Time, brief bool) *Services {
	return &Services{server: s, now: now, brief: brief, early: 500 * time.Millisecond}
}

// A service is one with its name.
type service struct {
	Service
	name, command, dir string
	begun              time.Time
	stopped            bool // somebody has
	told               bool // that it has ended
}

// over reports whether it has ended.
func (s *service) over() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// how says how it is.
func (s *service) how(now time.Time) string {
	if !s.over() {
		return "running for " + seconds(now.Sub(s.begun))
	}
	r, err := s.Result()
	switch {
	case err != nil:
		return "ended with the sandbox that it was in"
	case s.stopped:
		return "stopped after " + seconds(r.Took)
	}
	how := "ended: exit " + strconv.Itoa(r.Code) + " after " + seconds(r.Took)
	if r.Signal != "" {
		how = "ended by " + r.Signal + " after " + seconds(r.Took)
	}
	if len(r.Hit) > 0 {
		how += ", at its limit of " + listing(r.Hit)
	}
	return how
}

// able is an error where there can be none.
func (s *Services) able(op string) error {
	if s != nil && !s.brief {
		return nil
	}
	return &sandbox.Error{Op: op, Code: sandbox.ErrInvalid, Hint: "a service lives as long as the golem that started it, and this one ends with the call; " +
		"start and use it in one line of shell (server & client), or run it by golem exec"}
}

// start starts one, under a name that no other has which runs.
func (s *Services) start(v service, files *sandbox.Sandbox, c jail.Command, layered bool) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.room(v)
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
		if s.list[i].over() {
			s.list = slices.Delete(s.list, i, i+1)
		} else {
			i++
		}
	}
	s.list = append(s.list, &v)
	return &v, nil
}

// mayStart is an error where one cannot be started.
func (s *Services) mayStart(v service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.room(v)
	return err
}

// room returns the name under which one can be started.
func (s *Services) room(v service) (string, error) {
	var running []string
	for _, o := range s.list {
		if !o.over() {
			running = append(running, o.name)
		}
	}
	if v.name == "" {
		v.name = free(v.command, running)
	}
	hint := ""
	switch {
	case s.ended:
		hint = "the session has ended"
	case slices.Contains(running, v.name):
		hint = "a service of this name is running; give another, or service_stop it first"
	case len(running) >= maxServices:
		hint = strconv.Itoa(maxServices) + " services are the most that run at once; service_stop one of " + strings.Join(running, ", ")
	default:
		return v.name, nil
	}
	return "", &sandbox.Error{Op: "service_start", Path: v.name, Code: sandbox.ErrLimit, Hint: hint}
}

// free returns a name for a command: its first word, with a number where others have it.
func free(command string, taken []string) string {
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

// nameWrong says what is wrong with a name for a service, "" for nothing.
func nameWrong(name string) string {
	const most = 32
	ok := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
	if name == "" || !ok || len(name) > most || strings.Trim(name, ".-") == "" {
		return "name: letters, digits, dots, dashes and underscores, at most " + strconv.Itoa(most)
	}
	return ""
}

// named returns the service of a name.
func (s *Services) named(op, name string) (*service, error) {
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
		hint = "there is none; service_start starts one"
	}
	return nil, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// all returns those that are known.
func (s *Services) all() []*service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// stop stops one, and returns when it is gone.
func (s *Services) stop(v *service) {
	s.mu.Lock()
	v.stopped, v.told = v.stopped || !v.over(), true
	s.mu.Unlock()
	v.Stop()
}

// news tells of services that have ended by themselves, once of each.
func (s *Services) news() (notes []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.list {
		if !v.told && v.over() {
			v.told = true
			notes = append(notes, "service "+v.name+" has "+v.how(s.now())+"; service_output reads what it printed")
		}
	}
	return notes
}

// seen says that it was told how a service is.
func (s *Services) seen(v *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.told = v.told || v.over()
}

// Close ends them all.
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
