package sandboxtest

import (
	"fmt"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// chain returns n symlinks, each to the next, and the last to end.
func chain(n int, end string) tree {
	objects := tree{}
	for i := range n {
		target := fmt.Sprintf("c%d", i+1)
		if i == n-1 {
			target = end
		}
		objects[fmt.Sprintf("c%d", i)] = link(target)
	}
	return objects
}

// with adds objects to a tree.
func with(objects, more tree) tree {
	all := tree{}
	for _, t := range []tree{objects, more} {
		for name, o := range t {
			all[name] = o
		}
	}
	return all
}

const (
	circle       = "all=invalid take,fs.Lstat=ok move-to=exists restrict=invalid|outside access=rw"
	linkDangling = isMissing + " take,fs.Lstat,fs.ReadLink=ok move-to=exists restrict=outside"
	linkNotDir   = "all=not_dir exists=not_dir|not_found restrict=not_dir|outside take,fs.Lstat=ok move-to=exists access=rw"
)

var linkAttacks = []attack{
	{name: "P15 links to files outside", want: linkOut,
		paths: []string{"/abs", "/rel", "/sub/rel", "/etc", "/up", "/dotdot", "/host", "/own", "/root"},
		tree: tree{"abs": link("{host}/out/secret"), "rel": link("../out/secret"), "sub/rel": link("../../out/secret"),
			"etc": link("/etc/passwd"), "up": link(".."), "dotdot": link("../../../../../../../../etc/passwd"), "host": link("{host}"),
			"own": link("{host}/proj/spare/mine"), "root": link("/")}},
	{name: "P15 a directory with such links", hides: []string{"secret", "deep"}, shows: map[string]string{"list": "{rel L"}, want: isTop,
		paths: []string{"/"},
		tree: tree{"abs": link("{host}/out/secret"), "rel": link("../out/secret"), "d": link("../out"), "a": link("{host}/out"),
			"sub/d": link("../../out")}},
	{name: "P15 from inside another mount", want: linkOut, mounts: zone, mine: "/zone/spare/mine",
		paths: []string{"/zone/l", "/zone/m", "/zone/n"}, tree: tree{"l": link("../out/secret"), "m": link("../f"), "n": link("..")}},
	{name: "P16 links to directories outside", want: linkOut, paths: []string{"/d", "/a", "/d/", "/d/."},
		tree: tree{"d": link("../out"), "a": link("{host}/out")}},
	{name: "P16 through links to directories outside", want: throughOut,
		tree: tree{"d": link("../out"), "a": link("{host}/out"), "e/f": link("../../out/sub")},
		paths: []string{"/d/secret", "/a/secret", "/d/new", "/d/sub/deep", "/d/sub", "/d/new/deeper", "/a/new", "/e/f/deep",
			"/d/../d/secret"}},
	{name: "P16 policy files through links to directories outside", want: throughOut + " put,if,mkdir,take=protected access=ro",
		tree: tree{"d": link("../out")}, paths: []string{"/d/.git/config", "/d/golem.worker", "/d/new.worker"}},
	{name: "P17 links to what is not there, outside", want: linkOut, paths: []string{"/abs", "/rel", "/deep"},
		tree: tree{"abs": link("{host}/out/new"), "rel": link("../out/new"), "deep": link("../new/er/file")}},
	{name: "P17 links to what is not there, inside", want: linkDangling, paths: []string{"/l", "/m", "/sub/l"},
		tree: tree{"l": link("new"), "m": link("no/such/directory/f"), "sub/l": link("../new.txt")}},
	{name: "P18 a chain that leaves", want: linkOut, paths: []string{"/c0", "/c3", "/c9"}, tree: chain(10, "{host}/out/secret")},
	{name: "P18 a chain that leaves by directories", want: throughOut, paths: []string{"/c0/secret", "/c4/sub/deep"}, tree: chain(5, "../out")},
	{name: "P18 links inside", shows: map[string]string{"read": "text"}, want: linkToFile,
		paths: []string{"/l", "/sub/l", "/c0", "/d/l", "/dot", "/long"},
		tree: with(chain(40, "f.txt"), tree{"f.txt": file("text"), "l": link("f.txt"), "sub/l": link("../f.txt"), "d/l": link("../d/./../sub/l"),
			"dot": link(".//././/f.txt"), "long": link(strings.Repeat("./", 1000) + "f.txt")})},
	{name: "P18 through links inside", want: isFile + " restrict=outside",
		paths: []string{"/d/f.txt", "/e/sub/f.txt", "/top/real/f.txt", "/top/top/top/real/f.txt", "/slash/f.txt"},
		tree: tree{"real/f.txt": file("text"), "real/sub/f.txt": file("text"), "d": link("real"), "e": link("d"), "top": link("."),
			"slash": link("real/")}},
	{name: "P18 links to directories inside", want: linkToDir, paths: []string{"/d", "/e", "/d/", "/slash", "/sub/up"},
		tree: tree{"real/f.txt": file("text"), "d": link("real"), "e": link("d"), "slash": link("real//"), "sub/up": link("../real/.")}},
	{name: "P18 new files through links inside", want: isMissing + " restrict=outside", paths: []string{"/d/new", "/d/no/such/new"},
		tree: tree{"real/f.txt": file("text"), "d": link("real")}},
	{name: "P19 circles", want: circle, paths: []string{"/self", "/p", "/q", "/d/r"},
		tree: tree{"self": link("self"), "p": link("q"), "q": link("p"), "d/r": link("../s"), "s": link("d/r")}},
	{name: "P19 through circles", want: "all=invalid restrict=invalid|outside access=rw",
		paths: []string{"/self/x", "/p/x/y", "/t" + strings.Repeat("/t", 60)},
		tree:  tree{"self": link("self"), "p": link("q"), "q": link("p"), "t": link(".")}},
	{name: "P19 one link too many", want: circle + " fs.ReadLink=ok", paths: []string{"/c0"}, tree: with(chain(41, "f.txt"), tree{"f.txt": file("text")})},
	{name: "P19 a directory with circles", hides: []string{"self/", "t/", "up/", "out/"}, shows: map[string]string{"walk": "{/d/e/up L"},
		want: isTop, paths: []string{"/"},
		tree: tree{"self": link("self"), "t": link("."), "d/up": link(".."), "d/e/up": link("../.."), "out": link("../proj")}},
	{name: "P19 out and in again", want: linkOut, paths: []string{"/up", "/in", "/abs"},
		tree: tree{"up": link("../proj"), "in": link("../proj/f.txt"), "abs": link("{host}/proj/f.txt"), "f.txt": file("text")}},
	{name: "P26 links of the kernel", want: linkOut, paths: []string{"/root", "/cwd", "/fd", "/one", "/thread"},
		tree: tree{"root": link("/proc/self/root"), "cwd": link("/proc/self/cwd"), "fd": link("/proc/self/fd/3"),
			"one": link("/proc/1/root"), "thread": link("/proc/thread-self/root")}},
	{name: "P26 through links of the kernel", want: throughOut, paths: []string{"/root/etc/hostname", "/cwd/x", "/root/{host}/out/secret"},
		tree: tree{"root": link("/proc/self/root"), "cwd": link("/proc/self/cwd")}},
	{name: "link/through a file", want: linkNotDir, paths: []string{"/l", "/m"},
		tree: tree{"f.txt": file("text"), "l": link("f.txt/x"), "m": link("l/y")}},
	{name: "link/behind a file", want: "all=not_dir exists=not_dir|not_found restrict=not_dir|outside access=rw",
		paths: []string{"/f.txt/x", "/l/x", "/f.txt/x/y"}, tree: tree{"f.txt": file("text"), "l": link("f.txt")}},
	{name: "link/up from where a link leads", want: linkToFile, paths: []string{"/t", "/u"},
		shows: map[string]string{"read": "right", "copy": "right", "fs.ReadFile": "right"},
		// Lexically, lnk/../f is the secret at the top. Through the target of lnk, it is
		// another file.
		tree: tree{"deep/one/two/x": file("x"), "lnk": link("deep/one/two"), "t": link("lnk/../f"), "u": link("lnk/../../../deep/one/f"),
			"deep/one/f": file("right"), "f": file("{canary}")}},
	{name: "link/up and out from where a link leads", want: linkOut, paths: []string{"/t", "/u"},
		tree: tree{"deep/one/two/x": file("x"), "lnk": link("deep/one/two"), "t": link("lnk/../../../../out/secret"),
			"u": link("lnk/../../../../proj/deep")}},
	{name: "link/up from what is not there",
		want:  "all=not_found put,mkdir,if=not_found take,fs.Lstat=ok fs.ReadLink,resolve=not_found move-to=exists restrict=not_found|outside access=rw",
		paths: []string{"/l", "/m"}, tree: tree{"l": link("no/../f.txt"), "m": link("no/such/../../f.txt"), "f.txt": file("text")}},
	{name: "link/to a name that is too long", want: circle, paths: []string{"/l", "/m"},
		tree: tree{"l": link(strings.Repeat("n", 1000)), "m": link("d/" + strings.Repeat("n", 300) + "/x"), "d/x": file("x")}},
	{name: "link/to a name that is not UTF-8", want: circle, host: true, paths: []string{"/l", "/m"},
		tree: tree{"l": link("bad\xff"), "bad\xff": file("{canary}"), "m": link("d\xff/f"), "d\xff/f": file("{canary}")}},
	{name: "link/to the mount itself", want: linkToDir + " restrict=outside|not_found", paths: []string{"/zone/l", "/zone/sub/l"},
		mounts: zone, mine: "/zone/spare/mine", tree: tree{"l": link("."), "sub/l": link("../")}},
	{name: "link/to an unfinished file", want: circle, paths: []string{"/l", "/m"},
		tree: tree{".golem-tmp-x": file("{canary}"), "l": link(".golem-tmp-x"), "m": link("d/.golem-tmp-y"),
			"d/.golem-tmp-y": file("{canary}")}},
	{name: "link/to an ending that is not allowed", want: wrongEnding + " take,fs.ReadLink=ok move-to=exists mkdir=exists restrict=outside",
		paths: []string{"/l.md", "/m.md"}, mounts: onlyText, mine: "/spare/mine.md",
		tree: tree{"secret.env": file("{canary}"), "l.md": link("secret.env"), "m.md": link("l.md")}},
	{name: "link/into another mount", want: linkOut, keep: []string{"proj/m"}, paths: []string{"/l", "/d", "/sub/l"},
		mounts: withInner(sandbox.ReadWrite), tree: tree{"l": link("m/x"), "d": link("m"), "sub/l": link("../m/x"), "m/x": file("{canary}")}},
	{name: "link/through another mount", want: throughOut, keep: []string{"proj/m"}, paths: []string{"/d/x", "/d/new", "/e/x"},
		mounts: withInner(sandbox.ReadWrite), tree: tree{"d": link("m"), "e": link("sub/../m"), "sub/f": file("f"), "m/x": file("{canary}")}},
	{name: "link/out of an inner mount", want: linkOut + " move=invalid move-to=exists|outside", paths: []string{"/m/up", "/m/peer"},
		mounts: withInner(sandbox.ReadWrite), tree: tree{"f.txt": file("{canary}"), "m/x": file("{canary}")}},
}

// withInner mounts proj at "/" and another directory at "/m", which hides what proj has
// there. The inner mount has files, and symlinks that leave it.
func withInner(access sandbox.Access) func(*world, sandbox.Backend) []sandbox.Mount {
	return func(w *world, proj sandbox.Backend) []sandbox.Mount {
		inner := w.mount("inner", tree{"y": file("inner"), "d/z": file("inner"), "up": link("../f.txt"), "peer": link("../proj/f.txt")})
		return []sandbox.Mount{
			{Target: "/", Backend: proj, Access: sandbox.ReadWrite},
			{Target: "/m", Backend: inner, Access: access},
		}
	}
}
