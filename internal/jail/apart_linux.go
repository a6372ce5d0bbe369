package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// An Apart holds copies of the directories that one command may write. It takes the
// place of the overlays of a command where none can be mounted.
type Apart struct {
	Mounts []Mount // what the command gets
	kept   *Kept
	layers sandbox.Host
}

// SetApart copies every directory that commands with these mounts would write directly,
// at most so many bytes; 0 is any size. The copies are in the directory of layers, and
// the next golem removes them if this one is killed.
func SetApart(layers sandbox.Host, mounts []Mount, most int64, now func() time.Time) (*Apart, error) {
	a := &Apart{Mounts: slices.Clone(mounts), layers: layers}
	var over []Over
	how := Copying{Without: make(map[string][]string), Most: most}
	at := map[sandbox.Host]string{} // the target of each copy
	for _, m := range mounts {
		if m.Source == "" || !m.Write || m.Kept || at[m.Source] != "" {
			continue
		}
		target := Outside(m.Target)
		at[m.Source] = target
		over = append(over, Over{Folder: m.Source, Target: target})
		for _, in := range mounts {
			if rel, ok := strings.CutPrefix(in.Target, strings.TrimSuffix(m.Target, "/")+"/"); ok {
				how.Without[target] = append(how.Without[target], rel)
			}
		}
	}
	held := func() error { // the directories are those that file tools hold open
		for _, m := range mounts {
			if at[m.Source] == "" || m.Top.Inode == 0 {
				continue
			}
			fd, err := openBelow("", string(m.Source), heldOf(m.Top))
			if err != nil {
				return fmt.Errorf("%s: %w", m.Target, err)
			}
			unix.Close(fd)
		}
		return nil
	}
	if err := held(); err != nil {
		return nil, err
	}
	dir, err := newApart(layers)
	if err != nil {
		return nil, err
	}
	if a.kept, _, err = OpenCopies(dir, over, how, now); err == nil {
		a.kept.holder = unheld(Policy{}, now)
		err = errors.Join(held(), a.kept.stand(mounts, Namespaces))
	}
	if err != nil {
		return nil, errors.Join(err, overlay.Overlay{Store: string(dir)}.Remove())
	}
	for i, m := range a.Mounts {
		if target := at[m.Source]; target != "" && m.Write && !m.Kept {
			a.Mounts[i].Source, a.Mounts[i].Top, a.Mounts[i].Copy = a.kept.Through(Over{Folder: m.Source, Target: target}), sandbox.Place{}, true
		}
	}
	return a, nil
}

// newApart makes a directory that is known to be abandoned when this process is gone.
func newApart(layers sandbox.Host) (sandbox.Host, error) {
	if err := os.MkdirAll(string(layers), 0o700); err != nil {
		return "", err
	}
	for i := 1; ; i++ {
		dir := filepath.Join(string(layers), stamp(i))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
			return sandbox.Host(dir), err
		}
	}
}

// Changed returns what the command has changed, nil for nothing, and removes the copies.
func (a *Apart) Changed() (t *Transaction, err error) {
	defer func() {
		if gone := a.Drop(); gone != nil && err == nil && t == nil {
			err = gone
		}
	}()
	list, unfit, err := a.kept.Changes()
	if err != nil || len(list) == 0 && unfit == "" {
		return nil, err
	}
	var picks []Pick
	var clash []string
	for _, c := range list {
		if picks = append(picks, Pick{Name: c.Name()}); c.Conflict {
			clash = append(clash, path.Join(commandName(c.Target), c.Path))
		}
	}
	if len(clash) > 0 || unfit != "" {
		picks = nil // nothing of it can land
	}
	if t, err = a.kept.Take(a.layers, picks); err != nil {
		return nil, err
	}
	t.Unfit, t.settle, t.unpick = unfit, nil, nil
	if len(clash) > 0 {
		t.Clash = clash
	}
	t.work.of, t.work.picked = nil, nil // the copies do not outlive the command
	if err := t.work.describe(); err != nil {
		return nil, errors.Join(err, t.session.forget(t.work))
	}
	return t, nil
}

// Drop removes the copies.
func (a *Apart) Drop() error {
	return errors.Join(a.kept.Close(), overlay.Overlay{Store: a.kept.dir}.Remove())
}
