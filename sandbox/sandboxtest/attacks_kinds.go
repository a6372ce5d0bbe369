package sandboxtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

func special(mode fs.FileMode) sandbox.Object { return sandbox.Object{Mode: mode | 0o644} }

// Special files can be listed, moved and deleted, but never opened.
const (
	isSpecial     = isFile + " file,fs.Open,fs.Stat,directory,restrict,write,new,if,copy-to=not_regular"
	linkToSpecial = isSpecial + " fs.ReadLink=ok restrict=outside"
)

var kindAttacks = []attack{
	{name: "P27 pipes", want: isSpecial, tree: tree{"x": special(fs.ModeNamedPipe)}, paths: []string{"/x"}},
	{name: "P27 sockets", want: isSpecial, tree: tree{"x": special(fs.ModeSocket)}, paths: []string{"/x"}},
	{name: "P27 devices", want: isSpecial, tree: tree{"x": special(fs.ModeDevice | fs.ModeCharDevice)}, paths: []string{"/x"}},
	{name: "P27 links to pipes", want: linkToSpecial, tree: tree{"x": special(fs.ModeNamedPipe), "l": link("x")}, paths: []string{"/l"}},
	{name: "P27 below pipes", want: "all=not_dir exists=not_found access=rw", tree: tree{"x": special(fs.ModeNamedPipe)},
		paths: []string{"/x/y"}},
	{name: "P27 a directory of pipes", want: isDir,
		tree:  tree{"d/x": special(fs.ModeNamedPipe), "d/y": special(fs.ModeSocket), "d/l": link("x"), "d/e/z": special(fs.ModeNamedPipe)},
		paths: []string{"/d"}},
	{name: "P27 a directory of devices", want: isDir, tree: tree{"d/x": special(fs.ModeDevice | fs.ModeCharDevice), "d/f": file("f")},
		paths: []string{"/d"}},
	{name: "P45 names of unfinished files", want: isNoName,
		paths: []string{"/.golem-tmp-x", "/d/.GOLEM-TMP-y", "/.golem-tmp-", "/.Golem-Tmp-x/y", "/.golem-tmp-x/../spare/.golem-tmp-z"},
		tree:  tree{".golem-tmp-x": file("{canary}"), "d/.golem-tmp-y": file("{canary}")}},
	{name: "P45 a directory of unfinished files", hides: []string{".golem-tmp-"}, shows: map[string]string{"walk": "{/d d"}, want: isTop,
		paths: []string{"/"},
		tree: tree{".golem-tmp-x": file("{canary}"), "d/.golem-tmp-y": file("{canary}"), ".golem-tmp-l": link("../out/secret"),
			".golem-tmp-d/f": file("{canary}")}},
	{name: "P45 temporary names of others", want: isFile, paths: []string{"/f"},
		tree: tree{"f": file("text"), ".f.tmp": link("../out/secret"), "f.tmp": link("{host}/out/secret"), "f~": link("../out/new"),
			".f.swp": link("../out/new"), "#f#": link("../out/new")}},
	{name: "a file without write bits", want: isFile + " write,if=read_only", tree: tree{"f": fileMode("text", 0o444)},
		paths: []string{"/f"}},
	{name: "a file over the limit",
		want: isFile + " file,fs.Open,fs.Stat,restrict=too_large fs.ReadDir=not_dir|too_large if=too_large|conflict",
		tree: tree{"f": file(strings.Repeat("{canary}", 10))}, paths: []string{"/f", "/f/../f"}, mounts: small},
	{name: "a link to a file over the limit",
		want: linkToFile + " file,fs.Open,fs.Stat=too_large fs.ReadDir=not_dir|too_large if=too_large|conflict",
		tree: tree{"f": file(strings.Repeat("{canary}", 10)), "l": link("f")}, paths: []string{"/l"}, mounts: small},
	{name: "a directory with a file over the limit", want: isDir, tree: tree{"d/f": file(strings.Repeat("{canary}", 10))},
		paths: []string{"/d"}, mounts: small},
}

// small mounts proj with a size limit of a few bytes.
func small(_ *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite, MaxFileBytes: 16}}
}

// hostAttacks need features that only a real file system has.
var hostAttacks = []attack{
	{name: "P23 hard links", want: isFile + " if=ok", mayRead: true, paths: []string{"/hard"}, prepare: hardLink, keep: []string{"out"},
		after: func(t testing.TB, w *world, s *sandbox.Sandbox) {
			if info, err := s.Stat("/hard"); err == nil && info.Size() == int64(len(w.canary)) && info.Links() < 2 {
				t.Errorf("a file with two names: got %d links", info.Links())
			}
		}},
	{name: "P24 links to hard links", want: linkToFile + " if=ok", mayRead: true, paths: []string{"/l"}, tree: tree{"l": link("hard")},
		prepare: hardLink, keep: []string{"out"}},
	{name: "P29 a file of 1 TiB", want: hugeFile, paths: []string{"/big"}, skip: []string{"copy"}, prepare: hugeAt("proj/big")},
	{name: "P29 a file of 1 TiB and a limit", want: hugeFile + " file,fs.Open,fs.Stat=too_large fs.ReadDir=not_dir|too_large",
		paths: []string{"/big"}, prepare: hugeAt("proj/big"), mounts: small},
	{name: "P29 a directory with a file of 1 TiB", want: isDir, paths: []string{"/d"}, tree: tree{"d/f": file("f")},
		prepare: hugeAt("proj/d/big")},
	{name: "P31 set-id bits", want: isFile, paths: []string{"/uid", "/gid", "/both"}, after: noSetID,
		tree: tree{"uid": fileMode("x", 0o755|fs.ModeSetuid), "gid": fileMode("x", 0o755|fs.ModeSetgid),
			"both": fileMode("x", 0o777|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)}},
}

const hugeFile = isFile + " read,version,fs.ReadFile,restrict=too_large if=too_large|conflict"

func hardLink(t testing.TB, w *world) {
	if err := os.Link(filepath.Join(w.dir, "out", "secret"), filepath.Join(w.dir, "proj", "hard")); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
}

// hugeAt makes a sparse file with a large size and no content.
func hugeAt(name string) func(testing.TB, *world) {
	return func(t testing.TB, w *world) {
		at := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(at, 1<<40); err != nil {
			t.Skipf("no sparse files here: %v", err)
		}
	}
}

// noSetID fails if a file has set-id bits, which a write must drop. The original file,
// under its own name or moved, may have them.
func noSetID(t testing.TB, w *world, _ *sandbox.Sandbox) {
	for name, now := range w.snapshot() {
		special := strings.HasPrefix(now, "u") || strings.HasPrefix(now, "g") || strings.HasPrefix(now, "t")
		if special && now != w.before[name] && name != "proj/spare/free" {
			t.Errorf("%s has %s", name, now)
		}
	}
}
