package approval_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/state"
)

// TestShown keeps what was on screen, without what was not. Content that was changed later
// is never returned, and only the last ones are kept.
func TestShown(t *testing.T) {
	dir := t.TempDir()
	folder, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	s, err := approval.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	r := tool.Request{Tool: "write_file", Summary: "create /a", Workers: []string{"main"}, Changes: []tool.Change{{Path: "/a", Op: tool.Create, Diff: "@@ -0,0 +1 @@\n+secret\n"}}}
	if hash := s.KeepShown(r, approval.Reply{}); hash != "" {
		t.Errorf("nothing was on screen, and golem kept %s", hash)
	}
	text := func(hash string) string {
		t.Helper()
		shown, err := s.FindShown(hash)
		if err != nil {
			return "error"
		}
		rows, missing := shown.Rows()
		var lines []string
		for _, row := range rows {
			lines = append(lines, row.Text)
		}
		return fmt.Sprint(strings.Join(lines, "|"), " and ", missing, " more")
	}
	part := s.KeepShown(r, approval.Reply{Rendered: []string{tool.ItemCall}})
	all := s.KeepShown(r, approval.Reply{Rendered: r.Items()})
	if got := text(part); strings.Contains(got, "secret") || strings.HasSuffix(got, " and 0 more") || !strings.Contains(got, "main wants to") {
		t.Errorf("a part: got %q", got)
	}
	if got := text(all); !strings.Contains(got, "secret") || !strings.HasSuffix(got, " and 0 more") {
		t.Errorf("everything: got %q", got)
	}
	other := r
	other.Changes = []tool.Change{{Path: "local/a", Op: tool.Create, Diff: "@@ -0,0 +1 @@\n+secret\n"}}
	if got := text(s.KeepShown(r, approval.Reply{Rendered: r.Items(), Display: &other})); !strings.Contains(got, "secret") {
		t.Errorf("with the user's paths: got %q", got)
	}
	changed := 0
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || !strings.Contains(path, all) {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			changed++
			err = os.WriteFile(path, []byte(strings.Replace(string(data), "secret", "public", 1)), 0o600)
		}
		return err
	})
	if err != nil || changed != 1 {
		t.Fatalf("changed %d files, %v", changed, err)
	}
	if got := text(all); got != "error" {
		t.Errorf("changed content: got %q", got)
	}
	for i := range 501 {
		r.Summary = fmt.Sprint("create ", i)
		all = s.KeepShown(r, approval.Reply{Rendered: r.Items()})
	}
	if text(part) != "error" || text(all) == "error" {
		t.Error("golem keeps the oldest, or not the newest")
	}
}
