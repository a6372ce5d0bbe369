package layers

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A Stack says what is below the upperdir in the store of an overlay. The zero value is an
// overlay without frozen layers.
type Stack struct {
	Layers []string `json:"layers,omitempty"` // the names of the layers, from the top
	// From is the layer with the bases that the session had when the stack was made, "" for
	// none. Bases is the file in the store with the later ones.
	From  string `json:"from,omitempty"`
	Bases string `json:"bases,omitempty"`
}

// MaxDepth is how many layers a stack may have. The kernel mounts 500, and a lookup takes
// longer with each.
const MaxDepth = 24

// The names in a store and in a layer.
const (
	upperName    = "upper"
	layersName   = "layers"
	stackName    = "stack"
	basesName    = "bases"
	contentsName = "contents"
	aboutName    = "about.json"
)

// An about describes a layer.
type about struct {
	Below []string `json:"below,omitempty"` // the layers below it, from the top
	// From and Size say what the bases were when the layer was frozen: those of From, and the
	// first Size bytes of the file in the layer.
	From string `json:"from,omitempty"`
	Size int64  `json:"size"`
}

// Dir returns the directory of a layer.
func Dir(store, name string) string { return filepath.Join(store, layersName, name) }

// Upper returns the directory with the files of a layer.
func Upper(store, name string) string { return filepath.Join(Dir(store, name), upperName) }

// Contents returns the directory with the contents that a layer keeps of bases.
func Contents(store, name string) string { return filepath.Join(Dir(store, name), contentsName) }

// Read reads the stack of a store. A layer that is missing is an error: without it the session
// would show other files.
func Read(store string) (s Stack, err error) {
	data, err := os.ReadFile(filepath.Join(store, stackName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: not as it was written", stackName)
	}
	if !areNames(append(slices.Clone(s.Layers), s.From)) || strings.Contains(s.Bases, "/") {
		return s, fmt.Errorf("%s: not as it was written", stackName)
	}
	return s, nil
}

// areNames reports whether these can be names of layers. A stack may come from another machine.
func areNames(list []string) bool {
	return !slices.ContainsFunc(list, func(name string) bool { return strings.ContainsAny(name, "./") })
}

// Uppers returns the directories with the files of the layers, from the top.
func (s Stack) Uppers(store string) (dirs []string, err error) {
	for i, name := range s.Layers {
		dir := Upper(store, name)
		_, err := os.Lstat(dir)
		if i == 0 && errors.Is(err, fs.ErrNotExist) { // golem was killed while it froze the upperdir
			if _, err := os.Lstat(filepath.Join(store, upperName)); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// BasesFile returns the path of the file with the bases that the session recorded since the
// stack was made.
func (s Stack) BasesFile(store string) string {
	if s.Bases == "" {
		return filepath.Join(store, basesName)
	}
	return filepath.Join(store, s.Bases)
}

// Earlier returns the bases that the session had when the stack was made, as lines.
func (s Stack) Earlier(store string) (data []byte, err error) {
	var parts [][]byte
	for name := s.From; name != "" && len(parts) < 1000; {
		a, err := readAbout(store, name)
		if err != nil {
			return nil, err
		}
		part := make([]byte, a.Size)
		f, err := os.Open(filepath.Join(Dir(store, name), basesName))
		if err != nil {
			return nil, err
		}
		_, err = f.ReadAt(part, 0)
		f.Close()
		if err != nil && a.Size > 0 {
			return nil, err
		}
		parts, name = append(parts, part), a.From
	}
	for _, part := range slices.Backward(parts) {
		data = append(data, part...)
	}
	return data, nil
}

// FindContent returns the path of a kept content, which is in the store or in a layer.
func (s Stack) FindContent(store string, number int) string {
	name := strconv.Itoa(number)
	for _, layer := range s.all() { // first: the store may have a later content with the number
		if in := filepath.Join(Contents(store, layer), name); !isMissing(in) {
			return in
		}
	}
	return filepath.Join(store, contentsName, name)
}

// all returns the layers of the stack, and the one with its bases.
func (s Stack) all() []string {
	if s.From == "" || slices.Contains(s.Layers, s.From) {
		return s.Layers
	}
	return append(slices.Clone(s.Layers), s.From)
}

// Write makes a stack the one of a store. After a crash the store has the old stack or the
// new one.
func (s Stack) Write(store string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteAlone(filepath.Join(store, stackName), data, 0o600)
}

// Freeze makes the upperdir of a store the top layer of its stack, if it holds anything, and
// begins a new upperdir. Nobody may write to the upperdir, and the caller has locked the store.
// It returns the new stack.
func Freeze(store string) (Stack, error) {
	s, err := Read(store)
	if err != nil {
		return s, err
	}
	upper := filepath.Join(store, upperName)
	mode, holds, err := look(upper)
	if err != nil {
		return s, err
	}
	isBegun := len(s.Layers) > 0 && isMissing(Upper(store, s.Layers[0]))
	if holds && !isBegun {
		name := strings.ToLower(rand.Text())
		if err := s.make(store, name); err != nil {
			return s, err
		}
		s.Layers = slices.Insert(s.Layers, 0, name)
		// From here on the layer counts. Until it has its files they are in the upperdir.
		if err := s.Write(store); err != nil {
			return s, err
		}
	}
	if holds || isBegun && mode != 0 {
		if err := durable.Rename(upper, Upper(store, s.Layers[0])); err != nil {
			return s, err
		}
	}
	return s, s.Begin(store)
}

// look returns the mode of a directory, 0 if it does not exist, and whether it holds anything.
func look(dir string) (mode fs.FileMode, holds bool, err error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return info.Mode(), len(names) > 0, nil
}

func isMissing(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// Begin makes the upperdir of a store if it is missing, because golem was killed while it froze
// one. It gets the mode of the one below,
// because the top directory of the mount has the mode of the upperdir.
func (s Stack) Begin(store string) error {
	upper := filepath.Join(store, upperName)
	if len(s.Layers) == 0 || !isMissing(upper) {
		return nil
	}
	info, err := os.Lstat(Upper(store, s.Layers[0]))
	if err != nil {
		return err
	}
	temp := upper + ".new"
	if err := os.Mkdir(temp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(temp, info.Mode().Perm()); err != nil {
		return err
	}
	return durable.Rename(temp, upper)
}

// make makes a layer without files above the layers of a stack. It keeps the bases as they are
// now.
func (s Stack) make(store, name string) error {
	dir := Dir(store, name)
	if err := os.MkdirAll(filepath.Join(dir, contentsName), 0o700); err != nil {
		return err
	}
	a := about{Below: s.Layers, From: s.From}
	if err := linkBases(s.BasesFile(store), filepath.Join(dir, basesName), &a); err != nil {
		return err
	}
	if err := linkContents(store, s, filepath.Join(dir, contentsName)); err != nil {
		return err
	}
	return a.write(dir)
}

// Fold makes a layer that can take the place of all layers of a stack. fill writes the files to
// upper, the bases to bases and the contents of bases to contents. Fold returns the stack of
// the new layer, which is on the disk.
func Fold(store string, fill func(upper, bases, contents string) error) (Stack, error) {
	name := strings.ToLower(rand.Text())
	dir := Dir(store, name)
	for _, d := range []string{Contents(store, name), Upper(store, name)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return Stack{}, err
		}
	}
	bases := filepath.Join(dir, basesName)
	if err := fill(Upper(store, name), bases, Contents(store, name)); err != nil {
		return Stack{}, err
	}
	info, err := os.Lstat(bases)
	if err != nil {
		return Stack{}, err
	}
	if err := (about{Size: info.Size()}).write(dir); err != nil {
		return Stack{}, err
	}
	if err := settle(dir); err != nil {
		return Stack{}, err
	}
	return At(store, name)
}

// Prune removes the layers of a store that its stack does not need, and none of these layers.
func Prune(store string, keep []string) error {
	s, err := Read(store)
	if err != nil {
		return err
	}
	needed := make(map[string]bool)
	for queue := append(s.all(), keep...); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if name == "" || needed[name] {
			continue
		}
		needed[name] = true
		a, err := readAbout(store, name)
		if err != nil {
			return err // better keep all than remove one that is needed
		}
		queue = append(queue, append(a.Below, a.From)...)
	}
	entries, err := os.ReadDir(filepath.Join(store, layersName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !needed[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(store, layersName, e.Name())))
		}
	}
	return err
}

// settle waits until the names below a directory reach the disk before names that are made later.
// The journals of ext4 and XFS keep that order, so that nothing waits for files that a command
// has just written.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return err
	}
	if fs.Type == unix.EXT4_SUPER_MAGIC || fs.Type == unix.XFS_SUPER_MAGIC || fs.Type == unix.TMPFS_MAGIC {
		return nil
	}
	return unix.Syncfs(int(f.Fd()))
}

func (a about) write(dir string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return durable.WriteAlone(filepath.Join(dir, aboutName), data, 0o600)
}

// linkBases keeps the bases as they are now. Later ones are added at the end of the file, or
// make a new file.
func linkBases(from, to string, a *about) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		return err
	}
	a.Size = info.Size()
	return os.Link(from, to)
}

// linkContents keeps the contents of bases that no layer below has.
func linkContents(store string, s Stack, to string) error {
	entries, err := os.ReadDir(filepath.Join(store, contentsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		isKept := slices.ContainsFunc(s.all(), func(layer string) bool { return !isMissing(filepath.Join(Contents(store, layer), e.Name())) })
		if isKept {
			continue
		}
		if err := os.Link(filepath.Join(store, contentsName, e.Name()), filepath.Join(to, e.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func readAbout(store, name string) (a about, err error) {
	data, err := os.ReadFile(filepath.Join(Dir(store, name), aboutName))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil || !areNames(append(slices.Clone(a.Below), a.From)) {
		return a, fmt.Errorf("%s: not as it was written", aboutName)
	}
	return a, nil
}

// At returns a stack that shows what a session showed when a layer was frozen. "" stands for a
// session without changes.
func At(store, name string) (Stack, error) {
	s := Stack{Bases: basesName + "-" + strings.ToLower(rand.Text()[:8])}
	if name == "" {
		return s, nil
	}
	a, err := readAbout(store, name)
	if err != nil {
		return s, err
	}
	s.Layers, s.From = append([]string{name}, a.Below...), name
	_, err = s.Uppers(store)
	return s, err
}
