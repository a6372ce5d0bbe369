package forge

import (
	"os"
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/toolset/changes"
	"github.com/golem-forge/golem/sandbox"
)

// A work is what a door has of layers: where changes of commands are kept until they
// land, and the session that keeps those of mounts which are layers.
type work struct {
	layers  layers
	session *Session   // nil where no mount is a layer, or none can be had
	kept    *jail.Kept // of the session
	notes   []string
}

// work returns it for a visit. Where the machine has no layers, mounts that should be
// some are read-only, and that is said.
func (p *Program) work(id string, network bool) (*work, error) {
	w := &work{layers: p.layers()}
	over := p.over()
	if len(over) == 0 {
		return w, nil
	}
	if !w.layers.can() {
		for _, o := range over {
			w.notes = append(w.notes, sandbox.Shown(o.Target)+" is read-only: its mode is overlay, and there are no layers here; golem doctor says why")
		}
		return w, nil
	}
	for _, o := range over {
		if err := os.MkdirAll(string(o.Folder), 0o777); err != nil {
			return nil, plainError("mount "+o.Target, err)
		}
	}
	for _, o := range over {
		if names := jail.Foreign(o.Folder); len(names) > 0 {
			w.notes = append(w.notes, "nothing can be made in "+shownBelow(o.Target, names)+": the group of these folders is not your own, and a layer has no place for it; chgrp -R gives them yours")
		}
	}
	var err error
	if w.session, err = p.enter(id); err != nil {
		return nil, err
	}
	w.kept, err = jail.OpenKept(sandbox.Host(w.session.dir), over, network, p.options.Now)
	return w, err
}

// shownBelow names some of what is in a folder.
func shownBelow(folder string, names []string) string {
	more := ""
	if len(names) > maxNamed {
		names, more = names[:maxNamed], " and more"
	}
	var list []string
	for _, name := range names {
		list = append(list, sandbox.Shown(path.Join(folder, name)))
	}
	return strings.Join(list, ", ") + more
}

// mount returns what a mount that is a layer shows.
func (w *work) mount(m project.Mount) (sandbox.Mount, error) {
	if w.kept == nil {
		b, err := sandbox.DirIn(m.Base, m.Source)
		return sandbox.Mount{Backend: b, Access: sandbox.ReadOnly}, err
	}
	return sandbox.Mount{Backend: newKeptFolder(w.kept, overOf(m)), Access: m.Access()}, nil
}

// enter returns what the gate calls around a call, nil where there are no layers.
func (w *work) enter() func(fresh, changes bool) (leave func() error, err error) {
	if w.kept == nil {
		return nil
	}
	return w.kept.Enter
}

// keeper returns what a session has changed, nil where there is none.
func (w *work) keeper() changes.Keeper {
	if w.kept == nil {
		return nil
	}
	return keeper{w.kept, w.layers.dir}
}

// A keeper is what a session keeps, with the place for transactions of it.
type keeper struct {
	*jail.Kept
	layers sandbox.Host
}

// Take implements changes.Keeper.
func (k keeper) Take(picks []jail.Pick) (*jail.Transaction, error) {
	return k.Kept.Take(k.layers, picks)
}

func (w *work) close() error {
	if w.kept == nil {
		return nil
	}
	return w.kept.Close()
}
