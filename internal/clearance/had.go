package clearance

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/state"
)

// maxRemembered is how many files of a branch are remembered.
const maxRemembered = 100_000

// pulledDocument keeps what trees have of each branch, and under anyTree what was taken
// last by any of them. No session has that name.
const (
	pulledDocument = "pulled.json"
	anyTree        = "*"
)

func pulledKey(tree, target, branch string) string { return tree + "\x00" + target + "\x00" + branch }

// had is what was at a path.
type had struct {
	Mode git.Mode `json:"mode"`
	Hash git.Hash `json:"hash"`
}

// of is what a tree has of a branch, by path, quoted, for JSON has no way to write
// every name.
type of map[string]had

// put notes what the tree has at a path, the mode None for nothing.
func (o of) put(path string, mode git.Mode, hash git.Hash) {
	name := strconv.QuoteToASCII(path)
	switch _, known := o[name]; {
	case mode == git.None:
		delete(o, name)
	case known || len(o) < maxRemembered:
		o[name] = had{mode, hash}
	}
}

// remembered reads the document: by tree, target and branch.
func remembered(data []byte) (all map[string]of, err error) {
	if data == nil {
		return map[string]of{}, nil
	}
	if err := json.Unmarshal(data, &all); err != nil || all == nil {
		return nil, damaged(pulledDocument)
	}
	return all, nil
}

// remember notes that the tree that a commit was staged from has its files as the branch
// has them now. Of a tree that nothing is pulled into nothing is known.
func (d *Desk) remember(c *StagedCommit) error {
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
			if all[key] == nil && fed(all, tree, c.Target) {
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

// fed reports whether anything was pulled from a target into a tree.
func fed(all map[string]of, tree, target string) bool {
	for key := range all {
		if strings.HasPrefix(key, pulledKey(tree, target, "")) {
			return true
		}
	}
	return false
}

// Had returns what reports whether the tree has had a file of a target: that it is not
// there means that it was deleted. A tree that nothing was pulled into has had all, for
// it was filled in another way.
func (d *Desk) Had(target string) (func(path string) bool, error) {
	t, err := d.target(target)
	if err != nil {
		return nil, err
	}
	all, err := d.remembered()
	if err != nil {
		return nil, err
	}
	if !fed(all, d.tree, t.Name) && !fed(all, anyTree, t.Name) {
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

// bases returns what the tree has of a branch: what it last took from there or,
// of other files, what the newest commit that waits was made from. It returns what trees
// elsewhere took, too.
func (d *Desk) bases(target, branch string) (base, elsewhere map[string]had, err error) {
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

func (d *Desk) remembered() (map[string]of, error) {
	data, err := d.folder.Read(pulledDocument)
	if err != nil {
		return nil, err
	}
	return remembered(data)
}

// Forget forgets what the tree of a session has, where its changes are given up.
func Forget(folder *state.Folder, tree string) error {
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
