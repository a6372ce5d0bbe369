package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// showDecision prints the records about one decision in words: who decided, where, and
// what was on screen.
func (f *programFlags) showDecision(w io.Writer, id string, filter *filterFlags, json bool) error {
	folder, _, err := f.journal()
	if folder != nil {
		defer folder.Close()
	}
	list, story, wrong := findRecords(folder, id, f.namesOf(id), f.sessionsHere)
	if wrong != nil {
		return wrong
	}
	if !story.isEmpty() {
		story.choose(filter)
		list = slices.DeleteFunc(list, func(r audit.Record) bool { return !filter.during(r.Time) })
	}
	if len(list) == 0 && story.isEmpty() { // a decision at a hub or about a device belongs to no directory
		o, wrong := f.options()
		if wrong != nil {
			return wrong
		}
		elsewhere, records, wrong := inbox.UserDecision(o, id)
		if wrong != nil {
			return wrong
		}
		if elsewhere != nil {
			defer elsewhere.Close()
			folder, list, err = elsewhere, records, nil
		}
	}
	if err != nil {
		return err
	}
	if len(list) == 0 && story.isEmpty() {
		return &sandbox.Error{Op: "record", Path: id, Code: sandbox.ErrNotFound, Hint: "it is the number of a record, the id of a request or a call, the start of a digest, or a path that a call changed; golem audit show lists the records"}
	}
	if json && story.isEmpty() {
		return printJSON(w, map[string]any{"records": list})
	}
	if json {
		return printJSON(w, map[string]any{"records": list, "story": story})
	}
	if !story.isEmpty() {
		story.print(w, id)
		if len(list) > 0 {
			fmt.Fprintln(w, "\nthe last decisions about it:")
		}
	}
	versions := false
	texts := make(map[string]bool)
	for i, r := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printDecision(w, r, func(item string) string {
			text := f.compareVersion(item)
			versions = versions || text != ""
			return text
		})
		if r.Text != "" && !texts[r.Text] {
			texts[r.Text] = true
			printShown(w, folder, r.Text)
		}
	}
	if versions {
		fmt.Fprint(w, "\na version is the first 32 hexadecimal digits of the SHA-256 of a content; the journal keeps\nno contents: sha256sum FILE proves that a copy is the content of a version\n")
	}
	return nil
}

// findRecords returns the records about a decision, or about the last calls that changed a path,
// with the story of the path.
func findRecords(folder *state.Dir, id string, names []string, sessions func() ([]*workSession, error)) (list []audit.Record, story fileStory, err error) {
	if folder == nil {
		return nil, story, nil
	}
	if list, err = audit.Related(folder, id); err != nil || len(list) > 0 {
		return list, story, err
	}
	if story, err = readStory(folder, names, sessions); err != nil {
		return nil, story, err
	}
	for _, name := range names {
		if list, err = audit.RelatedToPath(folder, name, maxDecisions); err != nil || len(list) > 0 {
			break
		}
	}
	return list, story, err
}

// versionMark separates the name of a file from the version that was shown, in an item of
// a record.
const versionMark = ", version "

// compareVersion says whether a file still has the version that an item names: "" if the
// item names none.
func (f *programFlags) compareVersion(item string) string {
	of, version, ok := cutLast(item, versionMark)
	version, _, _ = strings.Cut(version, " (") // which part of the file was shown
	name, isContent := strings.CutPrefix(of, "the content of ")
	if !isContent {
		name, isContent = strings.CutPrefix(of, "the diff of ")
	}
	if !ok || !isContent || len(version) != 32 {
		return ""
	}
	for _, local := range f.allPaths() {
		host, ok := local.hostOf(name)
		if !ok {
			continue
		}
		if info, err := os.Lstat(host); err != nil || !info.Mode().IsRegular() {
			return " (there is no such file now)"
		}
		in, err := os.Open(host)
		if err != nil {
			return " (golem cannot read the file now)"
		}
		defer in.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, in); err != nil {
			return " (golem cannot read the file now)"
		}
		if strings.HasPrefix(hex.EncodeToString(sum.Sum(nil)), version) {
			return " = the file as it is now"
		}
		return " (the file differs now)"
	}
	return " (golem does not know the directory of the file)"
}

// allPaths returns the paths of the program here, and those of the sessions here.
func (f *programFlags) allPaths() (list []*paths) {
	if p, err := f.open(opening{otherwise: emptyProgram}); err == nil && p.Content.Hash != "" {
		if local, err := f.pathsOf(p); err == nil {
			list = append(list, local)
		}
	}
	if all, err := f.sessionsHere(); err == nil {
		for _, w := range all {
			list = append(list, w.paths)
		}
	}
	return list
}

// maxDecisions is how many calls with effects on a path are shown in words.
const maxDecisions = 10

// namesOf returns the names in the sandbox that a typed path may have.
func (f *programFlags) namesOf(typed string) (names []string) {
	if p, err := f.open(opening{otherwise: emptyProgram}); err == nil {
		if local, err := f.pathsOf(p); err == nil {
			if name, ok := nameIn(local.mounts, realPath(filepath.Join(local.dir, typed))); ok {
				names = append(names, name)
			}
		}
	}
	if all, err := f.sessionsHere(); err == nil {
		for _, w := range all {
			if name, err := w.nameOf(typed); err == nil {
				names = append(names, name)
			}
		}
	}
	return append(names, path.Join("/", filepath.ToSlash(typed)))
}

// printDecision prints one record in words. For each item that was shown, now says what
// became of its file.
func printDecision(w io.Writer, r audit.Record, now func(item string) string) {
	newScreen(w).page().Line(w, fmt.Sprintf("record %d, %s: %s", r.Number, r.Time.Local().Format(time.DateTime), r.KindText()))
	var rows [][]string
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	add("call", r.CallText())
	for i, line := range commandLines(r) {
		add(map[int]string{0: "command"}[i], line)
	}
	add("about", r.TrustText())
	add("effects", strings.Join(shownAll(r.Effects), ", "))
	add("decided by", r.DeciderText())
	add("seen", r.SeenText())
	for _, item := range r.Shown {
		add("", "• "+visible.Line(item, maxColumns)+now(item))
	}
	if r.Digest != "" && (r.Decision == "yes" || r.Decision == "no" || r.Decision == "pending") {
		add("digest", sandbox.Shown(r.Digest)+", of this exact call and its changes")
	}
	add("request", sandbox.Shown(r.Request))
	add("note", visible.Line(r.Note, maxColumns))
	for i, file := range r.Files.Rows() {
		add(map[int]string{0: filesWord(r)}[i], file)
	}
	printColumns(w, rows)
}

// filesWord says what a record is about its files.
func filesWord(r audit.Record) string {
	if r.Kind == audit.Outcome {
		return "changed"
	}
	return "deletes"
}

// commandLines returns the whole command of a record, as the user can type it. A command with
// line ends is several lines.
func commandLines(r audit.Record) []string {
	command := r.Command()
	if command == "" {
		return nil
	}
	return visible.Each(strings.Split(command, "\n"), visible.Text)
}

// withAccount adds the account of the user and the name of the machine to the place where
// the user answered.
func withAccount(front string) string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += " on " + host
	}
	return front + audit.AccountMark + name
}

// printShown prints the text that a person had on screen, by its hash in the journal.
func printShown(w io.Writer, folder *state.Dir, hash string) {
	store, err := approval.Open(folder)
	var shown approval.Shown
	if err == nil {
		shown, err = store.FindShown(hash)
	}
	if err != nil {
		fmt.Fprintf(w, "golem does not have the text any more: it keeps those of the last decisions; its hash was %s\n", sandbox.Shown(hash))
		return
	}
	rows, missing := shown.Rows()
	fmt.Fprintln(w, "the text that was on screen; its hash is the one in the journal:")
	for _, r := range rows {
		for _, line := range r.Barred(maxColumns, false) {
			fmt.Fprint(w, line)
		}
	}
	if missing > 0 {
		fmt.Fprintf(w, "%s of the call not on screen\n", visible.Count(missing, "more line"))
	}
}
