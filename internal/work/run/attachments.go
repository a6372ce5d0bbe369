package run

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Attachments finds and reads the files that the user attaches for the entry worker. A
// relative name starts at the worker's directory if the file is there, or else at the
// current directory. In the program and its mounts no symlink leads out of them: workers
// may have made it.
type Attachments struct {
	Root    string // the program's directory
	Project *project.Project
	Worker  *worker.Worker     // nil for none
	Policy  policy.Attachments // what the worker accepts
}

// Read reads files within the policy of the worker.
func (a Attachments) Read(names []string) ([]model.File, error) {
	var list []model.File
	var total int64
	for i, name := range names {
		data, err := a.read(a.find(name), MaxFile)
		if err != nil {
			return nil, &sandbox.Error{Op: "attach", Path: name, Code: attachCode(err), Hint: attachHint(err, "name a file that is there")}
		}
		total += int64(len(data))
		if a.Worker != nil {
			if why := a.Policy.RefusalReason(name, i+1, total); why != "" {
				return nil, &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrLimit, Hint: why + " (attachment_policy of " + a.Worker.Name + ")"}
			}
		}
		f, err := FileOf(name, data)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// find returns the file that a name means.
func (a Attachments) find(name string) string {
	if a.Worker != nil && !filepath.IsAbs(name) {
		beside := filepath.Join(a.Root, filepath.Dir(a.Worker.File), name)
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return name
}

// UntrustedMount returns the first untrusted mount that holds one of the attached files,
// "" for none.
func (a Attachments) UntrustedMount(names []string) string {
	for _, name := range names {
		file, err := filepath.Abs(a.find(name))
		if err != nil {
			continue // read fails for it too
		}
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
		if from := a.Project.Untrusted(file); from != "" {
			return from
		}
	}
	return ""
}

// errTooLarge and errNotRegular say why a file cannot be attached.
var (
	errTooLarge   = errors.New("it is too large to be attached")
	errNotRegular = errors.New("it is no regular file")
)

// read reads a regular file of at most most bytes.
func (a Attachments) read(name string, most int64) ([]byte, error) {
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

// containingDir returns the directory that symlinks of a file may not leave, and the
// file's name in it. It is the directory of the program or of a mount, if the file is in
// one. Otherwise it is the directory that contains the file after symlinks are resolved.
func (a Attachments) containingDir(name string) (folder, rest string, err error) {
	if name, err = filepath.Abs(name); err != nil {
		return "", "", err
	}
	folders := []string{a.Root}
	for _, m := range a.Project.Mounts {
		folders = append(folders, m.RealHostDir())
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

func attachCode(err error) sandbox.Code {
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

// hintOr returns the text of an error, or the advice if a file does not exist.
func attachHint(err error, advice string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return advice
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return err.Error()
}
