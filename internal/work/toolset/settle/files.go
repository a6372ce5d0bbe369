package settle

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/records/audit"
)

// FilesOf returns changes of a session as the journal names them, in the order of a record. It
// leaves out new directories with something in them. digest returns the SHA-256 of the session's
// version of a file, "" if it is not known. It is called only for files that a record names.
func FilesOf(list []changes.Change, digest func(changes.Change) string) *audit.Files {
	type ranked struct {
		audit.File
		rank, at int
	}
	filled := make(map[string]bool)
	for _, c := range list {
		filled[c.Name()[:max(0, strings.LastIndexByte(c.Name(), '/'))]] = true
	}
	var all []ranked
	for i, c := range list {
		if c.Kind == overlay.Dir && c.Op == overlay.Create && filled[c.Name()] {
			continue
		}
		f := FileOf(c, c.Op)
		f.Uncounted, f.Place = f.Kind == "", Place(c)
		all = append(all, ranked{f, Rank(f), i})
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), CompareFiles(a.File, b.File)) })
	files := &audit.Files{}
	for i, f := range all {
		if i < audit.MaxFiles && f.Place == "" && f.Kind == "" && f.Op != string(overlay.Delete) {
			f.Digest = digest(list[f.at])
		}
		files.List = append(files.List, f.File)
	}
	return files
}

// FileOf returns a change with an operation as the journal names it, without its digest and lines.
func FileOf(c changes.Change, op overlay.Op) audit.File {
	f := audit.File{Path: c.Name(), Op: string(op), Size: c.Size}
	if kind := cmp.Or(c.Kind, c.OldKind); kind != overlay.File {
		f.Kind = kind.Noun()
	}
	return f
}

// Place returns the ignored place of a change, "" if the journal names the file.
func Place(c changes.Change) string {
	if _, code := review.Code(c.Name()); code && !review.IsInstalled(c.Name()) {
		return ""
	}
	if c.IgnoredIn != "" && !strings.HasSuffix(c.IgnoredIn, "/") { // a file between others
		return strings.TrimSuffix(path.Dir(c.IgnoredIn), "/") + "/*"
	}
	return c.IgnoredIn
}

// Rank returns how early a record names a file. Files that become code come first, then those
// that existed before, because a record names only some files. A command can make many others
// in no time.
func Rank(f audit.File) int {
	_, code := review.Code(f.Path)
	switch {
	case f.Place != "":
		return 4
	case repositoryOf(f.Path) != "": // golem never applies it
		return 3
	case code && !(f.Op == string(overlay.Create) && review.IsInstalled(f.Path)):
		return 0
	case f.Op != string(overlay.Create):
		return 1
	}
	return 2
}

// CompareFiles orders files of the same rank: those in the upper directories first.
func CompareFiles(a, b audit.File) int {
	return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), strings.Compare(a.Path, b.Path))
}
