package jail

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/layer"
)

// An ask is a wish of golem to the holder: a cell, whose wire comes with it, or
// something that is to be done with a layer. The holder does it because a command
// may leave folders that the user cannot enter.
type ask struct {
	Do      string
	Layer   layer.Layer
	Dropped []string
}

const (
	listWork    = "list"
	prepareWork = "prepare"
	finishWork  = "finish"
	abortWork   = "abort"
	mayUndo     = "may undo"
	recoverWork = "recover"
	removeWork  = "remove"
)

// A reply is what came of it.
type reply struct {
	Error string
	Clash []string // changed meanwhile by others
	Unfit string   // says of a name that it can be none
}

// ask asks the holder to do something with a layer.
func (s *Session) ask(a ask) (reply, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	var got reply
	if err := s.holder.send(a); err != nil {
		return got, fmt.Errorf("jail: the session has ended: %w", err)
	}
	if _, err := s.holder.receive(&got); err != nil {
		return got, fmt.Errorf("jail: the session has ended: %w", err)
	}
	if got.Error != "" {
		return got, errors.New("jail: " + got.Error)
	}
	return got, nil
}

// carryOut does what is asked for.
func (a ask) carryOut() (got reply) {
	var err error
	switch a.Do {
	case listWork:
		var list []layer.Change
		if list, err = a.Layer.Changes(); err == nil {
			err = writeChanges(a.Layer, list)
		}
	case prepareWork:
		var list []layer.Change
		if list, err = readChanges(a.Layer); err == nil {
			err = a.Layer.Prepare(list, a.Dropped)
		}
	case finishWork:
		err = a.Layer.Finish()
	case abortWork:
		err = a.Layer.Abort()
	case mayUndo:
		err = a.Layer.CheckUndo()
	case recoverWork:
		_, err = a.Layer.Recover()
	case removeWork:
		err = a.Layer.Remove()
	default:
		err = errors.New("no such wish")
	}
	var conflict *layer.Conflict
	var unfit *layer.Unfit
	switch {
	case errors.As(err, &conflict):
		got.Clash = conflict.Paths
	case errors.As(err, &unfit):
		got.Unfit = unfit.Error()
	case err != nil:
		got.Error = Plain(err)
	}
	return got
}

// changesName is where the list of changes is kept in a layer.
const changesName = "changes"

func writeChanges(l layer.Layer, list []layer.Change) error {
	f, err := os.OpenFile(filepath.Join(l.Store, changesName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, c := range list {
		if err := e.Encode(c); err != nil {
			return err
		}
	}
	return w.Flush()
}

func readChanges(l layer.Layer) ([]layer.Change, error) {
	f, err := os.Open(filepath.Join(l.Store, changesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []layer.Change
	for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
		var c layer.Change
		if err := d.Decode(&c); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}
