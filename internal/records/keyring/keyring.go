// Package keyring stores the user's secrets by name: in the system's keyring, or in files
// that only the user can read if there is none.
//
// A directory has one small file for each secret. It holds the value, or says that the
// system's keyring has it. So golem can list the names, which a keyring cannot, and two
// processes that store different secrets never write the same file. A mount never shows
// the directory: it is in golem's own configuration.
package keyring

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	system "github.com/zalando/go-keyring"

	"github.com/golem-forge/golem/internal/files/durable"
)

// Service is the name of golem in the system's keyring.
const Service = "golem"

// LoginPrefix begins the names of secrets that hold logins at MCP servers. No header and no
// credential may have such a secret.
const LoginPrefix = "mcp-login-"

// ErrNotFound is the error for a secret that does not exist.
var ErrNotFound = errors.New("no such secret")

// A Keyring holds the secrets of a user.
type Keyring struct {
	// Dir is the directory of the files.
	Dir string
	// System is the system's keyring, nil for none.
	System System
	// Missing says why System is nil.
	Missing string
	Now     func() time.Time
}

// A System is the keyring of a system. Get and Delete return ErrNotFound of package
// go-keyring for a secret that does not exist.
type System interface {
	Get(service, user string) (string, error)
	Set(service, user, value string) error
	Delete(service, user string) error
}

// Open returns the secrets in a directory, with the system's keyring if there is one.
func Open(dir string, getenv func(string) string, now func() time.Time) Keyring {
	s := Keyring{Dir: dir, Now: now}
	if s.Missing = findMissing(getenv); s.Missing == "" {
		s.System = systemKeyring{}
	}
	return s
}

// findMissing returns why the system has no keyring, "" if it may have one. Without a bus,
// the library would start one of its own, in which a secret ends with the process.
func findMissing(getenv func(string) string) string {
	switch runtime.GOOS {
	case "darwin", "windows":
		return ""
	}
	if address := getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && !strings.HasPrefix(address, "autolaunch:") {
		return ""
	}
	for _, dir := range []string{getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", os.Getuid())} {
		if info, err := os.Lstat(filepath.Join(dir, "bus")); filepath.IsAbs(dir) && err == nil && info.Mode()&fs.ModeSocket != 0 {
			return ""
		}
	}
	return "there is no session bus"
}

type systemKeyring struct{}

func (systemKeyring) Get(service, user string) (string, error) { return system.Get(service, user) }
func (systemKeyring) Set(service, user, value string) error {
	return system.Set(service, user, value)
}
func (systemKeyring) Delete(service, user string) error { return system.Delete(service, user) }

// An Entry describes a secret, without its value.
type Entry struct {
	Name string    `json:"name"`
	In   Place     `json:"in,omitempty"` // empty if its file is damaged
	Set  time.Time `json:"set,omitzero"`
	// Problem says why golem cannot use the secret, and what to type. It is empty if golem can.
	Problem string `json:"problem,omitempty"`
}

// A Place is where the value of a secret is.
type Place string

// Places of a value.
const (
	InKeyring Place = "keyring"
	InFile    Place = "file"
)

// A storedSecret is the content of a secret's file.
type storedSecret struct {
	In    Place     `json:"in"`
	Set   time.Time `json:"set"`
	Value string    `json:"value,omitempty"`
}

// CheckName returns what is wrong with the name of a secret, "" if it is valid.
func CheckName(name string) string {
	const most = 64
	odd := func(r rune) bool {
		return !strings.ContainsRune("._-", r) && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}
	if name == "" || len(name) > most || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, odd) {
		return "a name has letters, digits, ., _ and -, such as github"
	}
	return ""
}

// Set stores a secret, and says where. Why says why it is not in the system's keyring.
func (s Keyring) Set(name, value string) (in Place, why string, err error) {
	if hint := CheckName(name); hint != "" {
		return "", "", errors.New(hint)
	}
	r := storedSecret{In: InKeyring, Set: s.Now().UTC().Truncate(time.Second)}
	why = s.Missing
	if s.System != nil {
		if err := s.System.Set(Service, name, value); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		r.In, r.Value = InFile, value
	}
	data, err := json.Marshal(r)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", "", err
	}
	if err := s.checkDir(); err != nil {
		return "", "", err
	}
	return r.In, why, durable.WriteFile(s.file(name), append(data, '\n'), 0o600)
}

// Get returns a secret. Without a file it asks the system's keyring, because other
// programs can store secrets there. The error is ErrNotFound if nobody has it.
func (s Keyring) Get(name string) (string, error) {
	if hint := CheckName(name); hint != "" {
		return "", errors.New(hint)
	}
	r, err := s.read(name)
	switch {
	case err == nil && r.In == InFile:
		return r.Value, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case s.System == nil && err == nil:
		return "", fmt.Errorf("the secret %s is in the system's keyring, which golem cannot reach: %s", name, s.Missing)
	case s.System == nil:
		return "", ErrNotFound
	}
	known := err == nil
	value, err := s.System.Get(Service, name)
	if errors.Is(err, system.ErrNotFound) || err != nil && !known {
		return "", ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("the secret %s in the system's keyring: %w", name, err)
	}
	return value, nil
}

// GetStored returns a secret that golem stored. It does not ask the system's keyring about
// others.
func (s Keyring) GetStored(name string) (string, error) {
	if _, err := s.read(name); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotFound
	}
	return s.Get(name)
}

// Remove removes a secret from wherever it is. The error is ErrNotFound if there is none.
func (s Keyring) Remove(name string) error {
	if hint := CheckName(name); hint != "" {
		return errors.New(hint)
	}
	r, err := s.read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errOpen) && !errors.Is(err, errShared) && !errors.Is(err, errDamaged) {
		return err
	}
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case s.System != nil:
		gone := s.System.Delete(Service, name)
		if gone == nil {
			missing = false
		} else if r.In == InKeyring && !errors.Is(gone, system.ErrNotFound) {
			return fmt.Errorf("the secret %s in the system's keyring: %w", name, gone)
		}
	case r.In == InKeyring:
		return fmt.Errorf("the secret %s is in the system's keyring, which golem cannot reach: %s", name, s.Missing)
	}
	if missing {
		return ErrNotFound
	}
	if err := os.Remove(s.file(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return durable.SyncDir(s.Dir)
}

// List returns all secrets that golem stored, by name. One that golem cannot use has a
// Problem.
func (s Keyring) List() ([]Entry, error) {
	files, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ending)
		if !ok || CheckName(name) != "" {
			continue
		}
		r, err := s.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed it
		}
		e := Entry{Name: name, In: r.In, Set: r.Set}
		if err != nil {
			e.Problem = err.Error()
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

const ending = ".json"

func (s Keyring) file(name string) string { return filepath.Join(s.Dir, name+ending) }

// Errors of a secret's file.
var (
	errOpen    = errors.New("other users can read it")
	errDamaged = errors.New("the file is damaged")
	errShared  = errors.New("other users can replace the secrets in it")
)

// checkDir returns an error if other users can change the directory, or the one above it.
// Many systems give each user a group, so the group may change that one.
func (s Keyring) checkDir() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for dir, bits := range map[string]fs.FileMode{s.Dir: 0o022, filepath.Dir(s.Dir): 0o002} {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&bits != 0 {
			return fmt.Errorf("%s: %w; look at the secrets, and run chmod go-w %s", dir, errShared, dir)
		}
	}
	return nil
}

// read reads the file of a secret. It refuses a file that other users can read or replace,
// but returns its content except for the value.
func (s Keyring) read(name string) (r storedSecret, err error) {
	const most = 1 << 20
	if info, err := os.Lstat(s.file(name)); err != nil {
		return r, err
	} else if !info.Mode().IsRegular() { // opening a named pipe would wait
		return r, fmt.Errorf("%s: %w; golem secret set %s replaces it", s.file(name), errDamaged, name)
	}
	f, err := os.Open(s.file(name))
	if err != nil {
		return r, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil || r.In != InFile && r.In != InKeyring {
		return storedSecret{}, fmt.Errorf("%s: %w; golem secret set %s replaces it", f.Name(), errDamaged, name)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		r.Value = ""
		return r, fmt.Errorf("%s: %w; chmod 600 %s, or store another value with golem secret set %s", f.Name(), errOpen, f.Name(), name)
	}
	if err := s.checkDir(); err != nil {
		r.Value = ""
		return r, err
	}
	return r, nil
}
