package program

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/inventory"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/trust"
	"github.com/golem-forge/golem/internal/worker"
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
	store   trust.Store
}

// maxInstruction is the size of the largest file of instructions.
const maxInstruction = 64 << 10

// Instructions returns the files with instructions that the workers of a program read: those
// of directories above first.
func Instructions(p *Program) ([]Instruction, error) {
	names := InstructionNames(p)
	if len(names) == 0 {
		return nil, nil
	}
	var list []Instruction
	for _, dir := range instructionDirs(p) {
		for _, name := range names {
			one, err := readInstruction(p, filepath.Join(dir, name))
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

// instructionDirs returns the directories whose instructions hold for a program: its own, and
// those above it in a repository, the highest first.
func instructionDirs(p *Program) []string {
	dirs := []string{p.root}
	if top := git.Above(p.root); top != "" {
		for dir := p.root; dir != top; {
			dir = filepath.Dir(dir)
			dirs = append([]string{dir}, dirs...)
		}
	}
	return dirs
}

// InstructionNames returns the names of the files with instructions that workers of a
// program read.
func InstructionNames(p *Program) []string {
	var names []string
	for _, w := range p.Workers {
		names = append(names, w.InstructionFiles...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FindInstruction returns the file of instructions at a path of the user.
func FindInstruction(p *Program, file string) (Instruction, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return Instruction{}, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return Instruction{}, err
	}
	one, err := readInstruction(p, filepath.Join(dir, filepath.Base(file)))
	if err == nil && (one.Name == "" || one.Same) {
		err = &sandbox.Error{Op: "trust", Path: filepath.Base(file), Code: sandbox.ErrNotFound, Hint: "there is no such file, or it is a symlink to another file of instructions"}
	}
	return one, err
}

// readInstruction reads a file of instructions. Its name is "" if there is none.
func readInstruction(p *Program, file string) (Instruction, error) {
	dir, base := filepath.Split(file)
	dir = filepath.Clean(dir)
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return Instruction{}, nil
	}
	rel, _ := filepath.Rel(p.root, file)
	one := Instruction{Name: rel, Path: nameInMounts(p, file)}
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
		one.Problem = "it is larger than " + tool.FormatSize(maxInstruction)
		return one, nil
	case !utf8.Valid(data) || strings.IndexByte(string(data), 0) >= 0:
		one.Problem = "it is no text"
		return one, nil
	}
	one.Text = string(data)
	one.content = trust.NewContent(base, data, nil, nil)
	one.store = trust.Store{State: filepath.Join(p.Storage.Base, inventory.StateName(dir)+inventory.BareSuffix), Root: dir, Accepted: p.options.Trust, UnseenOff: unseenTrustOff(p), File: "trust-" + base + ".json", Now: p.options.Now}
	one.Trusted, err = one.store.IsTrusted(one.content)
	return one, err
}

// nameInMounts returns what workers see a file of the host as, "" if no mount shows it.
func nameInMounts(p *Program, file string) (name string) {
	longest := -1
	for _, m := range p.Project.Mounts {
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
	changes := trustChanges(list)
	if len(changes) == 0 {
		changes = []tool.Change{tool.DescribeChange(i.Name, sandbox.Version{}, nil, []byte(i.Text))}
	}
	return tool.NewCommandRequest("trust", "let workers follow "+i.Name+" as it is now", nil, nil, changes, map[string]string{"content": i.content.Hash, "file": i.Name})
}

// Trust records that the user trusts the file as it is in i.
func (i Instruction) Trust() error { return i.store.Add(i.content) }

// withInstructions returns the prompt of a worker with the trusted instructions that it
// reads.
func withInstructions(w *worker.Worker, list []Instruction) string {
	prompt := w.Prompt
	for _, one := range list {
		if one.Trusted && !one.Same && slices.Contains(w.InstructionFiles, path.Base(filepath.ToSlash(one.Name))) {
			prompt = strings.TrimRight(prompt, "\n") + "\n\nInstructions of the user for this project, from " + filepath.ToSlash(one.Name) + ":\n\n" + strings.TrimSpace(one.Text) + "\n"
		}
	}
	return prompt
}
