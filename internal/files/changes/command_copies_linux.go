package changes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// CommandCopies are copies of the directories that one command may write. golem uses them
// if the machine cannot mount overlays.
type CommandCopies struct {
	Mounts []jail.Mount // the mounts for the command
	copies *Overlays
	dir    sandbox.Host // the directory of records
}

// CopyForCommand copies every directory that a command with these mounts would write
// directly. It copies at most most bytes, or any number if most is 0. The copies are in a
// directory of golem's. If this golem is killed, the next one removes them.
func CopyForCommand(dir sandbox.Host, mounts []jail.Mount, most int64) (*CommandCopies, error) {
	c := &CommandCopies{Mounts: slices.Clone(mounts), dir: dir}
	var list []Directory
	how := CopyOptions{Without: make(map[string][]string), Most: most}
	targets := map[sandbox.Host]string{} // the target of each copied directory
	for _, m := range mounts {
		if !m.NeedsOverlay() || targets[m.Source] != "" {
			continue
		}
		target := jail.Outside(m.Target)
		targets[m.Source] = target
		list = append(list, Directory{Host: m.Source, Target: target})
		for _, in := range mounts {
			if rel, ok := strings.CutPrefix(in.Target, strings.TrimSuffix(m.Target, "/")+"/"); ok {
				how.Without[target] = append(how.Without[target], rel)
			}
		}
	}
	check := func() error { // checks that the directories are still the ones that file tools have open
		for _, m := range mounts {
			if targets[m.Source] == "" {
				continue
			}
			if _, _, err := m.Identity(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := check(); err != nil {
		return nil, err
	}
	at, err := newCopyDirectory(string(dir))
	if err != nil {
		return nil, err
	}
	if c.copies, _, err = OpenCopies(sandbox.Host(at), list, how); err == nil {
		c.copies.helpers.now = &helper{} // copies need no helper process
		err = errors.Join(check(), c.copies.Prepare(mounts, jail.Namespaces))
	}
	if err != nil {
		return nil, errors.Join(err, overlay.Overlay{Store: at}.Remove())
	}
	for i, m := range c.Mounts {
		if target := targets[m.Source]; target != "" && m.Write && !m.Kept {
			c.Mounts[i].Source, c.Mounts[i].Top, c.Mounts[i].Copy = c.copies.Path(Directory{Host: m.Source, Target: target}), sandbox.Place{}, true
		}
	}
	return c, nil
}

// newCopyDirectory makes a directory whose name shows which process it belongs to.
// Another golem can see that it is abandoned after this process has ended.
func newCopyDirectory(in string) (string, error) {
	if err := os.MkdirAll(in, 0o700); err != nil {
		return "", err
	}
	for i := 1; ; i++ {
		dir := filepath.Join(in, claim.Name(i))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
}

// Finish returns the changes of the command, nil if there are none, and removes the
// copies.
func (c *CommandCopies) Finish() (t *Transaction, err error) {
	defer func() {
		if gone := c.Discard(); gone != nil && err == nil && t == nil {
			err = gone
		}
	}()
	list, unfit, err := c.copies.Changes()
	if err != nil || len(list) == 0 && unfit == "" {
		return nil, err
	}
	var picks []Pick
	var clash []string
	for _, change := range list {
		if picks = append(picks, Pick{Name: change.Name()}); change.Conflict {
			clash = append(clash, change.Name())
		}
	}
	if len(clash) > 0 || unfit != "" {
		picks = nil // none of the changes can be applied
	}
	if t, err = c.copies.Begin(c.dir, picks); err != nil {
		return nil, err
	}
	t.Unfit, t.settle, t.unpick = unfit, nil, nil
	if len(clash) > 0 {
		t.Clash = clash
	}
	t.record.of, t.record.picked = nil, nil // the copies do not outlive the command
	if err := t.record.describe(); err != nil {
		return nil, errors.Join(err, t.store.remove(t.record))
	}
	return t, nil
}

// Discard removes the copies.
func (c *CommandCopies) Discard() error {
	return errors.Join(c.copies.Close(), overlay.Overlay{Store: c.copies.dir}.Remove())
}
