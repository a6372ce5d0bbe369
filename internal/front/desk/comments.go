package desk

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// notePages are the comments of a reviewer on the page of a session.
type notePages struct{ *server }

// A commentsView is the list of comments on a session. The browser shows those on lines below
// their lines, too.
type commentsView struct {
	At, Nonce string
	Version   string // changes with the rest
	List      []commentView
	Unsent    int
	CanSend   bool // the run of the session can continue with them
	Program   string
	ID, Label string // of the session
}

// A commentView is a comment on a page. Its texts are visible text.
type commentView struct {
	ID, Place, Text string
	By              string
	Written, Sent   string
	Now             string // what became of its lines
	Changed         bool   // they changed since
	Lines           []string
	File            int // the index of the file on the page, -1 if it is not there
	Line            int // the line below which it is shown, 0 for none
	Old             bool
}

// newComments returns the comments on a session for a page with some files.
func (s notePages) newComments(one inbox.ProgramSession, about inbox.About, nonce string, files []string) (commentsView, error) {
	v := commentsView{At: s.sessionPath(about), Nonce: nonce, Program: about.Program, ID: one.ID, Label: naming.Label(one.Session)}
	notes, err := choice.ReadNotes(one.Session)
	if err != nil {
		return v, err
	}
	found, err := choice.ReadCommented(one.Program.Storage.Sessions, one.Session, notes.Comments)
	if err != nil {
		return v, err
	}
	v.Unsent = len(notes.Unsent())
	v.CanSend = v.Unsent > 0 && one.CanResume()
	for _, c := range notes.Comments {
		standing, line := c.Stand(found[c.Path])
		view := commentView{ID: c.ID, Place: c.Place(visible.Name), Text: visible.Prose(c.Text), By: audit.FrontText(c.By), Written: visible.Age(c.Written, s.options.Now()), Now: standing.String(), Changed: standing == choice.Altered, Lines: visible.Each(c.Lines, visible.Text), File: slices.Index(files, c.Path), Old: c.Old}
		if !c.Sent.IsZero() {
			view.Sent = visible.Age(c.Sent, s.options.Now())
		}
		if line > 0 {
			view.Line = line + len(c.Lines) - 1
		}
		if standing == choice.Moved {
			view.Now = fmt.Sprintf("moved to line %d, not changed since", line)
		}
		v.List = append(v.List, view)
	}
	sum := sha256.New()
	err = json.NewEncoder(sum).Encode([]any{v.List, v.CanSend})
	v.Version = hex.EncodeToString(sum.Sum(nil))[:16]
	return v, err
}

// showComments shows the comments on a session again, on a page that is open.
func (s notePages) showComments(w http.ResponseWriter, r *http.Request) error {
	v, err := s.commentsOf(r, r.URL.Query().Get("page"))
	if err != nil {
		return err
	}
	if v.Version == r.URL.Query().Get("at") {
		return keepPage(w)
	}
	return s.render(w, http.StatusOK, "comments", view{Data: v})
}

func (s notePages) commentsOf(r *http.Request, nonce string) (commentsView, error) {
	key, id := r.PathValue("program"), r.PathValue("id")
	one, err := inbox.OpenSession(s.options, key, id)
	if err != nil {
		return commentsView{}, err
	}
	p, _ := s.pages.look(nonce, key, sessionPage(id))
	return s.newComments(one, inbox.About{Program: key, ID: id}, nonce, p.files)
}

// changeComments adds or removes a comment. It answers a script, so it says in plain text what
// went wrong: the page keeps what the user wrote.
func (s notePages) changeComments(w http.ResponseWriter, r *http.Request) error {
	v, err := s.commentsAfter(r)
	if err != nil {
		refuse(w, statusOf(err), visible.Text(err.Error()))
		return nil
	}
	s.live.notify()
	return s.render(w, http.StatusOK, "comments", view{Data: v})
}

func (s notePages) commentsAfter(r *http.Request) (v commentsView, err error) {
	key, id := r.PathValue("program"), r.PathValue("id")
	if err := r.ParseForm(); err != nil {
		return v, &sandbox.Error{Op: "comment", Path: id, Code: sandbox.ErrInvalid, Hint: "golem could not read the form: " + err.Error()}
	}
	nonce := r.PostForm.Get("nonce")
	if _, ok := s.pages.look(nonce, key, sessionPage(id)); !ok {
		return v, &sandbox.Error{Op: "comment", Path: id, Code: sandbox.ErrConflict, Hint: "this page is too old; open it again, and comment there"}
	}
	one, err := inbox.OpenSession(s.options, key, id)
	if err != nil {
		return v, err
	}
	change := func(n *choice.Notes) error { return n.Remove(r.PostForm.Get("remove")) }
	if !r.PostForm.Has("remove") {
		made, err := s.newComment(one, r, nonce)
		if err != nil {
			return v, err
		}
		change = func(n *choice.Notes) error { return n.Add(made) }
	}
	if err := choice.ChangeNotes(one.Session, change); err != nil {
		return v, err
	}
	return s.commentsOf(r, nonce)
}

// newComment returns the comment that a form has. One on lines counts only for the content that
// the page showed.
func (s notePages) newComment(one inbox.ProgramSession, r *http.Request, nonce string) (made choice.Comment, err error) {
	var file *choice.File
	line, _ := strconv.Atoi(r.PostForm.Get("line"))
	last, _ := strconv.Atoi(r.PostForm.Get("last"))
	if at := r.PostForm.Get("file"); at != "" {
		index, _ := strconv.Atoi(at)
		name, digest, ok := s.pages.shownFile(nonce, r.PathValue("program"), sessionPage(r.PathValue("id")), index)
		found, err := choice.ReadCommented(one.Program.Storage.Sessions, one.Session, []choice.Comment{{Path: name}})
		if err != nil {
			return made, err
		}
		if file = found[name]; !ok || file == nil || line != 0 && digest != file.Digest() {
			return made, &sandbox.Error{Op: "comment", Path: name, Code: sandbox.ErrConflict, Hint: "the file changed since the page showed it; copy your comment, load the page again, and comment on the new content"}
		}
	}
	return choice.NewComment(file, line, last, r.PostForm.Get("old") != "", strings.TrimSpace(r.PostForm.Get("text")), s.front, s.options.Now())
}
