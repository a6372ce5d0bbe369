package review

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// few is how many flags of one group come before the other flags of that group and of all
// others.
const few = 3

// Order sorts flags for a person: first the riskiest, but only of a few files in each group,
// then the other flags, and last those of files that a package manager installed. So no number of
// flags of one group can hide another group. Everything that lists flags uses this order.
func Order(flags []Flag) { OrderBy(flags, func(f Flag) Flag { return f }) }

// OrderBy sorts values that belong to flags as Order does. The sort is stable.
func OrderBy[T any](list []T, flag func(T) Flag) {
	slices.SortStableFunc(list, func(a, b T) int {
		x, y := flag(a), flag(b)
		if x.Installed != y.Installed {
			return compareBool(x.Installed, y.Installed)
		}
		return y.Risk - x.Risk
	})
	type place struct {
		value T
		late  bool
	}
	places := make([]place, len(list))
	type one struct{ group, path string }
	count, seen := make(map[string]int), make(map[one]bool)
	for i, value := range list {
		f := flag(value)
		at := one{f.group(), f.Path}
		late := f.Installed || seen[at] || count[at.group] >= few // a second flag of a file is late, too
		if places[i] = (place{value, late}); !late {
			count[at.group]++
		}
		seen[at] = true
	}
	slices.SortStableFunc(places, func(a, b place) int { return compareBool(a.late, b.late) })
	for i, p := range places {
		list[i] = p.value
	}
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// group returns what a flag has in common with others: its kind, and for a file that becomes
// code the reason.
func (f Flag) group() string {
	name := string(f.Kind)
	if f.Kind == Becomes {
		why, _, _ := strings.Cut(f.Text, ";")
		name += ": " + why
	}
	return fmt.Sprint(name, f.Deleted, f.Installed)
}

// Shorten returns the flags for a list of about most lines. It keeps the first flags of every
// group, whatever the other groups have. The last one that it keeps of a group says how many
// more there are. The flags must be in the order of Order.
func Shorten(flags []Flag, most int) []Flag {
	count := make(map[string]int)
	for _, f := range flags {
		count[f.group()]++
	}
	each := few
	for ; each > 1; each-- {
		lines := 0
		for _, n := range count {
			lines += min(n, each)
		}
		if lines <= most {
			break
		}
	}
	var list []Flag
	shown := make(map[string]int)
	for _, f := range flags {
		group := f.group()
		if shown[group]++; shown[group] > each {
			continue
		}
		if more := count[group] - each; more > 0 && shown[group] == each {
			f.Text += fmt.Sprintf("; and %d more like it", more)
		}
		list = append(list, f)
	}
	return list
}

// FirstOfEach returns the first flag of each reason for which files become code, without
// files that a package manager installed. The flags must be in the order of Order.
func FirstOfEach(flags []Flag) (list []Flag) {
	seen := make(map[string]bool)
	for _, f := range flags {
		if f.BecomesCode() && !f.Installed && !seen[f.group()] {
			seen[f.group()] = true
			list = append(list, f)
		}
	}
	return list
}

// Sort sorts values that belong to files in the order in which flags first name the files.
// A flag of a directory counts for every file in it. The sort is stable.
func Sort[T any](files []T, pathOf func(T) string, flags []Flag) {
	flags = slices.Clone(flags)
	Order(flags)
	places := make(map[string]int)
	for i, f := range flags {
		if _, ok := places[f.Path]; !ok && f.Path != "" {
			places[f.Path] = i
		}
	}
	type ranked struct {
		value T
		place int
	}
	list := make([]ranked, len(files))
	above := make(map[string]int) // the places of directories, for trees with many levels
	var placeOf func(name string) int
	placeOf = func(name string) int {
		place, ok := places[name]
		if !ok {
			place = len(flags)
		}
		n := strings.LastIndexByte(name, '/')
		if n <= 0 {
			return place
		}
		up, ok := above[name[:n]]
		if !ok {
			up = placeOf(name[:n])
			above[name[:n]] = up
		}
		return min(place, up)
	}
	for i, file := range files {
		list[i] = ranked{file, placeOf(pathOf(file))}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.place, b.place) })
	for i, r := range list {
		files[i] = r.value
	}
}

// installed are the directories that package managers fill, and nobody edits. They are few:
// files in them come last in lists. Directories with other uses, such as vendor and build,
// are not among them.
var installed = map[string]bool{"node_modules": true, "bower_components": true, ".pnpm-store": true, ".venv": true, "venv": true, "site-packages": true, "__pycache__": true, ".tox": true, ".nox": true,
	".pytest_cache": true, ".mypy_cache": true, ".ruff_cache": true, ".gradle": true, ".terraform": true}

// PackageDirs returns the names of directories that package managers fill.
func PackageDirs() []string { return slices.Sorted(maps.Keys(installed)) }

// IsPackageDir reports whether package managers fill directories with a name.
func IsPackageDir(name string) bool { return installed[name] }

// FoldPackages returns flags in which one stands for all of its group in a package.
func FoldPackages(flags []Flag) (list []Flag) {
	type place struct{ group, dir string }
	at, count := make(map[place]int), make(map[place]int)
	for _, f := range flags {
		dir := packageOf(f.Path)
		if !f.Installed || dir == "" {
			list = append(list, f)
			continue
		}
		p := place{f.group(), dir}
		if count[p]++; count[p] == 1 {
			at[p] = len(list)
			list = append(list, f)
		} else {
			first := &list[at[p]]
			why, _, _ := strings.Cut(f.Text, ";")
			first.Path, first.Line, first.Text = dir, 0, fmt.Sprintf("%d × %s", count[p], why)
		}
	}
	return list
}

// packageOf returns the directory of the package that a file belongs to, "" for none: the one
// below the last directory that a package manager fills.
func packageOf(name string) string {
	parts := strings.Split(name, "/")
	for i := len(parts) - 2; i >= 0; i-- {
		if !installed[parts[i]] {
			continue
		}
		end := i + 2
		if end < len(parts)-1 && strings.HasPrefix(parts[i+1], "@") {
			end++
		}
		return strings.Join(parts[:min(end, len(parts)-1)], "/")
	}
	return ""
}

// isInstalled reports whether a path is in a directory that a package manager fills. It
// compares names exactly: on a case-sensitive system no package manager fills Node_Modules.
func isInstalled(name string) bool {
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if installed[part] {
			return true
		}
	}
	return false
}
