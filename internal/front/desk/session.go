package desk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// These constants limit how much of a session a page shows before the user opens more.
const (
	maxFilesListed = 200 // then the list continues when the user scrolls
	maxFilesOpen   = 50
	maxEvents      = 200
)

// A sessionView is a session on a page.
type sessionView struct {
	inbox.About
	Nonce     string
	Changed   []string   // names of the files that changed after the page showed them
	Nothing   bool       // the user chose nothing
	Flags     []flagView // one for each file
	MoreFlags int
	List      filesView
	Tree      treeView
	Total     string
	Skipped   []string
	Commits   []commitsView
	Comments  commentsView
	Events    []inbox.Event
	Earlier   int // events that are not shown
	After     int // how many events there are
	Done      string
	Status    statusView
	Now       inbox.Event // what its run does at the moment
}

// A filesView is a part of the list of changed files.
type filesView struct {
	At    string // the path of the page
	Nonce string
	Dirs  []dirView
	Next  int // the index of the next file, 0 if there is none
	Left  int // how many files come after
}

// A dirView is a directory with changed files.
type dirView struct {
	Name  string
	Files []changeView
}

// A changeView is a changed file on the page of a session.
type changeView struct {
	At, Nonce string
	Index     int
	Path      string
	Base      string // the last part of its name
	Name      string
	Mark      string // A, M or D
	Word      string // the same as a word
	About     string
	Flags     []string
	Why       string // why it cannot be chosen, "" if it can
	Open      bool
	Viewed    bool // somebody marked this content as viewed, so it is folded
	Since     bool // it changed since
	Pieces    []pieceView
}

// A flagView is the first warning about a file, with the number of the others.
type flagView struct {
	Text string
	More int
}

// A pieceView is a part of a change that can be chosen.
type pieceView struct {
	Item  string // names it in the form: 3 is all of file 3, 3.1 its first hunk, 3.mode its permission bits
	Title string
	Whole bool // it is all of the change
	Rows  []visible.Row
}

// A commitsView is a repository with commits that a session made.
type commitsView struct {
	Name    string
	Refs    []string
	Commits []commitRow
}

// A commitRow is a commit of a session. Its texts are visible text.
type commitRow struct {
	settle.Commit
	Author   string
	Warnings []string
}

// flagText returns a warning about a change for a page.
func flagText(f review.Flag) string { return visible.Text(f.String()) }

func sessionPage(id string) string { return "session " + id }

// showSession shows a session: what happens in it, and what it has changed.
func (s *server) showSession(w http.ResponseWriter, r *http.Request) error {
	return s.renderSession(w, r, http.StatusOK, sessionView{Done: s.actions.takeNote(r.URL.Query().Get("done"))})
}

func (s *server) renderSession(w http.ResponseWriter, r *http.Request, status int, v sessionView) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	one, err := inbox.OpenSession(s.options, key, id)
	if err == nil {
		v.About, err = one.About()
	}
	var events []inbox.Event
	if err == nil {
		events, err = s.events.Of(one)
	}
	if err != nil {
		return err
	}
	v.After = len(events)
	v.Earlier = max(0, len(events)-maxEvents)
	if r.URL.Query().Has("everything") {
		v.Earlier = 0
	}
	v.Events = events[v.Earlier:]
	if err := s.addChanges(r.Context(), one, &v); err != nil {
		return err
	}
	v.Status = s.newStatus(one, v.About, v.Nonce)
	v.Now, _ = one.Now()
	return s.render(w, status, "session", view{Title: sessionTitle(v.About), Data: v})
}

// sessionTitle returns the title of a tab: what works in a session, and its name, so that tabs
// differ.
func sessionTitle(a inbox.About) string {
	name := cmp.Or(a.Name, a.ID)
	if what := cmp.Or(a.Input, a.What); what != "" {
		return visible.Cut(what, maxTabTitle) + " · " + name
	}
	return "Session " + name
}

// maxTabTitle is how many characters of an input the title of a tab has.
const maxTabTitle = 60

// addChanges adds the changes of a session to its page.
func (s *server) addChanges(ctx context.Context, one inbox.ProgramSession, v *sessionView) error {
	look, err := one.Program.Storage.Sessions.ListChanges(one.Session)
	if err != nil {
		return err
	}
	defer look.Close()
	r, err := look.Review(nil, false)
	if err != nil {
		return err
	}
	p := &page{program: v.Program, id: sessionPage(v.ID), digest: digestReview(r), sent: make(map[string]bool), digests: make(map[int]string)}
	p.files = visible.Each(r.Files, func(c session.FileChange) string { return c.Path })
	notes, err := choice.ReadNotes(one.Session)
	if err != nil {
		return err
	}
	contents, err := readLooked(look, opened(r, notes))
	if err != nil {
		return err
	}
	l := fileList{s: s, about: v.About, review: r, opened: contents, notes: notes}
	v.List = l.part(p, 0)
	s.pages.add(p)
	v.Nonce = p.nonce
	v.List.setNonce(p.nonce)
	v.Comments, err = notePages{s}.newComments(one, v.About, p.nonce, p.files)
	if err != nil {
		return err
	}
	viewed := make(map[string]bool)
	for name, f := range contents {
		if is, _ := notes.IsViewed(f.File); is {
			viewed[name] = true
		}
	}
	v.Tree = newTree(r, viewed)
	v.MoreFlags = len(r.Flags)
	for _, f := range choice.OnePerFile(review.Shorten(r.Flags), r.Flags) {
		v.Flags = append(v.Flags, flagView{flagText(f.Flag), f.More})
		v.MoreFlags -= 1 + f.More
	}
	if len(r.Files) > 0 {
		v.Total = r.Total().String()
	}
	v.Skipped = choice.Skipped(r, "", visible.Name)
	if !r.Refs {
		return nil
	}
	repositories, skipped, err := one.Program.Commits(one.Session).Read(ctx)
	if err != nil {
		skipped = append(skipped, err.Error())
	}
	for _, text := range skipped {
		v.Skipped = append(v.Skipped, "commits: "+visible.Line(text, maxNote))
	}
	for _, repository := range repositories {
		c := commitsView{Name: visible.Name(repository.Name), Refs: visible.Each(repository.Branches, sandbox.Shown)}
		for _, one := range repository.Commits {
			c.Commits = append(c.Commits, commitRow{Commit: one, Author: visible.Line(one.Author, maxNote), Warnings: visible.Each(one.Flags, flagText)})
		}
		v.Commits = append(v.Commits, c)
	}
	return nil
}

// maxMarked is how many files with a mark a page reads, to compare them with it.
const maxMarked = 500

// opened returns the names of the files that a page reads: those that somebody marked as viewed,
// and the first others, as far as there is room to show them open.
func opened(r *session.Review, notes choice.Notes) (names []string) {
	rows, marked := 0, 0
	for _, c := range r.Files {
		if _, ok := notes.Viewed[c.Path]; ok && marked < maxMarked && c.Size <= maxBytesOpen {
			marked++
			names = append(names, c.Path)
			continue
		}
		if more := c.Added + c.Removed + 10; rows+more <= maxRowsOpen && len(names)-marked < maxFilesOpen && c.Size <= maxBytesOpen {
			rows += more
			names = append(names, c.Path)
		}
	}
	return names
}

// digestReview returns a hash of the list of changes, without their contents.
func digestReview(r *session.Review) string {
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	for _, f := range r.Files {
		encoder.Encode(f)
	}
	encoder.Encode([]any{r.Git, r.Unfit, r.Others, r.Ignored})
	return hex.EncodeToString(sum.Sum(nil))
}

// A fileContent is a changed file as a page shows it.
type fileContent struct {
	*choice.File
	items []*choice.Item // empty if it cannot be chosen
}

// readFiles reads changed files with their diffs, by name.
func readFiles(one inbox.ProgramSession, names []string) (map[string]fileContent, error) {
	if len(names) == 0 {
		return nil, nil
	}
	look, err := one.Program.Storage.Sessions.ListChanges(one.Session)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	return readLooked(look, names)
}

// readLooked is readFiles for changes that are listed already.
func readLooked(look *session.ChangeList, names []string) (map[string]fileContent, error) {
	found := make(map[string]fileContent)
	if len(names) == 0 {
		return found, nil
	}
	files, paths, err := choice.ReadFiles(look, names, true)
	if err != nil {
		return nil, err
	}
	for name, f := range files {
		content := fileContent{File: f}
		if paths.ObstacleOf(f.FileChange, true) == choice.None {
			content.items = content.Items()
		}
		found[name] = content
	}
	return found, nil
}

// A fileList makes the list of changed files on a page.
type fileList struct {
	s      *server
	about  inbox.About
	review *session.Review
	opened map[string]fileContent
	notes  choice.Notes
}

// part returns the files from an index on. It records in the page what they show.
func (l fileList) part(p *page, from int) filesView {
	v := filesView{At: l.s.sessionPath(l.about)}
	files := l.review.Files
	to := min(len(files), from+maxFilesListed)
	if to < len(files) {
		v.Next, v.Left = to, len(files)-to
	}
	flags := choice.FlagsOf(l.review)
	for i := from; i < to; i++ {
		f := files[i]
		dir := visible.Name(path.Dir(f.Path))
		if n := len(v.Dirs); n == 0 || v.Dirs[n-1].Name != dir {
			v.Dirs = append(v.Dirs, dirView{Name: dir})
		}
		one := newChangeView(f, i)
		one.At = v.At
		for _, flag := range flags[f.Path] {
			one.Flags = append(one.Flags, visible.Text(flag.At("")))
		}
		content, ok := l.opened[f.Path]
		if ok {
			one.Viewed, one.Since = l.notes.IsViewed(content.File)
		}
		if ok && !one.Viewed {
			one.open(content)
			p.addFile(i, content.Digest(), one.items())
		}
		last := &v.Dirs[len(v.Dirs)-1]
		last.Files = append(last.Files, one)
	}
	return v
}

func (v *filesView) setNonce(nonce string) {
	v.Nonce = nonce
	for _, d := range v.Dirs {
		for i := range d.Files {
			d.Files[i].Nonce = nonce
		}
	}
}

// newChangeView returns a changed file without its content.
func newChangeView(c session.FileChange, index int) changeView {
	v := changeView{Index: index, Path: c.Path, Base: visible.Name(path.Base(c.Path)), Name: visible.Name(c.Path), Mark: "M", Word: "changed", About: visible.LineCounts(c.Added, c.Removed)}
	switch c.Op {
	case overlay.Create:
		v.Mark, v.Word = "A", "new"
	case overlay.Delete:
		v.Mark, v.Word = "D", "deleted"
	}
	var about []string
	switch {
	case c.MovedTo != "" && c.Files == 0:
		about = append(about, "moved to "+visible.Name(c.MovedTo))
	case c.OldKind == overlay.Dir && c.Kind != overlay.Dir:
		about = append(about, "directory with "+visible.Count(c.Files, "file")+", -"+visible.Number(c.Removed)+" lines")
	case c.From != "":
		about = append(about, "moved from "+visible.Name(c.From))
		if c.Edited {
			about = append(about, visible.LineCounts(c.Added, c.Removed))
		}
	case c.Kind == overlay.Symlink:
		about = append(about, "symlink to "+sandbox.Shown(c.LinkTarget))
	case c.Kind == overlay.Dir:
		about = append(about, "directory")
	case c.Binary, c.Unread:
		about = append(about, "not shown, "+visible.Amount(c.Size))
	case c.Added+c.Removed > 0:
		about = append(about, visible.LineCounts(c.Added, c.Removed))
	}
	if c.OldMode != "" {
		about = append(about, "permission bits "+c.OldMode+" → "+c.Mode)
	} else if c.UnusualMode {
		about = append(about, "permission bits "+c.Mode)
	}
	v.About = strings.Join(about, ", ")
	switch {
	case c.Conflict:
		v.Why = "changed in your directory too; golem apply --merge combines both versions"
	case c.Kind == overlay.Special:
		v.Why = "a pipe, socket or device, which golem never applies"
	case choice.Stays(c) != "":
		v.Why = choice.Stays(c) + "; delete it yourself, or discard the change"
	case c.Protected != "":
		v.Flags = append(v.Flags, "protected ("+visible.Text(c.Protected)+")")
	}
	return v
}

// open adds the content of a file.
func (v *changeView) open(f fileContent) {
	v.Open = true
	name := strconv.Itoa(v.Index)
	hunk := 0
	for _, c := range f.items {
		piece := pieceView{Item: name, Whole: true}
		diff := f.Diff
		switch {
		case c.Mode:
			piece = pieceView{Item: name + ".mode", Title: "Permission bits " + f.OldMode + " → " + f.FileChange.Mode}
			diff = ""
		case c.Hunk != nil:
			hunk++
			piece = pieceView{Item: fmt.Sprintf("%s.%d", name, hunk), Title: fmt.Sprintf("Hunk %d", hunk)}
			diff = c.Hunk.String()
		}
		piece.add(diff)
		v.Pieces = append(v.Pieces, piece)
	}
	if len(f.items) == 0 {
		piece := pieceView{Item: name, Whole: true}
		piece.add(f.Diff)
		v.Pieces = append(v.Pieces, piece)
	}
}

// add adds the rows of a diff.
func (p *pieceView) add(diff string) {
	p.Rows = visible.DiffRows(diff)
	for i := range p.Rows {
		p.Rows[i].Item = p.Item
	}
}

// items returns the items of an open file.
func (v changeView) items() []string {
	return visible.Each(v.Pieces, func(p pieceView) string { return p.Item })
}

func (s *server) sessionPath(a inbox.About) string {
	return s.guard.prefix + "session/" + a.Program + "/" + a.ID
}

// reviewOf returns a session of a program, and the list of its changes.
func reviewOf(o program.Options, key, id string) (one inbox.ProgramSession, r *session.Review, err error) {
	if one, err = inbox.OpenSession(o, key, id); err == nil {
		r, err = one.Program.Storage.Sessions.Review(one.Session, nil, false, nil)
	}
	return one, r, err
}

// showFiles shows the next part of the list of files on a page that is open.
func (s *server) showFiles(w http.ResponseWriter, r *http.Request) error {
	key, id, nonce := r.PathValue("program"), r.PathValue("id"), r.URL.Query().Get("page")
	_, review, err := reviewOf(s.options, key, id)
	if err != nil {
		return err
	}
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	p, ok := s.pages.look(nonce, key, sessionPage(id))
	if err != nil || !ok || p.digest != digestReview(review) || from < 0 || from > len(review.Files) {
		return s.render(w, http.StatusOK, "reload", view{Data: s.sessionPath(inbox.About{Program: key, ID: id})})
	}
	l := fileList{s: s, about: inbox.About{Program: key, ID: id}, review: review}
	list := l.part(nil, from)
	list.setNonce(nonce)
	return s.render(w, http.StatusOK, "files", view{Data: list})
}

// showChange shows one changed file on the page of a session that is open.
func (s *server) showChange(w http.ResponseWriter, r *http.Request) error {
	key, id, nonce := r.PathValue("program"), r.PathValue("id"), r.URL.Query().Get("page")
	index, err := strconv.Atoi(r.PathValue("index"))
	p, _ := s.pages.look(nonce, key, sessionPage(id))
	if err != nil || index < 0 || index >= len(p.files) {
		return s.render(w, http.StatusOK, "reload", view{Data: s.sessionPath(inbox.About{Program: key, ID: id})})
	}
	one, err := inbox.OpenSession(s.options, key, id)
	if err != nil {
		return err
	}
	found, err := readFiles(one, []string{p.files[index]})
	if err != nil {
		return err
	}
	content, ok := found[p.files[index]]
	if !ok {
		return s.render(w, http.StatusOK, "reload", view{Data: s.sessionPath(inbox.About{Program: key, ID: id})})
	}
	v := newChangeView(content.FileChange, index)
	v.open(content)
	s.pages.addFile(nonce, key, sessionPage(id), index, content.Digest(), v.items())
	return s.render(w, http.StatusOK, "pieces", view{Data: v})
}

// showTimeline shows the events of a session after those that a page has.
func (s *server) showTimeline(w http.ResponseWriter, r *http.Request) error {
	one, err := inbox.OpenSession(s.options, r.PathValue("program"), r.PathValue("id"))
	if err != nil {
		return err
	}
	events, err := s.events.Of(one)
	if err != nil {
		return err
	}
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil || after < 0 || after > len(events) {
		after = len(events)
	}
	if after == len(events) {
		return keepPage(w)
	}
	v := sessionView{About: inbox.About{Program: r.PathValue("program"), ID: r.PathValue("id")}, Events: events[after:], After: len(events)}
	return s.render(w, http.StatusOK, "events", view{Data: v})
}

// showSessionState shows the state of a session on a page that is open, and whether its
// changes are still those that the page lists.
func (s *server) showSessionState(w http.ResponseWriter, r *http.Request) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	one, review, err := reviewOf(s.options, key, id)
	var about inbox.About
	if err == nil {
		about, err = one.About()
	}
	if err != nil {
		return s.render(w, http.StatusOK, "over", view{Data: visible.Text(err.Error())})
	}
	nonce := r.URL.Query().Get("page")
	v := s.newStatus(one, about, nonce)
	p, ok := s.pages.look(nonce, key, sessionPage(id))
	v.Stale = !ok || p.digest != digestReview(review)
	return s.render(w, http.StatusOK, "session-state", view{Data: v})
}
