//go:build unix

package project

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// PolicyFile is the administrator's policy. Its name is part of golem, so that no
// variable and no flag can choose another file.
const PolicyFile = "/etc/golem/policy.yaml"

// ReadPolicy reads the administrator's policy. Without one it returns nil. It is an error
// if somebody other than root could have written the policy: the file, its directory, or
// any directory or symlink on the way to it. The error is a strictyaml.Problems.
func ReadPolicy() ([]byte, error) {
	if err := checkMisplaced(PolicyFile); err != nil {
		return nil, err
	}
	if err := checkMisnamed(PolicyFile); err != nil {
		return nil, err
	}
	real, err := walkTrusted(PolicyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, policyProblem(real, "cannot be read", "ask an administrator to run sudo chmod go+rX "+filepath.Dir(PolicyFile)+" "+PolicyFile)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, strictyaml.MaxFile+1))
	switch {
	case err != nil:
		return nil, policyProblem(real, "cannot be read", "ask an administrator to repair or remove it")
	case len(data) > strictyaml.MaxFile:
		return nil, policyProblem(real, "is too large", "a policy has at most 1 MiB")
	case data == nil:
		return []byte{}, nil
	}
	return data, nil
}

// walkTrusted returns the regular file that a name means. It follows symlinks itself, and
// refuses every directory, symlink and file that somebody other than root could change.
func walkTrusted(name string) (string, error) {
	const most = 20
	at, rest, links := "/", strings.Split(strings.Trim(name, "/"), "/"), 0
	if err := checkTrusted(at, false); err != nil {
		return "", err
	}
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && links > 0 {
			return "", policyProblem(PolicyFile, "is a symlink whose target does not exist", "ask an administrator to repair or remove it")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err != nil {
			return "", policyProblem(next, "cannot be read", "ask an administrator to run sudo chmod go+rX "+filepath.Dir(next))
		}
		if err := checkTrusted(next, links > 0); err != nil {
			return "", err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(next)
			if links++; err != nil || links > most {
				return "", policyProblem(next, "is a symlink whose target does not exist", "ask an administrator to repair or remove it")
			}
			if filepath.IsAbs(to) {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
		case info.IsDir() && len(rest) > 0, info.Mode().IsRegular() && len(rest) == 0:
			at = next
		default:
			return "", policyProblem(next, "is not a file", "ask an administrator to replace or remove it")
		}
	}
	return at, nil
}

// checkTrusted returns an error if somebody other than root could change a file, symlink
// or directory. linked means that a symlink leads there: then the file belongs in place of
// the symlink, because the directory may be one that all users need to change.
func checkTrusted(name string, linked bool) error {
	info, err := os.Lstat(name)
	if err != nil {
		return policyProblem(name, "cannot be read", "ask an administrator to repair or remove it")
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	advise := func(what, command string) error {
		if linked {
			return policyProblem(name, what, PolicyFile+" leads there by a symlink, and golem obeys only a policy that nobody but root can change: replace the symlink with a file of root")
		}
		return policyProblem(name, what, command)
	}
	switch {
	case !ok || owner.Uid != 0:
		uid := "somebody"
		if ok {
			uid = "the user " + strconv.Itoa(int(owner.Uid))
		}
		return advise("belongs to "+uid, "golem obeys only a policy that belongs to root: sudo chown -h root "+name)
	case info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0:
		return advise("users other than root can change it", "golem obeys only a policy that nobody else can change: sudo chmod go-w "+name)
	}
	return nil
}

func policyProblem(name, what, hint string) error {
	return strictyaml.Problems{{Place: strictyaml.Place{Source: name}, What: what, Hint: hint}}
}
