package program

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/sandbox"
)

// Attach reads files of the user's for the entry worker, as its policy lets them
// through. A relative name starts at the worker's folder, or else at the current one.
// Links in folders that workers can write in lead nowhere else: they are not the user's.
func (p *Program) Attach(names []string) ([]model.File, error) {
	if len(names) == 0 {
		return nil, nil
	}
	step, err := p.reach("")
	if err != nil {
		return nil, err
	}
	files := attachments{p.root, p.Project}
	var list []model.File
	var total int64
	for i, name := range names {
		data, err := files.read(files.find(step, name), run.MaxFile)
		if err != nil {
			return nil, &sandbox.Error{Op: "attach", Path: name, Code: codeOf(err), Hint: hintOr(err, "name a file that is there")}
		}
		total += int64(len(data))
		if step != nil {
			if why := step.Grant.Attachments.RefusalReason(name, i+1, total); why != "" {
				return nil, &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrLimit, Hint: why + " (attachment_policy of " + step.Worker.Name + ")"}
			}
		}
		f, err := run.FileOf(name, data)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// attachments finds and reads the files that the user attaches.
type attachments struct {
	root    string // the program's directory
	project *project.Project
}

// attachedFile returns the file that is attached by a name.
func (a attachments) find(step *Step, name string) string {
	if step != nil && !filepath.IsAbs(name) {
		if beside := filepath.Join(a.root, filepath.Dir(step.Worker.File), name); exists(beside) {
			return beside
		}
	}
	return name
}

// untrustedMount returns the mount that is not trusted and that one of some files that the
// entry worker is given is in, "" for none.
func (a attachments) untrustedMount(step *Step, names []string) string {
	for _, name := range names {
		file, err := filepath.Abs(a.find(step, name))
		if err != nil {
			continue // nor can it be read
		}
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
		if from := a.project.Untrusted(file); from != "" {
			return from
		}
	}
	return ""
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// errTooLarge and errNotRegular are why a file is not attached.
var (
	errTooLarge   = errors.New("it is too large to be attached")
	errNotRegular = errors.New("it is no regular file")
)

// readAttached reads a regular file that is not larger than it may be.
func (a attachments) read(name string, most int64) ([]byte, error) {
	folder, rest, err := a.containingDir(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(rest)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > most:
		return nil, errTooLarge
	}
	f, err := root.Open(rest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = errTooLarge
	}
	return data, err
}

// containingDir returns the folder that a file does not leave, and its name in it: the program's
// or a mount's where it is in one, and else the one that it is really in.
func (a attachments) containingDir(name string) (folder, rest string, err error) {
	if name, err = filepath.Abs(name); err != nil {
		return "", "", err
	}
	folders := []string{a.root}
	for _, m := range a.project.Mounts {
		folders = append(folders, string(session.RealSource(m)))
	}
	for _, folder := range folders {
		if rest, err := filepath.Rel(folder, name); err == nil && filepath.IsLocal(rest) {
			return folder, rest, nil
		}
	}
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return "", "", err
	}
	return filepath.Dir(name), filepath.Base(name), nil
}

func codeOf(err error) sandbox.Code {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sandbox.ErrNotFound
	case errors.Is(err, errTooLarge):
		return sandbox.ErrTooLarge
	case errors.Is(err, errNotRegular):
		return sandbox.ErrNotRegular
	}
	return sandbox.ErrInvalid
}

// hintOr returns what an error says, and advice for one that only says that something
// is not there.
func hintOr(err error, advice string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return advice
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return err.Error()
}
