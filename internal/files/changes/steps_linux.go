package changes

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/layers"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// stackOf returns the frozen layers of an overlay as one word.
func stackOf(l overlay.Overlay) string {
	if l.IsCopy {
		return ""
	}
	s, err := layers.Read(l.Store)
	if err != nil {
		return err.Error()
	}
	return strings.Join(s.Layers, " ")
}

// tops returns the name of the top layer of each overlay.
func tops(list []overlay.Overlay) (names []string) {
	for _, l := range list {
		top, _, _ := strings.Cut(stackOf(l), " ")
		names = append(names, top)
	}
	return names
}

// beginStep freezes what earlier commands have changed in the overlays of the session in dir, as
// a step, before a command that may change more. The overlays are reserved for this golem and
// not mounted. all are those of other configurations, too.
func beginStep(dir string, h *helper, overlays, all []overlay.Overlay, holder Holder) error {
	for _, l := range overlays {
		if l.IsCopy {
			continue
		}
		if _, err := h.ask(request{Do: freezeOverlay, Layer: l}); err != nil {
			return err
		}
	}
	s, err := layers.ReadSteps(dir)
	if err != nil {
		return err
	}
	s.Note(tops(all))
	s.Begun = layers.Step{Command: holder.Command, Time: holder.Since}
	if err := s.Write(dir); err != nil {
		return err
	}
	for _, l := range overlays {
		if !l.IsCopy {
			// What stays takes only space, and the next golem tries again.
			_, _ = h.ask(request{Do: pruneLayers, Layer: l, Paths: s.LayersOf(slices.Index(all, l))})
		}
	}
	return nil
}
