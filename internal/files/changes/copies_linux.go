package changes

import (
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// CanCopy reports whether this system can work on copies.
const CanCopy = true

// OpenCopies is Open for a session that works on copies. It returns the files that it
// skipped when it made copies. It also returns the paths that older copies lack because
// another directory was mounted there then, if none is mounted there now.
func OpenCopies(dir sandbox.Host, list []Directory, how CopyOptions) (o *Overlays, skipped []Skip, err error) {
	o = &Overlays{dir: string(dir)}
	var progress overlay.Progress // the sum over all copies
	err = o.open(list, func(l *overlay.Overlay, d Directory) error {
		l.IsCopy = true
		before := progress
		missing, err := l.InitCopy(how.Without[d.Target], func(p overlay.Progress) error {
			progress = before.Add(p)
			if how.Most > 0 && progress.Size > how.Most {
				return &TooLarge{how.Most}
			}
			if how.Report == nil {
				return nil
			}
			return how.Report(progress)
		})
		for _, one := range missing {
			skipped = append(skipped, Skip{path.Join(d.Target, one.Path), one.Reason})
		}
		return err
	})
	for _, d := range list {
		i := o.find(d)
		if err != nil || i < 0 {
			break
		}
		covered, err := o.layers[i].CoveredPaths()
		if err != nil {
			return o, skipped, err
		}
		for _, name := range covered {
			if !slices.Contains(how.Without[d.Target], name) {
				skipped = append(skipped, Skip{path.Join(d.Target, name), "another mount was there when golem made the copy, and changes there are not kept; --session new --copy makes another copy"})
			}
		}
	}
	return o, skipped, err
}

// Prepare implements jail.Overlays. It makes the mount points for other directories in
// copies. At the level landlock, which mounts nothing, it makes symlinks in their place.
func (o *Overlays) Prepare(mounts []jail.Mount, at jail.Level) error {
	for i, l := range o.layers {
		top := commandName(o.targets[i])
		for _, m := range mounts {
			rel, ok := strings.CutPrefix(m.Target, top+"/")
			isBetween := func(other jail.Mount) bool { // m is in other, which is in the copy
				return len(other.Target) > len(top) && strings.HasPrefix(m.Target, other.Target+"/")
			}
			if !ok || !l.IsCopy || m.Source == "" || strings.HasPrefix(string(m.Source), l.SessionDir()+"/") || slices.ContainsFunc(mounts, isBetween) {
				continue
			}
			link := ""
			if at == jail.Landlock {
				link = string(m.Source)
			}
			if err := l.MakeMountPoint(rel, link); err != nil {
				return &sandbox.Error{Op: "jail", Path: m.Target, Code: sandbox.ErrConflict, Hint: "golem cannot show this directory in the session's copy: " + jail.Plain(err)}
			}
		}
	}
	return nil
}
