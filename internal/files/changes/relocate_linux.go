package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Relocate makes the overlays of a session that came from another machine fit these
// directories, which came with it. It takes no path from the description that came with
// them: overlays are in dir, and a directory is found by its target. A target that is not
// in the list keeps its changes, which OtherTargets reports. isSame reports whether a file has
// the content that it had on the other machine; nil means that all do.
func Relocate(dir sandbox.Host, list []Directory, isSame func(target, name string) bool) error {
	known, err := readDescription(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	used, err := lockFile(filepath.Join(string(dir), usedName), unix.LOCK_EX, busyWait)
	if err != nil {
		return err
	}
	defer used.Close()
	var layers []overlay.Overlay
	for i, target := range known.Targets {
		l := overlay.Overlay{Store: filepath.Join(string(dir), strconv.Itoa(i)), IsCopy: known.Layers[i].IsCopy}
		at := slices.IndexFunc(list, func(d Directory) bool { return d.Target == target })
		isLast := !slices.Contains(known.Targets[i+1:], target) // an older one is from another configuration
		if at >= 0 && isLast {
			l.Dir = string(list[at].Host)
			if err := os.MkdirAll(l.Dir, 0o777); err != nil {
				return err
			}
			var same func(name string) bool
			if isSame != nil {
				same = func(name string) bool { return isSame(target, name) }
			}
			if err := retry(func() error { return overlay.Rebase(l, same) }); err != nil {
				return fmt.Errorf("%s: %w", sandbox.Shown(target), err)
			}
		}
		layers = append(layers, l)
	}
	return description{Layers: layers, Targets: known.Targets}.write(string(dir))
}

// Receive adds an overlay over a directory to those of a session that came from another
// machine. fill writes the changes, as an overlay keeps them. isSame reports whether a file of
// the directory has the content that it had on the other machine.
func Receive(dir sandbox.Host, d Directory, fill func(upper string) error, isSame func(name string) bool) error {
	if err := os.MkdirAll(string(d.Host), 0o777); err != nil {
		return err
	}
	o := &Overlays{dir: string(dir)}
	return o.open([]Directory{d}, func(l *overlay.Overlay, _ Directory) error {
		if err := l.InitSession(); err != nil {
			return err
		}
		if err := l.MarkStart(); err != nil {
			return err
		}
		if err := fill(l.UpperDir()); err != nil {
			return err
		}
		return overlay.RecordReceived(*l, isSame)
	})
}
