package keyring_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	system "github.com/zalando/go-keyring"

	"github.com/golem-forge/golem/internal/records/keyring"
)

// memory is a keyring of a system.
type memory struct {
	values map[string]string
	broken error
}

func (m memory) Get(service, user string) (string, error) {
	if v, ok := m.values[service+"/"+user]; ok && m.broken == nil {
		return v, nil
	}
	return "", errors.Join(m.broken, system.ErrNotFound)
}

func (m memory) Set(service, user, value string) error {
	if m.broken == nil {
		m.values[service+"/"+user] = value
	}
	return m.broken
}

func (m memory) Delete(service, user string) error {
	if _, ok := m.values[service+"/"+user]; !ok {
		return system.ErrNotFound
	}
	delete(m.values, service+"/"+user)
	return m.broken
}

func newStore(t *testing.T, s keyring.System) keyring.Keyring {
	store := keyring.Keyring{Dir: filepath.Join(t.TempDir(), "golem", "secrets"), System: s, Now: time.Now}
	if s == nil {
		store.Missing = "there is no session bus"
	}
	return store
}

func TestStore(t *testing.T) {
	for name, s := range map[string]keyring.Keyring{
		"in the keyring":   newStore(t, memory{values: map[string]string{}}),
		"in a file":        newStore(t, nil),
		"a broken keyring": newStore(t, memory{values: map[string]string{}, broken: errors.New("no service")}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Get("github"); !errors.Is(err, keyring.ErrNotFound) {
				t.Fatalf("Get before Set: got %v", err)
			}
			want := keyring.InFile
			if name == "in the keyring" {
				want = keyring.InKeyring
			}
			for _, value := range []string{"first-value", "second-value"} {
				in, why, err := s.Set("github", value)
				if err != nil || in != want || (why == "") != (want == keyring.InKeyring) {
					t.Fatalf("Set: got %q, %q, %v", in, why, err)
				}
				if got, err := s.Get("github"); got != value || err != nil {
					t.Fatalf("Get: got %q, %v, want %q", got, err, value)
				}
			}
			file := filepath.Join(s.Dir, "github.json")
			data, err := os.ReadFile(file)
			if err != nil || strings.Contains(string(data), "second-value") != (want == keyring.InFile) {
				t.Fatalf("the file has %s, %v", data, err)
			}
			if info, _ := os.Stat(file); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("mode: got %v", info.Mode())
			}
			if list, err := s.List(); err != nil || len(list) != 1 || list[0].Name != "github" || list[0].In != want {
				t.Errorf("List: got %v, %v", list, err)
			}
			if err := s.Remove("github"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get("github"); !errors.Is(err, keyring.ErrNotFound) {
				t.Errorf("Get after Remove: got %v", err)
			}
			if err := s.Remove("github"); !errors.Is(err, keyring.ErrNotFound) {
				t.Errorf("Remove twice: got %v", err)
			}
			if list, err := s.List(); err != nil || len(list) != 0 {
				t.Errorf("List after Remove: got %v, %v", list, err)
			}
		})
	}
}

// TestForeignSecret: a secret that another program stored in the keyring.
func TestForeignSecret(t *testing.T) {
	s := newStore(t, memory{values: map[string]string{"golem/anthropic": "the-key"}})
	if got, err := s.Get("anthropic"); got != "the-key" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := s.Remove("anthropic"); err != nil {
		t.Error(err)
	}
}

// TestUnreachableKeyring: the keyring that has a secret cannot be reached any more.
func TestUnreachableKeyring(t *testing.T) {
	s := newStore(t, memory{values: map[string]string{}})
	if _, _, err := s.Set("github", "the-value"); err != nil {
		t.Fatal(err)
	}
	s.System, s.Missing = nil, "there is no session bus"
	for _, err := range []error{func() error { _, err := s.Get("github"); return err }(), s.Remove("github")} {
		if err == nil || errors.Is(err, keyring.ErrNotFound) || !strings.Contains(err.Error(), "no session bus") {
			t.Errorf("got %v", err)
		}
	}
}

func TestRefusedNames(t *testing.T) {
	s := newStore(t, nil)
	for _, name := range []string{"", "../x", "a/b", ".hidden", "-x", "a b", strings.Repeat("x", 65), "ü"} {
		if _, _, err := s.Set(name, "value"); err == nil {
			t.Errorf("Set accepts the name %q", name)
		}
	}
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	if _, _, err := s.Set("open", "the-value"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.Dir, "open.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get("open"); got != "" || err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: got %q, %v", got, err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || !strings.Contains(list[0].Problem, "other users can read it; chmod 600") {
		t.Errorf("List: got %v, %v", list, err)
	}
	if err := s.Remove("open"); err != nil {
		t.Error(err)
	}
}

// TestDamagedFiles checks that one file that golem cannot read does not hide the other
// secrets, and that the user can replace or remove it.
func TestDamagedFiles(t *testing.T) {
	s := newStore(t, nil)
	for _, name := range []string{"good", "damaged", "empty", "odd"} {
		if _, _, err := s.Set(name, "the-value"); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"damaged": "{\"in\":", "empty": "", "odd": `{"in":"elsewhere"}`} {
		if err := os.WriteFile(filepath.Join(s.Dir, name+".json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.Dir, "directory.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 5 {
		t.Fatalf("got %v, %v", list, err)
	}
	for _, e := range list {
		if (e.Problem == "") != (e.Name == "good") || e.Name != "good" && !strings.Contains(e.Problem, "the file is damaged; golem secret set "+e.Name) {
			t.Errorf("got %+v", e)
		}
	}
	if err := s.Remove("damaged"); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, _, err := s.Set("empty", "another-value"); err != nil {
		t.Errorf("Set: %v", err)
	}
	if got, err := s.Get("empty"); got != "another-value" || err != nil {
		t.Errorf("Get: got %q, %v", got, err)
	}
}

// TestSharedDirectory: golem uses no secret that another user could have replaced, and stores
// none where one could.
func TestSharedDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has no such permissions
	}
	s := newStore(t, nil)
	s.Dir = filepath.Join(s.Dir, "golem", "secrets")
	if _, _, err := s.Set("one", "the-value"); err != nil {
		t.Fatal(err)
	}
	above := filepath.Dir(s.Dir)
	for _, test := range []struct {
		dir    string
		mode   os.FileMode
		shared bool
	}{
		{s.Dir, 0o777, true}, {s.Dir, 0o770, true}, {s.Dir, 0o722, true}, {s.Dir, 0o755, false}, {above, 0o777 | os.ModeSticky, true}, {above, 0o775, false},
	} {
		if err := os.Chmod(test.dir, test.mode); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get("one")
		_, _, errSet := s.Set("two", "another-value")
		list, errList := s.List()
		for _, err := range []error{err, errSet} {
			if (err != nil) != test.shared || err != nil && !strings.HasSuffix(err.Error(), test.dir+": other users can replace the secrets in it; look at the secrets, and run chmod go-w "+test.dir) {
				t.Errorf("%s %v: got %v", test.dir, test.mode, err)
			}
		}
		if errList != nil || len(list) == 0 || (list[0].Problem != "") != test.shared {
			t.Errorf("%s %v: got %+v, %v", test.dir, test.mode, list, errList)
		}
		if err := os.Chmod(test.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(s.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("one"); err != nil {
		t.Errorf("Remove: %v", err)
	}
}
