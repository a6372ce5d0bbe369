package steps

import (
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/layers"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// A Moment is what a session held at a step, or what it holds now.
type Moment struct {
	overlays []overlay.Overlay
	targets  []string     // of each in the sandbox
	step     *layers.Step // nil for now
}

// MomentOf returns what the session whose overlays are in dir held at a step, or holds now if
// step is nil.
func MomentOf(dir string, step *layers.Step) (Moment, error) {
	overlays, targets, err := changes.Described(dir)
	for _, l := range overlays {
		if l.IsCopy {
			return Moment{}, errors.New("the session works on a copy, and only sessions on overlays have steps")
		}
	}
	return Moment{overlays, targets, step}, err
}

// find returns the number of the overlay over a directory, or -1.
func (m Moment) find(dir, target string) int {
	return slices.IndexFunc(m.overlays, func(l overlay.Overlay) bool { return l.Dir == dir && m.targets[slices.Index(m.overlays, l)] == target })
}

// point returns the point of the overlay with a number.
func (m Moment) point(i int) overlay.Point {
	p := overlay.Point{Overlay: m.overlays[i], Now: m.step == nil, Whole: true}
	if m.step != nil && i < len(m.step.Layers) {
		p.Layer = m.step.Layers[i]
	}
	return p
}

// Differences returns what leads from one moment to another one, in the order of the names.
func Differences(from, to Moment) (list []Difference, err error) {
	for j, target := range to.targets {
		i := from.find(to.overlays[j].Dir, target)
		old := overlay.Point{Overlay: to.overlays[j], Whole: true} // before the first change
		if i >= 0 {
			old = from.point(i)
		}
		some, err := differencesIn(target, old, to.point(j))
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	for i, target := range from.targets {
		if l := from.overlays[i]; to.find(l.Dir, target) < 0 {
			some, err := differencesIn(target, from.point(i), overlay.Point{Overlay: l, Whole: true})
			if err != nil {
				return nil, err
			}
			list = append(list, some...)
		}
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

func differencesIn(target string, from, to overlay.Point) (list []Difference, err error) {
	found, err := overlay.Compare(from, to)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var readers [2]*overlay.Reader
	for i, p := range []overlay.Point{from, to} {
		if readers[i], err = overlay.OpenReader(p.Overlay.Dir, &p); err != nil {
			return nil, err
		}
		defer readers[i].Close()
	}
	for _, c := range found {
		d := Difference{PathChange: c, Target: target, IsText: true}
		for i, kind := range []overlay.Kind{c.OldKind, c.Kind} {
			if kind != overlay.File {
				d.IsText = d.IsText && kind != overlay.Special
				continue
			}
			data, err := readers[i].ReadFile(c.Path, maxCompared)
			if err != nil || !utf8.Valid(data) || slices.Contains(data, 0) {
				d.IsText = false
			}
			if i == 0 {
				d.Old = data
			} else {
				d.New = data
			}
		}
		list = append(list, d)
	}
	return list, nil
}
