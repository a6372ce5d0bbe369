package desk

import (
	"net/http"
	"sync"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// An activitiesView is the list of sessions that run, or that can continue.
type activitiesView struct {
	List  []inbox.Activity
	Nonce string
	Short bool // without connections and ports
	Done  string
}

// controlPage is the id of pages with buttons for several sessions.
const controlPage = "control"

// addControlPage remembers a page with buttons for several sessions, and returns its nonce.
func (s *server) addControlPage() string {
	p := &page{id: controlPage}
	s.pages.add(p)
	return p.nonce
}

// showLive shows what the user's golems do now.
func (s *server) showLive(w http.ResponseWriter, r *http.Request) error {
	list, err := s.watcher.Activities(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, http.StatusOK, "live", view{Title: "Live", Data: activitiesView{List: list, Nonce: s.addControlPage(), Done: s.actions.takeNote(r.URL.Query().Get("done"))}})
}

// showActivities shows only the list of what runs, for a page that is open.
func (s *server) showActivities(w http.ResponseWriter, r *http.Request) error {
	list, err := s.watcher.Activities(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, http.StatusOK, "activities", view{Data: activitiesView{List: list, Nonce: r.URL.Query().Get("page"), Short: r.URL.Query().Has("short")}})
}

// control stops or continues what runs in a session.
func (s *server) control(w http.ResponseWriter, r *http.Request) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	_, err := s.pages.useForm(r, "control", "", controlPage)
	back := r.PostForm.Get("back")
	if err != nil && back == "session" {
		_, err = s.pages.useForm(r, "control", key, sessionPage(id))
	}
	var one inbox.ProgramSession
	if err == nil {
		one, err = inbox.OpenSession(s.options, key, id)
	}
	if err != nil {
		return err
	}
	note := ""
	switch action := r.PostForm.Get("action"); {
	case action == "end" && r.PostForm.Get("confirm") == "": // a command of an agent may lose its work
		return s.render(w, http.StatusOK, "end", view{Title: "End it now?", Data: newControls(s.guard.prefix, s.addControlPage(), back, key, id, naming.Label(one), endingOf(one.HasRun()))})
	case action == "stop":
		note, err = one.Stop(false)
	case action == "end":
		note, err = one.Stop(true)
	case action == "resume":
		note, err = s.continueRun(one)
	default:
		err = &sandbox.Error{Op: "control", Path: id, Code: sandbox.ErrInvalid, Hint: "the action is stop, end or resume"}
	}
	if err != nil {
		return err
	}
	s.live.notify()
	at := map[string]string{"live": "live", "session": "session/" + key + "/" + id}[back]
	return s.guard.redirect(w, r, at+"?done="+s.actions.addNote(note))
}

// continueRun continues the run of a session in another process.
func (s *server) continueRun(one inbox.ProgramSession) (note string, err error) {
	note, wait, err := one.Resume(s.resume)
	if err != nil {
		return "", err
	}
	s.resumed.set(one.ID, "")
	go func() { // the run may work longer than the desk
		s.resumed.set(one.ID, wait())
		s.live.notify()
	}()
	return note, nil
}

// resumed says how the runs ended that the desk continued.
type resumed struct {
	mu    sync.Mutex
	ended map[string]string // by session
}

func (r *resumed) set(session, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil || len(r.ended) > maxNotes {
		r.ended = make(map[string]string)
	}
	r.ended[session] = text
}

// find returns how the run of a session ended, "" if nothing went wrong.
func (r *resumed) find(session string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[session]
}

// A controlsView has the buttons that stop or continue what runs in a session.
type controlsView struct {
	Prefix, Nonce, Back, Program, ID string
	Label                            string // the word for the session in texts
	What                             string // run, command, resume or manual
}

func newControls(prefix, nonce, back, program, id, label, what string) controlsView {
	return controlsView{prefix, nonce, back, program, id, label, what}
}

// endingOf says which buttons end what runs: a run can stop after its current call.
func endingOf(isRun bool) string {
	if isRun {
		return "run"
	}
	return "command"
}

// A statusView says what happens in a session now, with buttons.
type statusView struct {
	inbox.About
	Nonce   string
	Stale   bool   // the page lists other changes than the session has
	Ended   string // how a run ended that the desk continued
	Waiting []inbox.Item
	What    string // the buttons, "" for none
}

// newStatus returns what happens in a session now.
func (s *server) newStatus(one inbox.ProgramSession, about inbox.About, nonce string) statusView {
	v := statusView{About: about, Nonce: nonce, Waiting: s.inbox.WaitingIn(one.Program, one.ID)}
	if about.State == storage.SessionRunning {
		v.What = "manual"
		if process, isRun := one.Program.Storage.ProcessOf(one.Session); process > 0 {
			v.What = endingOf(isRun)
		}
		return v
	}
	if v.Ended = s.resumed.find(one.ID); about.HasRun && one.CanResume() {
		v.What = "resume"
	}
	return v
}

// showNow shows what a run does at the moment on a page that is open.
func (s *server) showNow(w http.ResponseWriter, r *http.Request) error {
	one, err := inbox.OpenSession(s.options, r.PathValue("program"), r.PathValue("id"))
	if err != nil {
		return err
	}
	now, _ := one.Now()
	return s.render(w, http.StatusOK, "now", view{Data: now})
}
