package sandboxtest

import (
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// some returns a tree for attacks that need no special one.
func some() tree {
	return tree{"a/b/f.txt": file("text"), "f.txt": file("text")}
}

// zone mounts only proj, at /zone.
func zone(_ *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{{Target: "/zone", Backend: proj, Access: sandbox.ReadWrite}}
}

// onlyText mounts proj and allows only the suffix .md.
func onlyText(_ *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite, Suffixes: []string{".md"}}}
}

// The results at a name whose suffix is not allowed. Such a file can be listed and
// nothing else. (fs.Stat opens the file.)
const (
	wrongEnding        = isFile + " file,fs.Open,fs.Stat,put,if,take,restrict=suffix fs.ReadDir=suffix|not_dir"
	wrongEndingMissing = isMissing + " file,put,if,restrict=suffix fs.ReadFile=suffix|not_found"
)

var nameAttacks = []attack{
	{name: "P01 climbing above the top", tree: some(), want: isNoName, paths: []string{
		"/../out/secret", "/a/../../out/secret", "../out/secret", "/a/b/../../../out/secret", "a/../../proj/f.txt",
		"/./../out/secret", "//../out", "/../proj/f.txt", "/f.txt/../../out/secret", strings.Repeat("../", 30) + "etc/passwd"}},
	{name: "P01 climbing above a mount", tree: some(), mounts: zone, mine: "/zone/spare/mine", want: "all=not_found|invalid access=none",
		paths: []string{"/zone/../out/secret", "zone:../out/secret", "/zone/../zone-secret/f", "zone:../../out/secret", "/out/secret"}},
	{name: "P02 parent as the last part", tree: some(), want: isNoName, paths: []string{
		"/..", "/../", "..", "../", "/a/..//../", "/a/../..", "/./..", "/../.", "/..//"}},
	{name: "P03 a host path is a virtual one", tree: some(), want: isMissing, paths: []string{
		"/etc/passwd", "{host}/out/secret", "{host}/proj/f.txt", "/proc/self", "/proc/self/environ", "/dev/null", "{host}"}},
	{name: "P03 a host path in a zone", tree: some(), mounts: zone, mine: "/zone/spare/mine", want: isHidden, paths: []string{
		"/etc/passwd", "{host}/out/secret", "{host}/proj/f.txt", "/proc/self", "/zonef.txt", "/f.txt"}},
	{name: "P04 nothing is decoded", tree: some(), want: isMissing, paths: []string{
		"/%2e%2e%2fout%2fsecret", "/..%c0%afout", `/..\out\secret`, "/..;/out", "/．．/out", "/%2e%2e/out/secret", `/a\..\..\out`,
		"/..%2fout", "/%00", "/‥/out", "/..\u2215out", "/ ../out", "/.. /out", "/...", "/&#46;&#46;/out"}},
	{name: "P04 odd names are files", shows: map[string]string{"read": "x"}, want: isFile,
		tree:  tree{"%2e%2e": file("x"), `..\f`: file("x"), "...": file("x"), "．．": file("x")},
		paths: []string{"/%2e%2e", `/..\f`, "/...", "/．．"}},
	{name: "P05 NUL", tree: tree{"secret.env": file("{canary}")}, mounts: onlyText, mine: "/spare/mine.md", want: isNoName, paths: []string{
		"/secret.env\x00.md", "/a\x00b", "\x00", "/a/\x00", "/x.md\x00"}},
	{name: "P05 an ending that is not allowed",
		tree: tree{"secret.env": file("{canary}"), "d/x.md.env": file("{canary}"), ".md": file("x")}, mounts: onlyText,
		mine: "/spare/mine.md", want: wrongEnding,
		paths: []string{"/secret.env", "/x.md/../secret.env", "/d/x.md.env", "/./secret.env", "secret.env"}},
	{name: "P05 an ending that would not be allowed", tree: some(), mounts: onlyText, mine: "/spare/mine.md", want: wrongEndingMissing,
		paths: []string{"/new.env", "/new.md ", "/new.md.", "/new.md::$DATA", "/new.m", "/md", "/new.ｍd", "/new.md\u200c"}},
	{name: "P06 names that are too long", tree: some(), want: isNoName,
		paths: []string{"/" + strings.Repeat("n", 5000), strings.Repeat("/a", 3000), strings.Repeat("/abcdefg", 1<<17),
			"/" + strings.Repeat("n", 256), strings.Repeat("/", 100_000), "/" + strings.Repeat("ü", 128),
			"/a/" + strings.Repeat("n", 300) + "/../f.txt" + strings.Repeat("/", 4000)}},
	{name: "P06 names as long as may be", tree: some(), want: isMissing,
		paths: []string{"/" + strings.Repeat("n", 255), "/" + strings.Repeat("\x01", 255), "/" + strings.Repeat("\u200c", 85),
			"/" + strings.Repeat("\"", 255), strings.Repeat("/"+strings.Repeat("d", 200), 10), "/" + strings.Repeat("\u202e", 85) + "/x",
			strings.Repeat("/a", 100)}},
	{name: "P06 names as deep as may be", tree: some(),
		want: "all=not_found|invalid put,mkdir,resolve=ok|not_found|invalid if=conflict|not_found|invalid access=rw",
		only: []string{"read", "write"}, paths: []string{strings.Repeat("/a", 500)}},
	{name: "P07 a name that begins like another", tree: tree{"data/x": file("x"), "data-secret/f": file("{canary}")}, want: isHidden,
		mounts: func(w *world, proj sandbox.Backend) []sandbox.Mount {
			return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite}}
		},
		limits: [][]sandbox.Limit{{{Path: "/data", Access: sandbox.ReadWrite}, {Path: "/spare", Access: sandbox.ReadWrite}}},
		paths:  []string{"/data-secret/f", "/data-secret", "/dat", "/data-", "/data-secret/../data-secret/f", "/data/../data-secret/f"}},
	{name: "P07 a directory beside the mount", tree: tree{"l": link("../proj-secret/f"), "m": link("{host}/proj-secret/f")}, want: linkOut,
		paths: []string{"/l", "/m"}},
	{name: "P13 devices, drives and shares", tree: some(), want: isMissing + " put,mkdir,if=invalid",
		paths: []string{"/CON", "/NUL.txt", "/COM1", "/aux.md", `C:\x`, "/C:x", `/\\?\C:\x`, `\\srv\share`, "/lpt9.log", "/con.", "/COM¹",
			"/a/NUL/y", "/prn .txt", "/CONIN$", "z:", "/x/C:"}},
	{name: "P13 what has such a name already", tree: tree{"aux.md": file("x"), "C:x": file("x")}, want: isFile,
		paths: []string{"/aux.md", "/C:x"}},
	{name: "P39 hostile names", want: isFile, tree: hostileNames(), paths: []string{
		"/a\nb", "/\x1b[2K\x1b]0;t\x07", "/--help", `/x"y`, "/<img onerror=1>", "/\u202egnp.exe", "/\u200b", "/\U000e0041", "/\u0085"}},
	{name: "P39 names like hostile ones", want: isMissing, tree: hostileNames(), paths: []string{
		"/a\nc", "/\x1b[2K\x1b]0;t", "/-help", `/x"z`, "/\u202egnp.ex", "/bad", "/\r", "/\u2028", "/\u009b2J"}},
	{name: "P39 names that are not UTF-8", want: isNoName, host: true, tree: hostileNames(),
		paths: []string{"/bad\xff", "\xff", "/a/\xc3\x28", "/\xed\xa0\x80"}},
	{name: "P39 a directory of hostile names", hides: []string{"bad"}, shows: map[string]string{"list": "{--help "}, want: isTop,
		tree: hostileNames(), paths: []string{"/"}},
	{name: "P43 nothing is expanded", tree: some(), want: isMissing, paths: []string{
		"~/.ssh/id", "/~/.ssh/id", "$HOME/.ssh/id", "${HOME}/x", "file:///etc/passwd", "%USERPROFILE%", "~root", "/*", "/{a,b}", "/`id`", "/$(id)"}},
	{name: "P49 the top, by other names", tree: some(), want: isTop, paths: []string{"/", "//", "/.", "/./", ".", "///.///", "/a/..", "a/b/../.."}},
	{name: "P49 relative names", tree: some(), want: isFile, paths: []string{"f.txt", "./f.txt", "a/b/f.txt", "a//b/./f.txt", "/f.txt/", "//f.txt"}},
	{name: "P49 blank names", tree: some(), want: isMissing, paths: []string{"/ ", "\t", " ", "/\n", "/a/ "}},
	{name: "P49 no name", tree: some(), want: isNoName, paths: []string{""}},
}

// hostileNames returns files whose names look like something else.
func hostileNames() tree {
	objects := tree{}
	for _, name := range []string{"a\nb", "\x1b[2K\x1b]0;t\x07", "--help", `x"y`, "<img onerror=1>", "\u202egnp.exe", "\u200b",
		"\U000e0041", "\u0085", "bad\xff"} {
		objects[name] = file("text")
	}
	return objects
}
