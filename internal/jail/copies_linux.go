package jail

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// CanCopy reports whether this system can work on copies.
const CanCopy = true

// OpenCopies is OpenKept for a session that works on copies. It returns what is not in
// those that were made now, and what others lack where other folders do not stand any
// more.
func OpenCopies(dir sandbox.Host, over []Over, how Copying, now func() time.Time) (k *Kept, left []LeftOut, err error) {
	k = &Kept{dir: string(dir), now: now}
	var far overlay.Progress // of all that is copied
	err = k.open(over, func(l *overlay.Overlay, o Over) error {
		l.IsCopy = true
		before := far
		list, err := l.InitCopy(how.Without[o.Target], func(p overlay.Progress) error {
			far = before.Add(p)
			if how.Most > 0 && far.Size > how.Most {
				return &TooLarge{how.Most}
			}
			if how.Tell == nil {
				return nil
			}
			return how.Tell(far)
		})
		for _, one := range list {
			left = append(left, LeftOut{path.Join(o.Target, one.Path), one.Reason})
		}
		return err
	})
	for _, o := range over {
		i := about{Layers: k.layers, Target: k.target}.find(o)
		if err != nil || i < 0 {
			break
		}
		covered, err := k.layers[i].CoveredPaths()
		if err != nil {
			return k, left, err
		}
		for _, name := range covered {
			if !slices.Contains(how.Without[o.Target], name) {
				left = append(left, LeftOut{path.Join(o.Target, name), "another mount stood there when it was made, and what is changed there now is not kept; --session new --copy makes another"})
			}
		}
	}
	return k, left, err
}

// mounted reports whether commands see it only through mounts of the holder's: of copies
// they see the folder itself.
func (k *Kept) mounted() bool {
	return k != nil && slices.ContainsFunc(k.layers, func(l overlay.Overlay) bool { return !l.IsCopy })
}

// stand makes the places in copies at which other folders of a policy stand. Where
// those cannot be mounted they are found through links.
func (k *Kept) stand(mounts []Mount, level Level) error {
	if k == nil {
		return nil
	}
	for i, l := range k.layers {
		top := commandName(k.target[i])
		for _, m := range mounts {
			rel, ok := strings.CutPrefix(m.Target, top+"/")
			apart := func(o Mount) bool { // it stands in another one that stands there
				return len(o.Target) > len(top) && strings.HasPrefix(m.Target, o.Target+"/")
			}
			if !ok || !l.IsCopy || m.Source == "" || strings.HasPrefix(string(m.Source), l.SessionDir()+"/") || slices.ContainsFunc(mounts, apart) {
				continue
			}
			link := ""
			if level == Landlock {
				link = string(m.Source)
			}
			if err := l.MakeMountPoint(rel, link); err != nil {
				return &sandbox.Error{Op: "jail", Path: m.Target, Code: sandbox.ErrConflict, Hint: "golem cannot show this directory in the session's copy: " + Plain(err)}
			}
		}
	}
	return nil
}
