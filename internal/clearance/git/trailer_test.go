package git_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

const coAuthor = "Co-authored-by: Claude <noreply@anthropic.com>"

// TestWithTrailer checks where a trailer goes.
func TestWithTrailer(t *testing.T) {
	for message, want := range map[string]string{
		"":                                  coAuthor + "\n",
		"Fix it":                            "Fix it\n\n" + coAuthor + "\n",
		"Fix it\n\nBecause.\n\n\n":          "Fix it\n\nBecause.\n\n" + coAuthor + "\n",
		"Fix: it\n":                         "Fix: it\n\n" + coAuthor + "\n", // a subject is no trailer
		"Fix it\n\nRefs: 1\n":               "Fix it\n\nRefs: 1\n" + coAuthor + "\n",
		"Fix it\n\n" + coAuthor + "\nA: b":  "Fix it\n\n" + coAuthor + "\nA: b",
		"Fix it\n\ntext\n" + coAuthor:       "Fix it\n\ntext\n" + coAuthor + "\n\n" + coAuthor + "\n",
		"Fix it\n\n" + coAuthor + "\n\nEnd": "Fix it\n\n" + coAuthor + "\n\nEnd\n\n" + coAuthor + "\n",
	} {
		if got := git.Trailed(message, coAuthor); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
	for text, ok := range map[string]bool{
		coAuthor: true, "A: b": true, "": false, "no trailer": false, "A:b": false, "A : b": false, "A: b\nB: c": false,
		"A: b\r": false, "A: \x1b[31m": false, "A: b\u202e": false, "A: b ": false, ": b": false, "A: " + strings.Repeat("x", 300): false,
	} {
		if got := git.BadTrailer(text) == ""; got != ok {
			t.Errorf("%q: got %v, want %v", text, got, ok)
		}
	}
}

// TestImportTrailer takes the commits of an agent with a trailer: a merge, a signed commit and
// one that has the trailer. The contents stay the same, and the commits that the user took
// before are not new again.
func TestImportTrailer(t *testing.T) {
	dir := newRepository(t)
	base := runGit(t, dir, "rev-parse", "HEAD")
	work := func(agent string) {
		runGit(t, agent, "checkout", "-q", "-b", "side")
		writeFile(t, filepath.Join(agent, "side.txt"), "side\n")
		runGit(t, agent, "add", "side.txt")
		runGit(t, agent, "commit", "-q", "-m", "Side\n\n"+coAuthor)
		runGit(t, agent, "checkout", "-q", "main")
		runGit(t, agent, "commit", "-q", "--allow-empty", "-m", "Main\n\nWhy.")
		runGit(t, agent, "merge", "-q", "--no-ff", "-m", "Merge", "side")
		raw := runGit(t, agent, "cat-file", "commit", "HEAD")
		writeFile(t, filepath.Join(agent, "raw"), strings.Replace(raw, "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n", 1)+"\n")
		runGit(t, agent, "update-ref", "refs/heads/main", runGit(t, agent, "hash-object", "-t", "commit", "-w", "raw"))
		runGit(t, agent, "branch", "-D", "side")
	}
	files := copyForAgent(t, dir, work)
	target, err := openStore(t).Target(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	take := func() *git.Import {
		im, err := target.Import(t.Context(), files, coAuthor, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(im.Close)
		return im
	}
	im := take()
	if len(im.Commits) != 3 || len(im.Branches) != 1 || !slices.Contains(im.Commits, im.Branches[0].Commit) {
		t.Fatalf("got commits %q and branches %+v", im.Commits, im.Branches)
	}
	if err := im.Take(t.Context(), []string{"s/main"}, "new"); err != nil {
		t.Fatal(err)
	}
	for _, hash := range im.Commits {
		raw := runGit(t, dir, "cat-file", "commit", string(hash))
		if strings.Count(raw, coAuthor) != 1 || !strings.HasSuffix(raw, coAuthor) || strings.Contains(raw, "gpgsig") {
			t.Errorf("%s: got %q", hash, raw)
		}
	}
	if got := runGit(t, dir, "merge-base", base, "new"); got != base {
		t.Errorf("the commits start from %s, not from %s", got, base)
	}
	if got := runGit(t, dir, "show", "new:side.txt"); got != "side" {
		t.Errorf("got %q", got)
	}
	runGit(t, dir, "fsck", "--strict")
	if im = take(); len(im.Commits)+len(im.Branches) != 0 {
		t.Errorf("after they were taken: got %q, %+v", im.Commits, im.Branches)
	}
}
