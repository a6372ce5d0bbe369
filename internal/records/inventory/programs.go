package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// StateName returns the name of a program's state directory. A person recognises it, and
// no other program has it.
func StateName(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Base(root) + "-" + hex.EncodeToString(sum[:8])
}

// BareSuffix ends the name of the state directory of mounts without a program.
const BareSuffix = "-bare"

// HubSuffix ends the name of a state directory with the user's decisions at a hub. It belongs
// to no program.
const HubSuffix = "-hub"

// HubStateName returns the name of the state directory with the user's decisions at the hub
// that has a public key.
func HubStateName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "hub-" + hex.EncodeToString(sum[:8]) + HubSuffix
}

// DevicesName is the name of the state directory with the user's paired devices. It belongs to no
// program.
const DevicesName = "devices"

// A Known is a directory that golem keeps state for.
type Known struct {
	Name      string       // the name of the directory
	State     sandbox.Host // the state directory
	Directory sandbox.Host // "" if the state has no description
}

// Programs returns all directories that golem keeps state for, sorted by name. A directory
// appears twice if it has a program, and golem exec was used there without it. base is the
// directory with the state of all programs.
func Programs(base string) ([]Known, error) {
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Known
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		d, wrong := readDescription(dir)
		_, look := os.Stat(filepath.Join(dir, descriptionName))
		isUnreadable := errors.Is(look, fs.ErrPermission) // what is in it, golem cannot say
		if !e.IsDir() || strings.HasSuffix(e.Name(), HubSuffix) || e.Name() == DevicesName || wrong == nil && d.Version == 0 && !isUnreadable && !isState(dir) {
			continue
		}
		list = append(list, Known{NameOf(dir), sandbox.Host(dir), sandbox.Host(d.Directory)})
	}
	return list, err
}

// isState reports whether a directory has the state of a program.
func isState(dir string) bool {
	return audit.IsJournal(dir) || exists(filepath.Join(dir, "sessions"))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// A Journal is the journal of one program, or of the user's decisions at a hub or about devices,
// in its state directory.
type Journal struct {
	Program string // the name of the program's directory, or hub, or devices
	State   sandbox.Host
}

// Journals returns the journals of all programs, hubs and devices, sorted by name. base is the directory with
// the state of all programs.
func Journals(base string) ([]Journal, error) {
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Journal
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if !e.IsDir() || !audit.IsJournal(dir) {
			continue
		}
		list = append(list, Journal{NameOf(dir), sandbox.Host(dir)})
	}
	return list, err
}

// NameOf returns the name of the program whose state directory is dir.
func NameOf(dir string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(dir), BareSuffix), HubSuffix)
	if i := strings.LastIndex(name, "-"); i > 0 {
		return name[:i]
	}
	return name
}
