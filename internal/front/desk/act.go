package desk

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// maxActions is how many calls of the desk wait for their approval at the same time.
const maxActions = 200

// An action is a call that the user makes at the desk. The gate asks about it, so it waits
// for the approval of the user like any other call. Then the desk makes it again.
type action struct {
	program, session string // the session is "" if the call is not about one
	call             tool.Call
	shown            choice.Shown // that the page of the session showed
	approved         bool         // the user has approved it
}

// actions are the calls of the desk that wait, by the id of their request.
type actions struct {
	mu    sync.Mutex
	all   map[string]action
	order []string
	notes map[string]string // what was done, by a random name
}

func (a *actions) add(id string, one action) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[string]action)
	}
	if _, ok := a.all[id]; !ok {
		a.order = append(a.order, id)
	}
	a.all[id] = one
	for len(a.order) > maxActions {
		delete(a.all, a.order[0])
		a.order = slices.Delete(a.order, 0, 1)
	}
}

func (a *actions) find(id string) (action, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.all[id]
	return one, ok
}

func (a *actions) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, id)
	a.order = slices.DeleteFunc(a.order, func(other string) bool { return other == id })
}

// act makes a call through the gate. If it needs approval, golem shows the request;
// otherwise it shows the session with what was done.
func (s *server) act(w http.ResponseWriter, r *http.Request, a action) error {
	p, err := s.openFor(a)
	if err == nil {
		err = p.CheckTrust()
	}
	var gate *program.OpenWorker
	if err == nil {
		gate, err = p.OpenWorker(program.WorkerOptions{Secrets: s.secrets, Session: a.session, SingleCall: true, Tools: []string{a.call.Tool}})
	}
	if err != nil {
		return err
	}
	result := gate.Do(r.Context(), policy.User, a.call)
	late := gate.Close()
	s.live.notify()
	switch {
	case result.Pending != nil:
		s.actions.add(result.Pending.ID, a)
		changed := ""
		if a.approved {
			changed = "?changed"
		}
		return s.guard.redirect(w, r, "call/"+a.program+"/"+result.Pending.ID+changed)
	case result.Err != nil:
		return result.Err
	case late != nil:
		return late
	}
	text := strings.Join(append([]string{result.Words()}, result.Notes...), "; ")
	if a.call.Tool == "apply_changes" {
		text += "; " + visible.UndoNote(result.Final)
	}
	return s.guard.redirect(w, r, a.back()+"?done="+s.actions.addNote(visible.Line(text, maxNote)))
}

// openFor opens the program of an action.
func (s *server) openFor(a action) (*program.Program, error) {
	if a.session == "" {
		return inbox.OpenProgram(s.options, a.program)
	}
	one, err := inbox.OpenSession(s.options, a.program, a.session)
	return one.Program, err
}

// back returns the page that shows what was done.
func (a action) back() string {
	if a.session == "" {
		return ""
	}
	return "session/" + a.program + "/" + a.session
}

// decideSession does what the user wants with a session.
func (s *server) decideSession(w http.ResponseWriter, r *http.Request) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	p, err := s.pages.useForm(r, "decide", key, sessionPage(id))
	if err != nil {
		return err
	}
	one, err := inbox.OpenSession(s.options, key, id)
	if err != nil {
		return err
	}
	a := action{program: key, session: id}
	what := r.PostForm.Get("action")
	switch what {
	case "apply":
		picks, err := p.picks(r.PostForm["pick"])
		if err != nil {
			return err
		}
		if len(picks) == 0 {
			return s.renderSession(w, r, http.StatusUnprocessableEntity, sessionView{Nothing: true})
		}
		parts, shown, changed, err := p.parts(one, picks, strings.Split(r.PostForm.Get("seen"), ","))
		if err != nil {
			return err
		}
		if len(changed) > 0 {
			return s.renderSession(w, r, http.StatusConflict, sessionView{Changed: changed})
		}
		a.shown = shown
		if a.call, err = tool.NewCall(settle.ApplyArgs{Parts: parts}); err != nil {
			return err
		}
	case "discard":
		var names []string
		if names, err = p.discards(r.PostForm["pick"]); err == nil {
			a.call, err = tool.NewCall(settle.DiscardArgs{Paths: names})
		}
	case "commits":
		a.call, err = tool.NewCall(settle.ApplyArgs{Commits: true})
	default:
		err = &sandbox.Error{Op: "decide", Path: id, Code: sandbox.ErrInvalid, Hint: "the action is apply, discard or commits"}
	}
	if err != nil {
		return err
	}
	return s.act(w, r, a)
}

// A pick is what the user chose of a file.
type pick struct {
	whole, mode bool
	hunks       []int
}

// picks returns what the user chose, by the index of the file.
func (p *page) picks(values []string) (map[int]pick, error) {
	list := make(map[int]pick)
	for _, value := range values {
		number, part, partial := strings.Cut(value, ".")
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(p.files) {
			return nil, &sandbox.Error{Op: "decide", Path: value, Code: sandbox.ErrInvalid, Hint: "the page has no such file"}
		}
		one := list[i]
		switch n, err := strconv.Atoi(part); {
		case !partial:
			one.whole = true
		case part == "mode":
			one.mode = true
		case err != nil || n < 1:
			return nil, &sandbox.Error{Op: "decide", Path: value, Code: sandbox.ErrInvalid, Hint: "the page has no such hunk"}
		default:
			one.hunks = append(one.hunks, n)
		}
		list[i] = one
	}
	return list, nil
}

// discards returns the names of the files to discard. Without a choice it is everything.
func (p *page) discards(values []string) (names []string, err error) {
	picks, err := p.picks(values)
	for i, one := range picks {
		if !one.whole {
			return nil, &sandbox.Error{Op: "discard", Path: p.files[i], Code: sandbox.ErrInvalid, Hint: "golem discards whole files; tick the file, and not only some of its hunks; nothing was discarded"}
		}
		names = append(names, p.files[i])
	}
	if slices.Sort(names); len(names) == 0 {
		names = []string{"/"}
	}
	return names, err
}

// parts returns the argument of apply_changes for what the user chose, and the contents
// that were on the screen. Changed names the files that are not as the page showed them.
func (p *page) parts(one inbox.ProgramSession, picks map[int]pick, seen []string) (parts []settle.Part, shown choice.Shown, changed []string, err error) {
	var names []string
	for i := range picks {
		names = append(names, p.files[i])
	}
	slices.Sort(names)
	found, err := readFiles(one, names)
	if err != nil {
		return nil, nil, nil, err
	}
	var list []*choice.Item
	for _, i := range slices.Sorted(maps.Keys(picks)) {
		f, ok := found[p.files[i]]
		digest, sent := p.digests[i]
		if !ok || sent && digest != f.Digest() {
			changed = append(changed, visible.Name(p.files[i]))
			continue
		}
		if len(f.items) == 0 {
			return nil, nil, nil, &sandbox.Error{Op: "apply", Path: p.files[i], Code: sandbox.ErrConflict, Hint: newChangeView(f.FileChange, i).Why}
		}
		if !sent && !picks[i].whole {
			return nil, nil, nil, &sandbox.Error{Op: "apply", Path: p.files[i], Code: sandbox.ErrInvalid, Hint: "the page did not show its hunks; open the file and choose again"}
		}
		hunk := 0
		for _, c := range f.items {
			item := strconv.Itoa(i)
			c.Chosen = picks[i].whole
			switch {
			case c.Mode:
				c.Chosen, item = c.Chosen || picks[i].mode, item+".mode"
			case c.Hunk != nil:
				hunk++
				c.Chosen, item = c.Chosen || slices.Contains(picks[i].hunks, hunk), fmt.Sprintf("%s.%d", item, hunk)
			}
			c.Seen = p.sent[item] && slices.Contains(seen, item)
		}
		list = append(list, f.items...)
	}
	if len(changed) > 0 {
		return nil, nil, changed, nil
	}
	parts, shown, err = choice.Parts(list)
	return parts, shown, nil, err
}

// maxNotes is how many notes about what was done the desk keeps.
const maxNotes = 100

// addNote keeps a note for the next page, and returns its name.
func (a *actions) addNote(text string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.notes == nil || len(a.notes) > maxNotes {
		a.notes = make(map[string]string)
	}
	name := rand.Text()
	a.notes[name] = text
	return name
}

// takeNote returns a note and forgets it.
func (a *actions) takeNote(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.notes, name)
	return a.notes[name]
}
