package clearance

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/records/state"
)

// maxRemembered limits how many files of a branch are remembered.
const maxRemembered = 100_000

// pulledDocument keeps which files each tree has of each branch. The entry anyTree keeps
// what any tree pulled last. No session has that name.
const (
	pulledDocument = "pulled.json"
	anyTree        = "*"
)

func pulledKey(tree, target, branch string) string { return tree + "\x00" + target + "\x00" + branch }

// A had is the mode and hash of a file that a tree got from a branch.
type had struct {
	Mode git.Mode `json:"mode"`
	Hash git.Hash `json:"hash"`
}

// An of maps quoted paths to the files that a tree has of a branch. Paths are quoted
// because JSON cannot hold every name.
type of map[string]had

// put records what the tree has at a path. Mode None removes the path.
func (o of) put(path string, mode git.Mode, hash git.Hash) {
	name := strconv.QuoteToASCII(path)
	switch _, known := o[name]; {
	case mode == git.None:
		delete(o, name)
	case known || len(o) < maxRemembered:
		o[name] = had{mode, hash}
	}
}

// remembered reads the document. Its keys are those of pulledKey.
func remembered(data []byte) (all map[string]of, err error) {
	if data == nil {
		return map[string]of{}, nil
	}
	if err := json.Unmarshal(data, &all); err != nil || all == nil {
		return nil, damaged(pulledDocument)
	}
	return all, nil
}

// remember records after a push that the tree of a commit has its files as the branch has
// them now. It records nothing for a tree without pulled files.
func (d *Commits) remember(c *StagedCommit) error {
	data, err := d.folder.Read(pulledDocument)
	if err != nil || data == nil {
		return err
	}
	return d.folder.Update(pulledDocument, func(old []byte) ([]byte, error) {
		all, err := remembered(old)
		if err != nil {
			return nil, err
		}
		for _, tree := range []string{c.Tree, anyTree} {
			key := pulledKey(tree, c.Target, c.Branch)
			if all[key] == nil && hasPulled(all, tree, c.Target) {
				all[key] = of{} // a new branch
			}
			for _, f := range c.Files {
				if all[key] != nil {
					all[key].put(f.Path, f.Mode, f.New)
				}
			}
		}
		return json.Marshal(all)
	})
}

// hasPulled reports whether anything was pulled from a target into a tree.
func hasPulled(all map[string]of, tree, target string) bool {
	for key := range all {
		if strings.HasPrefix(key, pulledKey(tree, target, "")) {
			return true
		}
	}
	return false
}

// Had returns a function that reports whether the tree had a file of a target. If such a
// file is missing now, it was deleted. If nothing was pulled into the tree, the function
// always reports true, because the files came another way.
func (d *Commits) Had(target string) (func(path string) bool, error) {
	t, err := d.target(target)
	if err != nil {
		return nil, err
	}
	all, err := d.remembered()
	if err != nil {
		return nil, err
	}
	if !hasPulled(all, d.tree, t.Name) && !hasPulled(all, anyTree, t.Name) {
		return func(string) bool { return true }, nil
	}
	waiting, err := d.List()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, c := range waiting {
		for _, f := range c.Files {
			if c.Target == t.Name && c.Tree == d.tree {
				known[strconv.QuoteToASCII(f.Path)] = true
			}
		}
	}
	for key, files := range all {
		tree, rest, _ := strings.Cut(key, "\x00")
		if (tree == d.tree || tree == anyTree) && strings.HasPrefix(rest, t.Name+"\x00") {
			for name := range files {
				known[name] = true
			}
		}
	}
	return func(path string) bool { return known[strconv.QuoteToASCII(path)] }, nil
}

// bases returns the files that the tree last got of a branch. For other files it uses the
// base of the newest waiting commit. Elsewhere holds what any tree got last.
func (d *Commits) bases(target, branch string) (base, elsewhere map[string]had, err error) {
	base, elsewhere = map[string]had{}, map[string]had{}
	waiting, err := d.List()
	if err != nil {
		return nil, nil, err
	}
	for _, c := range waiting {
		if c.Target != target || c.Branch != branch || c.Tree != d.tree {
			continue
		}
		for _, f := range c.Files {
			base[f.Path] = had{f.OldMode, f.Old}
		}
	}
	all, err := d.remembered()
	if err != nil {
		return nil, nil, err
	}
	for tree, into := range map[string]map[string]had{d.tree: base, anyTree: elsewhere} {
		for name, was := range all[pulledKey(tree, target, branch)] {
			if path, err := strconv.Unquote(name); err == nil {
				into[path] = was
			}
		}
	}
	return base, elsewhere, nil
}

func (d *Commits) remembered() (map[string]of, error) {
	data, err := d.folder.Read(pulledDocument)
	if err != nil {
		return nil, err
	}
	return remembered(data)
}

// Forget removes the entries of a session whose changes are discarded.
func Forget(folder *state.Dir, tree string) error {
	if data, err := folder.Read(pulledDocument); err != nil || data == nil {
		return err
	}
	return folder.Update(pulledDocument, func(old []byte) ([]byte, error) {
		all, err := remembered(old)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(all, func(key string, _ of) bool { return strings.HasPrefix(key, tree+"\x00") })
		return json.Marshal(all)
	})
}
