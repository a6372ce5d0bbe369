package taint

import (
	"context"

	"github.com/golem-forge/golem/sandbox"
)

// maxWalked is how many files of a mount are checked for hard links.
const maxWalked = 10_000

// hardLinkedIn returns the mount in which a file has another hard link, or with tree one
// of the files in a directory; "" for none. If there are too many files to check, it
// assumes one.
func hardLinkedIn(files *sandbox.Sandbox, places []string, name string, tree bool) string {
	var names map[sandbox.Version]bool // the files asked about, nil if not collected yet
	all := true
	if !tree {
		info, err := files.Stat(name)
		if err != nil || !info.Mode().IsRegular() || info.Links() < 2 {
			return ""
		}
		names = map[sandbox.Version]bool{info.Version(): true}
	}
	for _, place := range places {
		there, whole := hardLinks(files, place)
		if (len(there) > 0 || !whole) && names == nil {
			names, all = hardLinks(files, name)
		}
		if !whole && len(names) > 0 || len(there) > 0 && !all {
			return place
		}
		for version := range there {
			if names[version] {
				return place
			}
		}
	}
	return ""
}

// hardLinks returns the files in a directory that have several hard links, and whether it
// checked all files. For a directory that the worker does not see it returns none.
func hardLinks(files *sandbox.Sandbox, folder string) (found map[sandbox.Version]bool, all bool) {
	found = make(map[sandbox.Version]bool)
	list, err := files.Walk(context.Background(), folder, func(_ string, e sandbox.Entry) (keep, enter bool) { return e.Type.IsRegular(), true },
		sandbox.Budget{Entries: maxWalked, Results: maxWalked})
	if err != nil {
		return found, true
	}
	for _, f := range list.Found {
		if info, err := files.Stat(f.Path); err == nil && info.Links() > 1 {
			found[info.Version()] = true
		}
	}
	return found, list.Cut == ""
}
