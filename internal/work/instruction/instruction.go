// Package instruction reads the files with instructions for workers, such as AGENTS.md, and
// knows which of them the user trusts.
package instruction

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// An Instruction is a file of a directory with instructions for workers, such as AGENTS.md.
// Workers follow it only if the user trusts its content. It is the user's own file, never
// one in the overlay of a session.
type Instruction struct {
	Name    string // its path relative to the program's directory, such as ../AGENTS.md
	Path    string // what a worker sees it as, "" if it is not in a mount
	Text    string
	Trusted bool
	Problem string // why it cannot be followed; "" for none
	Same    bool   // another file of the list has the same text, or it is a symlink to one

	content trust.Content
	store   trust.Decisions
}

// maxInstruction is the size of the largest file of instructions.
const maxInstruction = 64 << 10

// A Finder finds the files with instructions for the workers of a program.
type Finder struct {
	Project *project.Project
	Workers []*worker.Worker
	Root    string          // the program's directory
	Base    string          // the directory with the state of all programs
	Trust   trust.Decisions // that of the program
}

// List returns the files with instructions that the workers of the program read: those of
// directories above first.
func (f Finder) List() ([]Instruction, error) {
	names := f.Names()
	if len(names) == 0 {
		return nil, nil
	}
	var list []Instruction
	for _, dir := range f.Dirs() {
		for _, name := range names {
			one, err := f.read(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			if one.Name == "" {
				continue
			}
			at := slices.IndexFunc(list, func(other Instruction) bool { return other.Problem == "" && !other.Same && other.Text == one.Text })
			if one.Problem == "" && at >= 0 {
				one.Same, one.Trusted = true, list[at].Trusted
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// Dirs returns the directories whose instructions hold for the program: its own, and those
// above it in a repository, the highest first.
func (f Finder) Dirs() []string {
	dirs := []string{f.Root}
	if top := git.Above(f.Root); top != "" {
		for dir := f.Root; dir != top; {
			dir = filepath.Dir(dir)
			dirs = append([]string{dir}, dirs...)
		}
	}
	return dirs
}

// Names returns the names of the files with instructions that workers of the program read.
func (f Finder) Names() []string {
	var names []string
	for _, w := range f.Workers {
		names = append(names, w.InstructionFiles...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Find returns the file of instructions at a path of the user.
func (f Finder) Find(file string) (Instruction, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return Instruction{}, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return Instruction{}, err
	}
	one, err := f.read(filepath.Join(dir, filepath.Base(file)))
	if err == nil && (one.Name == "" || one.Same) {
		err = &sandbox.Error{Op: "trust", Path: filepath.Base(file), Code: sandbox.ErrNotFound, Hint: "there is no such file, or it is a symlink to another file of instructions"}
	}
	return one, err
}

// read reads a file of instructions. Its name is "" if there is none.
func (f Finder) read(file string) (Instruction, error) {
	dir, base := filepath.Split(file)
	dir = filepath.Clean(dir)
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return Instruction{}, nil
	}
	rel, _ := filepath.Rel(f.Root, file)
	one := Instruction{Name: rel, Path: f.nameInMounts(file)}
	if target, wrong := os.Readlink(file); wrong == nil && !strings.ContainsAny(target, "/\\") {
		one.Same = true
		return one, nil
	}
	data, err := project.ReadFile(dir, base, maxInstruction)
	switch {
	case err != nil:
		one.Problem = "golem cannot read it as a regular file"
		return one, nil
	case len(data) > maxInstruction:
		one.Problem = "it is larger than " + visible.Amount(maxInstruction)
		return one, nil
	case !utf8.Valid(data) || strings.IndexByte(string(data), 0) >= 0:
		one.Problem = "it is no text"
		return one, nil
	}
	one.Text = string(data)
	one.content = trust.NewContent(base, data, nil, nil, nil)
	one.store = f.Trust
	one.store.State, one.store.Root = filepath.Join(f.Base, inventory.StateName(dir)+inventory.BareSuffix), dir
	one.store.File = "trust-" + base + ".json"
	one.Trusted, err = one.store.IsTrusted(one.content)
	return one, err
}

// nameInMounts returns what workers see a file of the host as, "" if no mount shows it.
func (f Finder) nameInMounts(file string) (name string) {
	longest := -1
	for _, m := range f.Project.Mounts {
		dir := m.RealHostDir()
		if below, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(below) && len(dir) > longest {
			name, longest = path.Join(m.Target, filepath.ToSlash(below)), len(dir)
		}
	}
	return name
}

// Followed returns the instructions of a list that the user trusts, for a run that asks
// nobody. It also returns the files that taint a worker that reads them, and a note for each
// file that is not followed.
func Followed(list []Instruction) (follow []Instruction, untrusted, notes []string) {
	all := true // the user trusts every text
	for _, one := range list {
		switch {
		case one.Same:
			continue
		case one.Trusted:
			follow = append(follow, one)
			continue
		case one.Problem != "":
			notes = append(notes, one.Name+" is not followed: "+one.Problem)
		default:
			notes = append(notes, one.Name+" is not trusted, its text is not followed; golem trust "+filepath.ToSlash(one.Name))
		}
		all = false
	}
	for _, one := range list {
		if one.Path != "" && (one.Same && !all || !one.Same && !one.Trusted) {
			untrusted = append(untrusted, one.Path)
		}
	}
	return follow, untrusted, notes
}

// Hash returns the hash of the content, for --trust.
func (i Instruction) Hash() string { return i.content.Hash }

// TrustQuestion returns the request to trust the file: its text, or what has changed since
// the user last trusted it.
func (i Instruction) TrustQuestion() (tool.Request, error) {
	list, err := i.store.Differences(i.content)
	if err != nil {
		return tool.Request{}, err
	}
	changes := Changes(list)
	if len(changes) == 0 {
		changes = []tool.Change{tool.DescribeChange(i.Name, sandbox.Version{}, nil, []byte(i.Text))}
	}
	return tool.NewCommandRequest("trust", "let workers follow "+i.Name+" as it is now", nil, nil, changes, map[string]string{"content": i.content.Hash, "file": i.Name})
}

// Trust records that the user trusts the file as it is in i.
func (i Instruction) Trust() error { return i.store.Add(i.content) }

// Prompt returns the prompt of a worker with the trusted instructions that it reads.
func Prompt(w *worker.Worker, list []Instruction) string {
	prompt := w.Prompt
	for _, one := range list {
		if one.Trusted && !one.Same && slices.Contains(w.InstructionFiles, path.Base(filepath.ToSlash(one.Name))) {
			prompt = strings.TrimRight(prompt, "\n") + "\n\nInstructions of the user for this project, from " + filepath.ToSlash(one.Name) + ":\n\n" + strings.TrimSpace(one.Text) + "\n"
		}
	}
	return prompt
}

// Changes returns what has changed since the user last trusted a content.
func Changes(list []trust.Difference) []tool.Change {
	var changes []tool.Change
	for _, d := range list {
		op := tool.Update
		switch {
		case !d.Had:
			op = tool.Create
		case !d.Has:
			op = tool.Delete
		}
		changes = append(changes, tool.Change{Path: d.Name, Op: op, Diff: d.Diff})
	}
	return changes
}
