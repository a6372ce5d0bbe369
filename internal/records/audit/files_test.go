package audit

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// keepRecord returns a record as a journal writes it, and the line.
func keepRecord(t *testing.T, r Record) (Record, string) {
	t.Helper()
	kept := newRedactor([]string{"hunter2hunter2"}).record(r)
	line, err := middle(kept)
	if err != nil {
		t.Fatal(err)
	}
	return kept, string(line)
}

// TestRecordFiles checks that a record names as many files as fit, with names that no terminal
// interprets, and that the hash covers exactly the others.
func TestRecordFiles(t *testing.T) {
	many := make([]File, 50_000)
	for i := range many {
		many[i] = File{Path: fmt.Sprintf("/n/%d", i), Op: "create", Size: int64(i), Digest: strings.Repeat("a", 64)}
	}
	kept, line := keepRecord(t, Record{Files: &Files{List: many}})
	if f := kept.Files; len(f.List) != MaxFiles || f.More != len(many)-MaxFiles || f.Hash != hashFiles(many[MaxFiles:]) || f.Count() != len(many) {
		t.Errorf("%d named, %d more, hash %s", len(f.List), f.More, f.Hash)
	}
	if len(line) > maxBytes {
		t.Errorf("the line has %d bytes", len(line))
	}
	other := append([]File{}, many...)
	other[len(other)-1].Size++
	if changed, _ := keepRecord(t, Record{Files: &Files{List: other}}); changed.Files.Hash == kept.Files.Hash {
		t.Error("another file has the same hash")
	}

	var long []File
	for i := range MaxFiles {
		long = append(long, File{Path: "/" + strings.Repeat("\x1b\u202e", 2000) + fmt.Sprint(i), Op: "create"})
	}
	kept, line = keepRecord(t, Record{Files: &Files{List: long}})
	if f := kept.Files; f.Count() != len(long) || len(f.List) == 0 || f.More == 0 {
		t.Errorf("%d named, %d more", len(f.List), f.More)
	}
	if len(line) > maxBytes+1024 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("a line of %d bytes: %.200q", len(line), line)
	}
	if _, ok := kept.Files.Find(long[0].Path); !ok {
		t.Error("a path that the journal cuts is not found")
	}

	kept, line = keepRecord(t, Record{Files: &Files{List: []File{{Path: "/a\xff\n\x1b[31m", Op: "delete"}, {Path: "/hunter2hunter2", Op: "create"}}}})
	if strings.Contains(line, "hunter2") || !utf8.ValidString(line) {
		t.Errorf("got %s", line)
	}
	for _, row := range kept.Files.Rows() {
		if strings.ContainsFunc(row, func(r rune) bool { return r < ' ' }) {
			t.Errorf("got %q", row)
		}
	}
	if kept, line = keepRecord(t, Record{Files: &Files{}}); kept.Files != nil || strings.Contains(line, "files") {
		t.Errorf("nothing changed: %s", line)
	}
}

// TestRecordIgnored checks that a record has one line for each ignored place, that the journal finds
// a file in one or in a deleted directory, and that the number of places is limited.
func TestRecordIgnored(t *testing.T) {
	files := &Files{List: []File{{Path: "/src", Op: "delete", Kind: "directory"}}}
	for i := range 30 {
		files.List = append(files.List, File{Path: fmt.Sprintf("/p%02d/a", i), Op: "create", Place: fmt.Sprintf("/p%02d/", i)}, File{Path: fmt.Sprintf("/p%02d/b", i), Op: "create", Place: fmt.Sprintf("/p%02d/", i)})
	}
	kept, _ := keepRecord(t, Record{Files: files})
	f := kept.Files
	if len(f.Ignored) != maxPlaces || f.Ignored[0].Files != 2 || f.Ignored[0].Hash != hashFiles(files.List[1:3]) || len(f.List) != 1+2*(30-maxPlaces) {
		t.Errorf("%d places, %d files: %+v", len(f.Ignored), len(f.List), f.Ignored)
	}
	for path, want := range map[string]string{"/p03/a": "/p03/ (2 ignored files)", "/p03": "/p03/ (2 ignored files)", "/src/main.c": "D /src (directory)", "/p030/a": "", "/srcs/x": ""} {
		if file, ok := f.Find(path); ok != (want != "") || ok && file.String() != want {
			t.Errorf("%s: got %v, %v, want %q", path, file, ok, want)
		}
	}
	if got, want := (&Files{Ignored: f.Ignored[:2]}).String(), "4 ignored files"; got != want || (&Files{Ignored: f.Ignored}).IsEmpty() {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWholeCommand checks that the journal keeps long commands, and that a shell reads the words
// as they were.
func TestWholeCommand(t *testing.T) {
	words := []any{"printf", "%s|", "", "it's", "a\nb\tc", `back\slash`, "$HOME `x` \u202e \x1b[31m", "ä 😀", strings.Repeat("long ", 2000)}
	for i := range 1000 {
		words = append(words, fmt.Sprintf("f%d", i))
	}
	kept, _ := keepRecord(t, Record{Args: map[string]any{"command": words}})
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	command := exec.Command(bash, "-c", kept.Command())
	command.Env = []string{"LC_ALL=C.UTF-8"}
	got, err := command.Output()
	want := ""
	for _, w := range words[2:] {
		want += fmt.Sprint(w) + "|"
	}
	if err != nil || string(got) != want {
		t.Errorf("%v\ngot  %.300q\nwant %.300q", err, got, want)
	}
	for i := range words {
		words[i] = strings.Repeat("\x1b", 900)
	}
	if _, line := keepRecord(t, Record{Args: map[string]any{"command": words}}); len(line) > maxBytes+1024 {
		t.Errorf("a line of %d bytes", len(line))
	}
}
