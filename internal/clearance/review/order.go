package review

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// The limits on the first flags of a list, so that the first of each group are on one screen.
const (
	few  = 3  // flags of a group
	half = 10 // flags of files that become code, and as many others
)

// Order sorts flags for a person. First come a few flags of each reason for which files become
// code, then a few of each other group, then the others, and last those of files that a package
// manager installed. So no number of flags of one group can hide another group. Everything that
// lists flags or changes uses this order.
func Order(flags []Flag) { OrderBy(flags, func(f Flag) Flag { return f }) }

// OrderBy sorts values that belong to flags as Order does. The order of the list matters only for
// flags of one file.
func OrderBy[T any](list []T, flag func(T) Flag) {
	slices.SortStableFunc(list, func(a, b T) int {
		x, y := flag(a), flag(b)
		return cmp.Or(y.Risk-x.Risk, strings.Compare(x.Path, y.Path))
	})
	flags := make([]Flag, len(list))
	for i, value := range list {
		flags[i] = flag(value)
	}
	type place struct {
		value T
		part  part
	}
	places, parts := make([]place, len(list)), partsOf(flags)
	for i, value := range list {
		places[i] = place{value, parts[i]}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.part, b.part) })
	for i, p := range places {
		list[i] = p.value
	}
}

// A part of a list of flags.
type part int

// The parts, in their order.
const (
	firstCode      part = iota // a few flags of each reason for which files become code
	firstOther                 // a few of each other group
	moreCode                   // the other flags of files that become code
	moreOther                  // all other flags
	firstInstalled             // a few of each group in files of packages
	moreInstalled
)

// partsOf returns the part of each flag. The flags must be sorted by their risk.
func partsOf(flags []Flag) []part {
	type one struct{ group, path string }
	parts, most := make([]part, len(flags)), perGroup(flags)
	count, seen, code := make(map[string]int), make(map[one]bool), 0
	for i, f := range flags {
		group := f.group()
		at := one{group, f.Path}
		first := !seen[at] && count[group] < most[f.half()] // a second flag of a file is not among the first
		if seen[at] = true; first {
			count[group]++
		}
		switch {
		case f.Installed && first:
			parts[i] = firstInstalled
		case f.Installed:
			parts[i] = moreInstalled
		case f.BecomesCode() && first && code < half:
			parts[i] = firstCode
			code++
		case f.BecomesCode():
			parts[i] = moreCode
		case first:
			parts[i] = firstOther
		default:
			parts[i] = moreOther
		}
	}
	return parts
}

// FirstCode returns how many values at the beginning of a list belong to the first flags of files
// that become code. The list must be in the order of OrderBy.
func FirstCode[T any](list []T, flag func(T) Flag) (n int) {
	for n < min(len(list), half) && flag(list[n]).half() == firstCode {
		n++
	}
	return n
}

// half returns the part in whose first lines a flag may be.
func (f Flag) half() part {
	switch {
	case f.Installed:
		return firstInstalled
	case f.BecomesCode():
		return firstCode
	}
	return firstOther
}

// perGroup returns how many flags of each group are among the first: fewer, if there are many
// groups.
func perGroup(flags []Flag) map[part]int {
	count, of := make(map[string]int), make(map[string]part)
	for _, f := range flags {
		count[f.group()]++
		of[f.group()] = f.half()
	}
	most := map[part]int{firstCode: few, firstOther: few, firstInstalled: few}
	lines := func(at part) (n int) {
		for group, flags := range count {
			if of[group] == at {
				n += min(flags, most[at])
			}
		}
		return n
	}
	for at := range most {
		for most[at] > 1 && lines(at) > half {
			most[at]--
		}
	}
	return most
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

// Shorten returns the flags for a list of about one screen. One flag stands for all of its group
// in a package. Of every group it keeps the first flags, whatever the other groups have. The last
// one that it keeps of a group says how many more there are. The flags must be in the order of
// Order.
func Shorten(flags []Flag) (list []Flag) {
	flags = foldPackages(flags)
	count, shown, most := make(map[string]int), make(map[string]int), perGroup(flags)
	for _, f := range flags {
		count[f.group()] += f.stands()
	}
	for _, f := range flags {
		group := f.group()
		if shown[group]++; shown[group] > most[f.half()] {
			continue
		}
		if count[group] -= f.stands(); count[group] > 0 && shown[group] == most[f.half()] {
			f.Text += fmt.Sprintf("; and %d more like it", count[group])
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

// Sort sorts values that belong to files in the order in which flags first name the files. A flag
// of a directory counts for the files in it, among the first flags only for one of them. The sort
// is stable. first is how many of the values belong to the first flags: see Order.
func Sort[T any](files []T, pathOf func(T) string, flags []Flag) (first int) {
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
	const none = math.MaxInt
	above, used := make(map[string]int), make(map[int]bool)
	var placeOf func(dir string) int // the first place of a directory or one above
	placeOf = func(dir string) int {
		place, known := above[dir]
		if known {
			return place
		}
		place, ok := places[dir]
		if !ok {
			place = none
		}
		if n := strings.LastIndexByte(dir, '/'); n > 0 {
			place = min(place, placeOf(dir[:n]))
		}
		above[dir] = place
		return place
	}
	for i, file := range files {
		name := pathOf(file)
		place, ok := places[name]
		if !ok {
			place = none
		}
		if n := strings.LastIndexByte(name, '/'); n > 0 {
			if up := placeOf(name[:n]); up < place && !used[up] {
				used[up], place = true, up
			} else if up < none {
				place = min(place, len(flags)+up)
			}
		}
		list[i] = ranked{file, place}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.place, b.place) })
	parts := partsOf(flags)
	for i, r := range list {
		if files[i] = r.value; r.place < len(flags) && parts[r.place] <= firstOther {
			first = i + 1
		}
	}
	return first
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

// foldPackages returns flags in which one stands for all of its group in a package.
func foldPackages(flags []Flag) (list []Flag) {
	type place struct{ group, dir string }
	at := make(map[place]int)
	for _, f := range flags {
		dir := packageOf(f.Path)
		if !f.Installed || dir == "" {
			list = append(list, f)
			continue
		}
		p := place{f.group(), dir}
		if i, ok := at[p]; ok {
			first := &list[i]
			first.times = first.stands() + 1
			first.Path, first.Line = dir, 0
			first.Text, _, _ = strings.Cut(first.Text, ";")
			continue
		}
		at[p] = len(list)
		list = append(list, f)
	}
	return list
}

// stands returns how many flags a flag stands for.
func (f Flag) stands() int { return max(1, f.times) }

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

// IsInstalled reports whether a path is in a directory that a package manager fills. It
// compares names exactly: on a case-sensitive system no package manager fills Node_Modules.
func IsInstalled(name string) bool {
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if installed[part] {
			return true
		}
	}
	return false
}
