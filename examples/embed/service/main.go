// Command service runs the commands of an agent for its users. Each user has a directory and a
// workspace over it. A command sees the files and cannot change them: its changes wait until
// the user has looked at them.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/golem-forge/golem"
)

func main() {
	s := &service{homes: os.Args[2], state: os.Args[3], workspaces: map[string]*golem.Workspace{}}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], s))
}

type service struct {
	homes, state string // directories
	mu           sync.Mutex
	workspaces   map[string]*golem.Workspace
}

// workspace returns the workspace of a user.
func (s *service) workspace(user string) (*golem.Workspace, error) {
	if !regexp.MustCompile(`^[a-z]+$`).MatchString(user) {
		return nil, errors.New("no such user")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ws := s.workspaces[user]; ws != nil {
		return ws, nil
	}
	ws, err := golem.Open(filepath.Join(s.homes, user), golem.Options{State: s.state})
	if err == nil {
		s.workspaces[user] = ws
	}
	return ws, err
}

// An answer is the output of a command, and what waits since then.
type answer struct {
	golem.Output
	Pages  []string // what the user must read
	Digest string   // of exactly that
}

// ServeHTTP runs a command that is sent to /USER, such as ["make", "test"]. /USER/apply takes the
// digest of the answer that the user has read.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{user}", reply(s.exec))
	mux.HandleFunc("POST /{user}/apply", reply(s.apply))
	http.NewCrossOriginProtection().Handler(mux).ServeHTTP(w, r)
}

func (s *service) exec(r *http.Request) (any, error) {
	ws, err := s.workspace(r.PathValue("user"))
	if err != nil {
		return nil, err
	}
	var args []string
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&args); err != nil {
		return nil, err
	}
	out, err := ws.Exec(r.Context(), golem.Command{Args: args})
	if err != nil {
		return nil, err
	}
	changes, err := ws.Changes(r.Context())
	a := answer{Output: out, Digest: changes.Digest()}
	if len(changes.Files()) > 0 {
		view := changes.Request().Render(100, 1000)
		for i := range view.Pages() {
			a.Pages = append(a.Pages, view.Page(i))
		}
	}
	return a, err
}

func (s *service) apply(r *http.Request) (any, error) {
	ws, err := s.workspace(r.PathValue("user"))
	if err != nil {
		return nil, err
	}
	changes, err := ws.Changes(r.Context())
	if err != nil {
		return nil, err
	}
	// The digest names what the user has read. If something else waits now, it is wrong.
	seen, err := changes.Request().Unseen(r.FormValue("digest"))
	if err != nil {
		return nil, err
	}
	return "applied", ws.Apply(r.Context(), changes, seen.Approve(r.PathValue("user")))
}

// reply returns a handler that sends what do returns.
func reply(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		json.NewEncoder(w).Encode(value)
	}
}
