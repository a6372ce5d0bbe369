package sandboxtest

import "github.com/golem-forge/golem/sandbox"

func limits(list ...sandbox.Limit) []sandbox.Limit { return list }

func rw(path string) sandbox.Limit { return sandbox.Limit{Path: path, Access: sandbox.ReadWrite} }
func ro(path string) sandbox.Limit { return sandbox.Limit{Path: path, Access: sandbox.ReadOnly} }
func no(path string) sandbox.Limit { return sandbox.Limit{Path: path} }

// project has a part that a worker can see, and a part that it cannot see.
var project = tree{
	"src/app.ts": file("text"), "src/d/f": file("text"), "secrets/y": file("{canary}"), "src/x": link("../secrets/y"), "src/ld": link("../secrets"),
	"src/dang": link("../secrets/new"), "src/in": link("app.ts"), "src/back": link("../src/app.ts"), "src-private/f": file("{canary}"),
	"src/up": link(".."),
	"top":    link("src/app.ts"), "top.txt": file("{canary}"), "src/top": link("../top.txt"), "src/spare/mine": file("mine"),
	"d": link("../out"), "lsrc": link("src"),
	"src/via": link("../top"),
}

var onlySrc = [][]sandbox.Limit{limits(rw("/src"))}

// The results at a directory that is visible only because something below it is.
const onTheWay = "all=not_found directory,meta,fs.Open=ok fs.ReadLink=invalid|not_found access=none"

var restrictAttacks = []attack{
	{name: "R03 links out of what is shown", want: linkOut, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		keep: []string{"proj/secrets"}, paths: []string{"/src/x", "/src/ld", "/src/dang", "/src/top", "/src/via"}},
	{name: "R03 through links out of what is shown", want: throughOut, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		keep: []string{"proj/secrets"}, paths: []string{"/src/ld/y", "/src/ld/new", "/src/up/top.txt", "/src/up/secrets/y"}},
	{name: "R03 a link to the directory of what is shown", want: onTheWay + " take,fs.ReadLink=ok move-to=exists access=rw", tree: project,
		limits: onlySrc, mine: "/src/spare/mine", paths: []string{"/src/up"}},
	{name: "R03 names that are not shown", want: isHidden, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		keep: []string{"proj/secrets"},
		paths: []string{"/secrets/y", "/secrets", "/src/../secrets/y", "/src-private/f", "/src-private", "/top", "/top.txt", "/new", "/d",
			"/d/secret", "/lsrc", "/lsrc/app.ts", "/SRCX"}},
	{name: "R03 names like what is not shown", want: isHidden, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		hides: []string{"secrets", "top.txt", "src-private"}, paths: []string{"/secret", "/secretz/y", "/top.tx", "/src-privat", "/sr"}},
	{name: "R03 names like what is denied", want: isMissing, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"), no("/src/d"))},
		hides:  []string{"secrets/", "/secrets,", "/secrets;", "/src/d;"}, paths: []string{"/secret", "/secretz", "/src/e", "/src/x2"}},
	{name: "R09 names stay as they are", want: isFile, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		paths: []string{"/src/app.ts", "src/d/f", "/src/./d/../app.ts"}},
	{name: "R09 links inside what is shown", want: linkToFile, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		paths: []string{"/src/in", "/src/back"}},
	{name: "R09 the top of what is shown", hides: []string{"secrets/", "top.txt", "src-private", "lsrc"},
		shows: map[string]string{"list": "[{src d---------}]", "walk": "{/src/app.ts ", "find": "/src/d/f"}, want: onTheWay, tree: project,
		limits: onlySrc, mine: "/src/spare/mine", paths: []string{"/", "/."}},
	{name: "R03 what is denied in what is shown", want: isHidden, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"), no("/top.txt"), no("/src-private"))}, keep: []string{"proj/secrets"},
		paths: []string{"/secrets", "/secrets/y", "/secrets/new", "/top.txt", "/src/../secrets/y"}},
	{name: "R03 links to what is denied", want: linkOut, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"), no("/top.txt"), no("/src-private"))}, keep: []string{"proj/secrets"},
		paths: []string{"/src/x", "/src/ld", "/src/top", "/src/dang"}},
	{name: "R03 the directory of what is denied", hides: []string{"secrets", "top.txt"},
		shows: map[string]string{"list": "{src d", "walk": "{/src/d/f "}, want: isTop, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"), no("/top.txt"), no("/src-private"))},
		keep:   []string{"proj/secrets", "proj/top.txt"}, paths: []string{"/"}},
	{name: "R03 a directory with something denied", want: isDir + " take,move-to=read_only", tree: project, keep: []string{"proj/src"},
		paths: []string{"/src"}, limits: [][]sandbox.Limit{limits(rw("/"), no("/src/d"))}},
	{name: "R03 a directory with something read-only", want: isDir + " take,move-to=read_only", tree: project, keep: []string{"proj/src"},
		paths: []string{"/src"}, limits: [][]sandbox.Limit{limits(rw("/"), ro("/src/d/f"))}},
	{name: "R03 a directory with something denied that is not there", want: isDir + " take,move-to=read_only", tree: project,
		keep: []string{"proj/src"}, paths: []string{"/src"}, limits: [][]sandbox.Limit{limits(rw("/"), no("/src/no/such"))}},
	{name: "R04 all of it is no more than it was", want: readOnlyMissing, tree: shadowed, mounts: cached(sandbox.ReadOnly),
		limits: [][]sandbox.Limit{limits(rw("/")), limits(rw("/"), rw("/cache"))}, keep: []string{"proj/cache"},
		paths: []string{"/cache/shadowed", "/cache/x", "cache:shadowed"}},
	{name: "R04 a limit that is a mount", want: isHidden, tree: shadowed, mounts: cached(sandbox.ReadOnly),
		limits: [][]sandbox.Limit{limits(rw("/spare"), no("/cache"))}, keep: []string{"proj/cache"},
		paths: []string{"/cache/shadowed", "/cache/own", "/l", "/ld/own", "/cache"}},
	{name: "R05 a limit that is a link", want: linkOut, tree: project, limits: [][]sandbox.Limit{limits(rw("/d"), rw("/src/spare"))},
		mine: "/src/spare/mine", paths: []string{"/d"}},
	{name: "R05 through a limit that is a link", want: throughOut, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/d"), rw("/src/spare"))}, mine: "/src/spare/mine",
		paths: []string{"/d/secret", "/d/new", "/d/sub/deep"}},
	{name: "R05 through a limit that is a link inside", want: throughOut, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/lsrc"), rw("/src/spare"))}, mine: "/src/spare/mine",
		paths: []string{"/lsrc/app.ts", "/lsrc/x", "/lsrc/new"}},
	{name: "R05 the top above a limit that is a link", hides: []string{"secret", "app.ts"}, want: onTheWay, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/d"), rw("/src/spare"))}, mine: "/src/spare/mine", paths: []string{"/"}},
	{name: "R05 below a limit on the way of a link", want: "all=not_found|outside access=none", tree: project,
		limits: [][]sandbox.Limit{limits(rw("/lsrc/d"), rw("/src/spare"))}, mine: "/src/spare/mine",
		paths: []string{"/lsrc/app.ts", "/lsrc/x"}},
	{name: "R07 read-only through nested mounts", want: readOnlyFile + " copy,take=read_only move-to,copy-to=read_only",
		tree: tree{"f": file("f")}, mounts: nested, limits: [][]sandbox.Limit{limits(ro("/"))}, paths: []string{"/f", "/m/own", "/m/x/own"}},
	{name: "R07 no more than the mounts have", want: readOnlyFile, tree: tree{"f": file("f")}, mounts: nested, mine: "/m/mine",
		limits: [][]sandbox.Limit{limits(rw("/"), rw("/m/x"), rw("/f"))}, paths: []string{"/f", "/m/x/own"}},
	{name: "R07 nothing at all", want: isHidden, tree: project, limits: [][]sandbox.Limit{{}},
		paths: []string{"/", "/src", "/src/app.ts", "/secrets/y"}},
	{name: "R07 nothing in common", want: isHidden, tree: project, limits: [][]sandbox.Limit{limits(rw("/src")), limits(rw("/secrets"))},
		paths: []string{"/", "/src", "/src/app.ts", "/secrets/y"}},
}

// nested mounts a rw directory inside a ro one, and a ro directory inside that.
func nested(w *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{
		{Target: "/", Backend: proj, Access: sandbox.ReadOnly},
		{Target: "/m", Backend: w.mount("m", tree{"own": file("own"), "mine": file("mine")}), Access: sandbox.ReadWrite},
		{Target: "/m/x", Backend: w.mount("x", tree{"own": file("own")}), Access: sandbox.ReadOnly},
	}
}

// shared mounts proj at "/", and its directory p/d a second time with limits.
func shared(at string, m sandbox.Mount) func(*world, sandbox.Backend) []sandbox.Mount {
	return func(w *world, proj sandbox.Backend) []sandbox.Mount {
		m := m
		m.Target, m.Backend = at, w.mount("proj/p/d", nil)
		return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite}, m}
	}
}

var overlapped = tree{
	"p/d/f.md": file("text"), "p/d/f.env": file("{canary}"), "p/f": file("f"),
	"l": link("p/d/f.md"), "le": link("p/d/f.env"), "lp": link("p"),
}

var overlapAttacks = []attack{
	{name: "overlap/a directory that is ro by another name", host: true, want: readOnlyFile,
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadOnly}), mayRead: true, tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/p/d/f.md", "/docs/f.md", "docs:f.md"}},
	{name: "overlap/its directory", host: true, want: isDir + " put,if,mkdir,take=read_only access=ro",
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadOnly}), mayRead: true, tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/p/d"}},
	{name: "overlap/the directory above it", host: true, want: isDir + " take,move-to=read_only",
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadOnly}), mayRead: true, tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/p"}},
	{name: "overlap/links to it", host: true, want: readOnlyFile + " take,fs.ReadLink=ok move-to=exists restrict=outside access=rw",
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadOnly}), tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/l"}},
	{name: "overlap/through links to it", host: true, want: readOnlyFile + " restrict=outside access=rw",
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadOnly}), tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/lp/d/f.md"}},
	{name: "overlap/a directory that is hidden by another name", host: true, want: isHidden,
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.None}), tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/p/d/f.md", "/p/d/f.env", "/docs/f.md", "/p/d", "/docs", "/p/d/new"}},
	{name: "overlap/links to a directory that is hidden", host: true, want: linkOut,
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.None}), tree: overlapped, keep: []string{"proj/p/d"},
		paths: []string{"/l", "/le"}},
	{name: "overlap/endings that are limited by another name", host: true, want: wrongEnding,
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadWrite, Suffixes: []string{".md"}}), mine: "/spare/mine.md",
		tree: overlapped, keep: []string{"proj/p/d"}, paths: []string{"/p/d/f.env", "/docs/f.env"}},
	{name: "overlap/the directory above limited endings", host: true,
		want:   isDir + " move-to=exists|read_only take=suffix|read_only|invalid delete=not_empty|read_only",
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadWrite, Suffixes: []string{".md"}}), tree: overlapped,
		keep: []string{"proj/p/d"}, paths: []string{"/p"}},
	{name: "overlap/sizes that are limited by another name", host: true,
		want:   isFile + " file,fs.Open,fs.Stat,restrict=too_large fs.ReadDir=not_dir|too_large if=ok|too_large|conflict move=ok|too_large",
		mounts: shared("/docs", sandbox.Mount{Access: sandbox.ReadWrite, MaxFileBytes: 16}), mayRead: true, tree: overlapped,
		paths: []string{"/p/d/f.env", "/docs/f.env"}},
	{name: "overlap/one directory at two places", host: true, want: readOnlyFile + " copy,move-to,copy-to=read_only",
		tree: overlapped, mayRead: true, mine: "/a/spare/mine", paths: []string{"/a/p/d/f.md", "/b/p/d/f.md"},
		mounts: func(w *world, proj sandbox.Backend) []sandbox.Mount {
			return []sandbox.Mount{{Target: "/a", Backend: proj, Access: sandbox.ReadWrite}, {Target: "/b", Backend: proj, Access: sandbox.ReadOnly}}
		}},
	{name: "overlap/a mount at its own place", host: true, want: isFile, mounts: ownPlace, tree: overlapped,
		paths: []string{"/p/d/f.md", "/p/d/../d/f.md"}, mine: "/p/d/mine"},
	{name: "overlap/around a mount at its own place", host: true, want: readOnlyFile + " fs.ReadLink=invalid", mounts: ownPlace,
		tree: overlapped, paths: []string{"/p/f"}, mine: "/p/d/mine"},
	{name: "overlap/a part in a whole that is ro", host: true, want: readOnlyFile + " copy=read_only", mine: "/part/mine",
		tree: with(overlapped, tree{"p/d/mine": file("mine")}), paths: []string{"/part/f.md", "/whole/p/d/f.md"},
		mounts: func(w *world, proj sandbox.Backend) []sandbox.Mount {
			return []sandbox.Mount{{Target: "/whole", Backend: proj, Access: sandbox.ReadOnly},
				{Target: "/part", Backend: w.mount("proj/p/d", nil), Access: sandbox.ReadWrite}}
		}},
}

// ownPlace mounts proj ro, and a directory of it rw at its own path.
func ownPlace(w *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{
		{Target: "/", Backend: proj, Access: sandbox.ReadOnly},
		{Target: "/p/d", Backend: w.mount("proj/p/d", tree{"mine": file("mine")}), Access: sandbox.ReadWrite},
	}
}

// On a backend that folds case, another spelling is another name for the same file. The
// rule stays the same.
var caseAttacks = []attack{
	// A name that has a rule keeps it in another case.
	{name: "P11 other cases of what is hidden under a mount", folds: true, want: isMissing, mounts: cached(sandbox.ReadWrite),
		tree: shadowed, keep: []string{"proj/cache"},
		paths: []string{"/CACHE/shadowed", "/cachE/new", "/CACHE/d/shadowed"}},
	{name: "P11 other cases of a mount", folds: true, want: isTop, mounts: cached(sandbox.ReadWrite),
		tree: shadowed, keep: []string{"proj/cache"}, paths: []string{"/Cache", "/CACHE/"}},
	{name: "P11 other cases of what is in a mount", folds: true, want: isFile, mounts: cached(sandbox.ReadWrite),
		tree: shadowed, keep: []string{"proj/cache"}, paths: []string{"/CACHE/own", "/Cache/D/own"}},
	{name: "P11 other cases of what is denied", folds: true, want: isHidden, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"))}, keep: []string{"proj/secrets"},
		paths: []string{"/SECRETS/y", "/Secrets", "/sEcrets/new"}},
	{name: "P11 other cases of what is read-only", folds: true, want: readOnlyFile, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), ro("/src/d"))}, keep: []string{"proj/src/d"},
		paths: []string{"/src/D/f", "/SRC/d/f"}},
	{name: "P11 other cases of a new name in what is read-only", folds: true, want: readOnlyMissing, tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), ro("/src/d"))}, keep: []string{"proj/src/d"}, paths: []string{"/Src/d/new", "/SRC/D/new"}},
	{name: "P11 other cases of what is not shown", folds: true, want: isHidden, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		keep: []string{"proj/secrets"}, paths: []string{"/SECRETS/y", "/Secrets", "/SRC-private/f"}},
	{name: "P11 other cases of what is shown alone", folds: true, want: isFile, tree: project, limits: onlySrc, mine: "/src/spare/mine",
		keep: []string{"proj/secrets"}, paths: []string{"/SRC/app.ts", "/Src/APP.ts"}},
	{name: "P11 other cases of the directory of what is denied", folds: true,
		want: isDir + " take=read_only|not_found|invalid all=not_found|ok|is_dir|exists|invalid|read_only access=none|rw", tree: project,
		limits: [][]sandbox.Limit{limits(rw("/"), no("/src/d"))}, keep: []string{"proj/src"}, paths: []string{"/SRC", "/Src"}},
	{name: "P11 other cases of the directory above a mount", folds: true,
		want: "all=not_found|ok|is_dir|exists|invalid|read_only if=conflict|is_dir|not_found access=none|rw", mounts: far, keep: []string{"proj/x"},
		tree:  tree{"x/y/m/shadowed": file("{canary}"), "x/f": file("f")},
		paths: []string{"/X", "/x/Y", "/X/Y", "/X/y/m/shadowed", "/x/y/M/shadowed"}},
	{name: "P11 limits in another case do not raise", folds: true, want: isHidden, tree: project, keep: []string{"proj/secrets"},
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets")), limits(rw("/"), rw("/SECRETS"))},
		paths:  []string{"/SECRETS/y", "/secrets/y", "/SECRETS", "/SECRETS/new"}},
	{name: "P11 limits in another case do not reach under a mount", folds: true, want: isMissing, mounts: cached(sandbox.ReadWrite),
		tree: shadowed, keep: []string{"proj/cache"}, limits: [][]sandbox.Limit{limits(rw("/"), rw("/CACHE"))},
		paths: []string{"/CACHE/shadowed", "/CACHE/new"}},
	{name: "P11 two limits that differ in case", folds: true, want: isHidden, tree: project, keep: []string{"proj/secrets"},
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"), rw("/SECRETS"))},
		paths:  []string{"/SECRETS/y", "/secrets/y", "/Secrets/y"}},
	{name: "P11 links in another case to what is denied", folds: true, want: linkOut, keep: []string{"proj/secrets"},
		limits: [][]sandbox.Limit{limits(rw("/"), no("/secrets"))},
		tree:   tree{"secrets/y": file("{canary}"), "l": link("SECRETS/y"), "d": link("Secrets")}, paths: []string{"/l", "/d", "/L"}},
}
