package desk

import (
	"net/http"
	"strconv"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// maxTree is how many rows the tree of files on a page has.
const maxTree = 1500

// A treeView is the tree of the changed files on a page.
type treeView struct {
	Rows   []treeRow
	Left   int // rows that it does not have
	Files  int
	Viewed int // files that the reviewer marked as viewed, and that are as they were then
}

// A treeRow is a directory or a file in the tree. Its texts are visible text.
type treeRow struct {
	choice.TreeRow
	Full   string
	Mark   string
	Word   string
	Warned bool
	Viewed bool
}

// newTree returns the tree of the files of a review. viewed has those that the reviewer marked.
func newTree(r *session.Review, viewed map[string]bool) treeView {
	v := treeView{Files: len(r.Files), Viewed: len(viewed)}
	rows := choice.Tree(r.Files)
	if len(rows) > maxTree {
		v.Left, rows = len(rows)-maxTree, rows[:maxTree]
	}
	flags := choice.FlagsOf(r)
	for _, row := range rows {
		one := treeRow{TreeRow: row}
		one.Name = visible.Name(row.Name)
		if row.File >= 0 {
			f := r.Files[row.File]
			about := newChangeView(f, row.File)
			one.Full, one.Mark, one.Word, one.Warned, one.Viewed = about.Name, about.Mark, about.Word, len(flags[f.Path]) > 0, viewed[f.Path]
		}
		v.Rows = append(v.Rows, one)
	}
	return v
}

// markViewed marks a file as viewed, or removes the mark. The mark counts for the content that the
// page showed. It answers a script.
func (s notePages) markViewed(w http.ResponseWriter, r *http.Request) error {
	if err := s.setViewed(r); err != nil {
		refuse(w, statusOf(err), visible.Text(err.Error()))
		return nil
	}
	return keepPage(w)
}

func (s notePages) setViewed(r *http.Request) error {
	key, id := r.PathValue("program"), r.PathValue("id")
	if err := r.ParseForm(); err != nil {
		return &sandbox.Error{Op: "viewed", Path: id, Code: sandbox.ErrInvalid, Hint: "golem could not read the form: " + err.Error()}
	}
	index, _ := strconv.Atoi(r.PostForm.Get("file"))
	viewed := r.PostForm.Get("viewed") != ""
	name, digest, ok := s.pages.shownFile(r.PostForm.Get("nonce"), key, sessionPage(id), index)
	if !ok {
		return &sandbox.Error{Op: "viewed", Path: id, Code: sandbox.ErrConflict, Hint: "this page is too old; load it again"}
	}
	one, err := inbox.OpenSession(s.options, key, id)
	if err != nil {
		return err
	}
	if viewed {
		found, err := choice.ReadCommented(one.Program.Storage.Sessions, one.Session, []choice.Comment{{Path: name}})
		if err != nil {
			return err
		}
		switch f := found[name]; {
		case f == nil || digest == "" || digest != f.Digest():
			return &sandbox.Error{Op: "viewed", Path: name, Code: sandbox.ErrConflict, Hint: "this page did not show the content that the file has now; load the page again"}
		case f.CheckViewable() != nil:
			return f.CheckViewable()
		}
	}
	return choice.ChangeNotes(one.Session, func(n *choice.Notes) error { n.SetViewed(name, digest, viewed); return nil })
}
