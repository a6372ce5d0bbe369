package desk

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// A commitView is a staged commit on a page.
type commitView struct {
	Program, ID, Nonce string
	Short              string
	Subject            string
	Message            []string // its other lines
	Target, Branch     string
	Directory          string
	Workers            string
	Session            string
	Created            time.Time
	Untrusted          string // that its workers had read
	Intake, Bytes      string // how much they had read, and made
	Ratio              int    // percent, 0 if it is not known
	Held               []heldView
	HeldBack, Told     []string // findings of the scanners
	Flags              []string
	Scanned            []string
	Code, Rest         []fileView // files that become code, and the others
	Unsent             int        // files that the page does not show yet
	HasUnseen          bool       // some files are too large or too many to show
	Problem            string     // why golem did not push
}

// A heldView is a file that a scanner holds back.
type heldView struct {
	Index  int
	Name   string
	Reason string // that the user typed
}

func commitPage(id string) string { return "commit " + id }

// showCommit shows a staged commit.
func (s *server) showCommit(w http.ResponseWriter, r *http.Request) error {
	return s.renderCommit(w, r, http.StatusOK, nil, "")
}

func (s *server) renderCommit(w http.ResponseWriter, r *http.Request, status int, reasons []string, problem string) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	p, err := inbox.OpenProgram(s.options, key)
	if err != nil {
		return err
	}
	staged, look, err := inbox.ReadStaged(r.Context(), p, id, s.secrets)
	if err != nil {
		return err
	}
	v := newCommitView(look, r.URL.Query().Has("all"))
	v.Program, v.ID, v.Directory, v.Problem = key, id, visible.Text(string(p.Root())), problem
	v.Untrusted = sandbox.Shown(staged.Untrusted)
	for i := range v.Held {
		if i < len(reasons) {
			v.Held[i].Reason = visible.Line(reasons[i], maxNote)
		}
	}
	one := &page{program: key, id: commitPage(id), digest: id, sent: make(map[string]bool), changes: look.Changes(), held: look.Held()}
	for _, f := range slices.Concat(v.Code, v.Rest) {
		if f.Open {
			one.sent[tool.ItemContent(f.Index)] = true
		}
	}
	s.pages.add(one)
	v.Nonce = one.nonce
	return s.render(w, status, "commit", view{Title: "Review a commit", Data: v})
}

// newCommitView returns a staged commit as a page shows it. With all, every file is open.
func newCommitView(l *git.CommitView, all bool) commitView {
	subject, rest, _ := strings.Cut(strings.TrimSpace(l.Message), "\n")
	v := commitView{Short: sandbox.Shown(l.CommitID[:min(12, len(l.CommitID))]), Subject: visible.Line(subject, maxNote), Target: sandbox.Shown(l.Target), Branch: sandbox.Shown(l.Branch), Session: sandbox.Shown(l.Session),
		Created: l.CreatedAt, Scanned: l.DescribeScanners(), HasUnseen: l.HasUnseen(), Bytes: visible.Amount(l.Bytes)}
	for line := range strings.SplitSeq(rest, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			v.Message = append(v.Message, visible.Line(line, maxNote))
		}
	}
	v.Workers = strings.Join(visible.Each(l.Workers, sandbox.Shown), " › ")
	if l.Intake > 0 {
		v.Intake, v.Ratio = visible.Amount(l.Intake), int((100*l.Bytes+l.Intake/2)/l.Intake)
	}
	for i, name := range l.Held() {
		v.Held = append(v.Held, heldView{Index: i, Name: visible.Name(name)})
	}
	held, told := l.Findings()
	v.HeldBack, v.Told = visible.Each(held, visible.Text), visible.Each(told, visible.Text)
	code := make(map[string]bool)
	for _, f := range l.Flags {
		code[f.Path] = code[f.Path] || f.BecomesCode()
	}
	v.Flags = visible.Each(review.Shorten(l.Flags), flagText)
	opened := room{all: all}
	for i, c := range l.Changes() {
		f := changeRows(i, c)
		if !opened.take(&f) {
			v.Unsent++
		}
		if code[c.Path] {
			v.Code = append(v.Code, f)
		} else {
			v.Rest = append(v.Rest, f)
		}
	}
	return v
}

// changeRows returns a change with the lines of its diff.
func changeRows(index int, c tool.Change) fileView {
	title := visible.Name(c.Path)
	switch c.Op {
	case tool.Create:
		title = "new " + title
	case tool.Delete:
		title = "delete " + title
	}
	for _, text := range []string{c.About, c.Omitted} {
		if text != "" {
			title += ", " + visible.Line(text, maxNote)
		}
	}
	f := fileView{Index: index, Title: visible.Row{Text: title}, Rows: visible.DiffRows(c.Diff), Name: c.Path}
	for i := range f.Rows {
		f.Rows[i].Item = tool.ItemContent(index)
	}
	return f
}

// showCommitFile shows one file on the page of a commit that is open.
func (s *server) showCommitFile(w http.ResponseWriter, r *http.Request) error {
	key, id, nonce := r.PathValue("program"), r.PathValue("id"), r.URL.Query().Get("page")
	i, err := strconv.Atoi(r.PathValue("index"))
	p, _ := s.pages.look(nonce, key, commitPage(id))
	if err != nil || i < 0 || i >= len(p.changes) || !s.pages.addSent(nonce, key, commitPage(id), id, tool.ItemContent(i)) {
		return &sandbox.Error{Op: "file", Path: r.PathValue("index"), Code: sandbox.ErrConflict, Hint: "the page is too old; reload it"}
	}
	return s.render(w, http.StatusOK, "file", view{Data: changeRows(i, p.changes[i])})
}

// showCommitState tells an open page whether its commit still waits.
func (s *server) showCommitState(w http.ResponseWriter, r *http.Request) error {
	p, err := inbox.OpenProgram(s.options, r.PathValue("program"))
	if err == nil {
		records, wrong := p.Storage.OpenRecords()
		if err = wrong; err == nil {
			_, err = records.StagedCommit(r.PathValue("id"))
			records.Close()
		}
	}
	if err == nil {
		return keepPage(w)
	}
	return s.render(w, http.StatusOK, "over", view{Data: visible.Text(err.Error())})
}

// decideCommit pushes or discards a staged commit. The gate asks once more, with the exact
// content that it would push.
func (s *server) decideCommit(w http.ResponseWriter, r *http.Request) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	p, err := s.pages.useForm(r, "decide", key, commitPage(id))
	if err != nil {
		return err
	}
	a := action{program: key, shown: p.shownChanges(r.PostForm.Get("seen"))}
	switch r.PostForm.Get("action") {
	case "push":
		var overrides, reasons []string
		missing := false
		for i, name := range p.held {
			reason := strings.TrimSpace(r.PostForm.Get("reason-" + strconv.Itoa(i)))
			reasons, missing = append(reasons, reason), missing || reason == ""
			overrides = append(overrides, name+"="+reason)
		}
		if missing {
			return s.renderCommit(w, r, http.StatusUnprocessableEntity, reasons, fmt.Sprintf("golem pushed nothing: scanners hold back %s. Write for each why it may pass, or discard the commit.", visible.Count(len(p.held), "file")))
		}
		a.call, err = tool.NewCall(git.PushArgs{CommitID: id, Override: overrides, Unseen: r.PostForm.Get("unseen") != ""})
	case "discard":
		a.call, err = tool.NewCall(git.DiscardArgs{CommitID: id})
	default:
		err = &sandbox.Error{Op: "decide", Path: id, Code: sandbox.ErrInvalid, Hint: "the action is push or discard"}
	}
	if err != nil {
		return err
	}
	return s.act(w, r, a)
}

// shownChanges returns the changes whose contents were on the screen, by path.
func (p *page) shownChanges(seen string) choice.Shown {
	shown := make(choice.Shown)
	for item := range strings.SplitSeq(seen, ",") {
		for i, c := range p.changes {
			if p.sent[item] && item == tool.ItemContent(i) {
				shown[c.Path] = c
			}
		}
	}
	return shown
}
