package sandboxtest

import (
	"github.com/golem-forge/golem/sandbox"
)

// cached mounts proj at "/" and another directory at /cache, which hides what proj has
// there.
func cached(access sandbox.Access) func(*world, sandbox.Backend) []sandbox.Mount {
	return func(w *world, proj sandbox.Backend) []sandbox.Mount {
		cache := w.mount("cache", tree{"own": file("own"), "d/own": file("own")})
		return []sandbox.Mount{
			{Target: "/", Backend: proj, Access: sandbox.ReadWrite},
			{Target: "/cache", Backend: cache, Access: access},
		}
	}
}

// far mounts proj at "/" and another directory deep below it.
func far(w *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{
		{Target: "/", Backend: proj, Access: sandbox.ReadWrite},
		{Target: "/x/y/m", Backend: w.mount("far", tree{"own": file("own")}), Access: sandbox.ReadWrite},
	}
}

// alone mounts only a directory deep below "/".
func alone(_ *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{{Target: "/x/y/m", Backend: proj, Access: sandbox.ReadWrite}}
}

var shadowed = tree{"cache/shadowed": file("{canary}"), "cache/d/shadowed": file("{canary}"), "l": link("cache/shadowed"), "ld": link("cache"),
	"cache/.git/config": file("{canary}")}

const (
	// A directory that exists because of a mount below it, whatever proj has there.
	madeUp = isTop + " file,restrict=is_dir|not_found take=invalid|not_found"
	// The same for a directory that is in no mount.
	madeUpAlone = "all=not_found directory,meta,fs.Open=ok fs.ReadLink=not_found|invalid access=none"
)

var mountAttacks = []attack{
	{name: "P33 mounts that the host does not have", want: madeUp, mounts: far, paths: []string{"/x", "/x/y", "/x/y/../y"}},
	{name: "P33 the top above mounts that the host does not have", want: isTop, mounts: far, paths: []string{"/", "."},
		shows: map[string]string{"list": "{x d", "walk": "{/x/y/m/own ", "find": "/x/y/m/own", "search": "/x/y/m/own 1", "fs.ReadDir": "x\n"}},
	{name: "P33 a mount point", want: isTop, mounts: far, paths: []string{"/x/y/m", "/x/y/m/."}},
	{name: "P33 a mount without one above", want: madeUpAlone, mounts: alone, mine: "/x/y/m/spare/mine", paths: []string{"/", "/x", "/x/y"}},
	{name: "P33 beside a mount without one above", want: isHidden, mounts: alone, mine: "/x/y/m/spare/mine",
		paths: []string{"/z", "/x/z", "/x/y/z/f", "/m"}},
	{name: "P33 a file where a mount has its directory", want: madeUp + " resolve=host|not_dir", mounts: far,
		tree: tree{"x": file("{canary}")}, paths: []string{"/x", "/x/y"}},
	{name: "P33 a link out where a mount has its directory", want: madeUp + " file,restrict=is_dir|not_found|outside resolve=host|outside",
		mounts: far, tree: tree{"x": link("../out")}, paths: []string{"/x", "/x/y"}},
	{name: "P33 through a link out where a mount has its directory", want: throughOut, mounts: far, tree: tree{"x": link("../out")},
		paths: []string{"/x/secret", "/x/new", "/x/sub/deep"}},
	{name: "P33 a mount behind a link out", want: isFile, mounts: far, tree: tree{"x": link("../out")}, paths: []string{"/x/y/m/own"}},
	{name: "P34 hidden under a mount, ro", want: readOnlyMissing, mounts: cached(sandbox.ReadOnly), tree: shadowed, keep: []string{"proj/cache"},
		paths: []string{"/cache/shadowed", "/cache/../cache/shadowed", "cache:shadowed", "/./cache//shadowed", "/cache/d/shadowed", "cache:/d/../shadowed"}},
	{name: "P34 hidden under a mount, rw", want: isMissing, mounts: cached(sandbox.ReadWrite), tree: shadowed, keep: []string{"proj/cache"},
		paths: []string{"/cache/shadowed", "cache:shadowed", "/cache/d/shadowed", "cache:new"}},
	{name: "P34 hidden under a mount that is hidden", want: isHidden, mounts: cached(sandbox.None), tree: shadowed,
		keep: []string{"proj/cache"}, paths: []string{"/cache/shadowed", "/cache", "/cache/own", "/cache/new"}},
	{name: "P34 names like what is hidden", want: isMissing, mounts: cached(sandbox.ReadWrite), tree: shadowed,
		keep: []string{"proj/cache"}, hides: []string{"shadowed"},
		paths: []string{"/cache/shadow", "/cache/shadowee", "/cache/d/shadowe", "/cache/.gi"}},
	{name: "P34 links to what is hidden", want: linkOut, mounts: cached(sandbox.ReadWrite), tree: shadowed, keep: []string{"proj/cache"},
		paths: []string{"/l", "/ld"}},
	{name: "P34 through links to what is hidden", want: throughOut, mounts: cached(sandbox.ReadWrite), tree: shadowed,
		keep: []string{"proj/cache"}, paths: []string{"/ld/shadowed", "/ld/new", "/ld/own", "/ld/d/shadowed"}},
	{name: "P34 the top above what is hidden", hides: []string{"shadowed"},
		shows: map[string]string{"walk": "{/cache/own ", "search": "/cache/own 1", "find": "/cache/d/own", "fs.ReadDir": "cache"},
		want:  isTop, mounts: cached(sandbox.ReadWrite), tree: shadowed, keep: []string{"proj/cache"}, paths: []string{"/"}},
	{name: "P34 the directory above what is hidden", want: isTop, mounts: far,
		tree: tree{"x/y/m/shadowed": file("{canary}"), "x/f": file("f")}, keep: []string{"proj/x"}, paths: []string{"/x", "/x/y"}},
	{name: "P36 a mount stays", want: isTop, mounts: cached(sandbox.ReadWrite), tree: shadowed,
		paths: []string{"/cache", "/cache/", "/cache/.", "cache:", "cache:/", "/cache/d/.."}},
	{name: "P36 a mount that is ro stays", want: isTop + " put,if,mkdir,take=read_only access=ro", mounts: cached(sandbox.ReadOnly),
		tree: shadowed, paths: []string{"/cache", "cache:"}},
	{name: "P37 a file in a mount that is ro", want: readOnlyFile, mounts: cached(sandbox.ReadOnly),
		paths: []string{"/cache/own", "/cache/d/own", "cache:own"}},
	{name: "P37 a file in another mount", want: isFile, mounts: cached(sandbox.ReadWrite), paths: []string{"/cache/own", "/cache/d/own"}},
	{name: "P37 a directory in another mount", want: isDir + " move=invalid move-to=exists|is_dir", mounts: cached(sandbox.ReadWrite),
		paths: []string{"/cache/d"}},
	{name: "P37 a link in another mount", want: linkToFile + " move=invalid", paths: []string{"/m/l"},
		mounts: func(w *world, proj sandbox.Backend) []sandbox.Mount {
			return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite},
				{Target: "/m", Backend: w.mount("inner", tree{"f": file("f"), "l": link("f")}), Access: sandbox.ReadWrite}}
		}},
	{name: "a mount that is none", want: isHidden, paths: []string{"/f.txt", "/a/b/f.txt", "/new"}, mine: "/m/mine",
		tree: with(some(), tree{"f.txt": file("{canary}")}),
		mounts: func(w *world, proj sandbox.Backend) []sandbox.Mount {
			return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.None},
				{Target: "/m", Backend: w.mount("inner", tree{"mine": file("mine")}), Access: sandbox.ReadWrite}}
		}},
}

// odd has spellings that some system takes for protected names.
var odd = []string{
	"/.GIT", "/.git.", "/.git ", "/.g\u200cit", "/git~1", "/.git::$INDEX_ALLOCATION", "/main.wor\u212Aer", "/.Git/hooks/pre-commit", "/.git. . ",
	"/.GIT:x", "/GIT~2", "/golem-forge.config.yaml.", "/GOLEM-FORGE.config.YML", "/x.worker::$DATA", "/sub/.gIt/x", "/.\u200egit", "/.git\ufeff",
	"/X.WORKER ", "/golem-forge.config.y\u200cml", "/.GIT./x", "/.git\u200c\u200d/config", "/x/.GIT/", "/golem-forge.config.yXml",
}

var policyFiles = tree{
	".git/config": file("text"), "golem-forge.config.yaml": file("text"), "workers/self.worker": file("text"), "sub/.git": file("gitdir: x"),
	"l": link("golem-forge.config.yaml"), "lg": link(".git"), "new": link("other.worker"), "lw": link("workers"),
	"ci/deploy.yml": file("text"), "AGENTS.md": file("text"), "pkg/deep/x.worker": file("text"), "pkg/f": file("f"),
}

// ownPatterns are patterns of protected names that a project adds.
var ownPatterns = []string{"AGENTS.md", "/ci/**", "*.key", "/deep/*/x.yml"}

var protectAttacks = []attack{
	{name: "P44 policy files", want: protectedFile, tree: policyFiles, paths: []string{
		"/golem-forge.config.yaml", "/workers/self.worker", "/.git/config", "/sub/.git", "/workers/../golem-forge.config.yaml"}},
	{name: "P44 policy files through links", want: protectedFile + " restrict=outside", tree: policyFiles,
		paths: []string{"/lw/self.worker"}},
	{name: "P44 policy files that are not there", want: protectedName, tree: tree{"f.txt": file("f")},
		paths: []string{"/golem-forge.config.yaml", "/golem-forge.config.yml", "/workers/self.worker", "/.git/hooks/pre-commit", "/.git",
			"/a/b/.git/x", "/.worker", "/x.worker/y"}},
	{name: "P11 policy files by other spellings", want: protectedName, paths: odd},
	{name: "P11 policy files by other cases", want: protectedFile, folds: true, tree: policyFiles, paths: []string{
		"/GOLEM-FORGE.config.yaml", "/Workers/SELF.worker", "/.GIT/config", "/.Git/CONFIG", "/SUB/.giT"}},
	{name: "P44 links to policy files", want: protectedFile + " take,fs.ReadLink=ok move-to=exists restrict=outside access=rw",
		tree: policyFiles, paths: []string{"/l"}},
	{name: "P44 links to policy directories", want: linkToDir + " write,new,if,copy-to,mkdir=protected", tree: policyFiles,
		paths: []string{"/lg"}},
	{name: "P44 through links to policy directories", want: protectedFile + " restrict=outside access=rw", tree: policyFiles,
		paths: []string{"/lg/config"}},
	{name: "P44 new files through links to policy directories",
		want: isMissing + " put,if,mkdir=protected take=protected|not_found restrict=outside", tree: policyFiles,
		paths: []string{"/lg/hooks/pre-commit", "/lg/new"}},
	{name: "P44 links to policy files that are not there", want: linkDangling + " write,new,if,copy-to,mkdir=protected", tree: policyFiles,
		paths: []string{"/new"}},
	{name: "P44 the directory of policy files", want: isDir + " take=protected delete=not_empty", tree: policyFiles,
		paths: []string{"/workers", "/pkg", "/pkg/deep", "/sub"}},
	{name: "P44 a policy directory", want: isDir + " put,if,mkdir,take=protected access=ro", tree: policyFiles,
		paths: []string{"/.git", "/.git/"}},
	{name: "P44 what a project protects", want: protectedFile, tree: policyFiles, protect: ownPatterns,
		paths: []string{"/AGENTS.md", "/ci/deploy.yml"}},
	{name: "P44 what a project protects, not there", want: protectedName, tree: tree{"f": file("f")}, protect: ownPatterns, paths: []string{
		"/agents.MD", "/sub/AGENTS.md", "/ci", "/CI/x/y", "/a.key", "/b/A.KEY/c", "/deep/1/x.yml", "/Deep/2/X.yml/z", "/AGENTS.md "}},
	{name: "P11 what only looks like a policy file", want: isMissing, tree: policyFiles, protect: ownPatterns,
		paths: []string{"/．git", "/.gitignore", "/.github/x", "/git", "/x.workers", "/worker", "/.git-x", "/ｇit", "/.ｇｉｔ",
			"/golem-forge.config", "/golem-forge.configyaml", "/xgolem-forge.config.yaml", "/x.worker.txt", "/git~", "/git~x", "/.git~1",
			"/cix/f", "/sub/ci/f", "/deep/x.yml", "/deep/1/2/x.yml", "/.g it", "/.gi"}},
}
