package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Branch returns the commit of a branch, or "" if the branch does not exist.
func (t *Target) Branch(ctx context.Context, branch string) (Hash, error) {
	ref, err := branchRef("branch", branch)
	if err != nil {
		return "", err
	}
	cmd := t.store.command(ctx, place{dir: t.view}, "for-each-ref", "--format=%(refname) %(objecttype) %(objectname) %(symref)", "--", ref)
	out, err := t.store.run(cmd)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(out) {
		words := strings.Fields(string(line))
		switch {
		case len(words) == 0 || words[0] != ref:
		case len(words) == 4:
			return "", refusal("branch", branch, ErrUnsupported, "it is another name for "+sandbox.Shown(words[3])+"; name that one")
		case len(words) != 3 || words[1] != "commit":
			return "", refusal("branch", branch, ErrUnsupported, "it is no commit")
		default:
			return Hash(words[2]), nil
		}
	}
	if _, err := os.Lstat(filepath.Join(t.dir, ref)); err == nil {
		if info, err := os.Stat(filepath.Join(t.dir, ref)); err != nil || !info.IsDir() {
			return "", refusal("branch", branch, ErrUnsupported, "it names no commit that is there; run git fsck in the target")
		}
	}
	return "", nil
}

// Branches returns the branches and their commits.
func (t *Target) Branches(ctx context.Context) (map[string]Hash, error) {
	cmd := t.store.command(ctx, place{dir: t.view}, "for-each-ref", "--format=%(objectname) %(refname)", "--", "refs/heads/")
	out, err := t.store.run(cmd)
	if err != nil {
		return nil, err
	}
	all := map[string]Hash{}
	for line := range strings.Lines(string(out)) {
		hash, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[strings.TrimPrefix(ref, "refs/heads/")] = Hash(hash)
	}
	return all, nil
}

// Head returns the branch that is checked out, or "" if no branch is.
func (t *Target) Head() (string, error) {
	data, err := os.ReadFile(filepath.Join(t.own, "HEAD"))
	if err != nil {
		return "", refusal("target", "", sandbox.ErrNotFound, "the target's HEAD cannot be read")
	}
	return branchFrom(data, "ref: "), nil
}

// branchFrom returns the branch that the content of a git file names after a prefix, or
// "" if it names none.
func branchFrom(data []byte, prefix string) string {
	branch, ok := strings.CutPrefix(strings.TrimSpace(string(data)), prefix+"refs/heads/")
	if !ok {
		return ""
	}
	return branch
}

// Reached reports whether a branch is at a commit or at a descendant of it. It first
// waits for a lock that a killed Move may have left behind.
func (t *Target) Reached(ctx context.Context, branch string, commit Hash) (bool, error) {
	if _, err := branchRef("push", branch); err != nil {
		return false, err
	}
	if err := t.waitUnlocked(ctx, branch); err != nil {
		return false, err
	}
	now, err := t.Branch(ctx, branch)
	if err != nil || now == "" || now == commit {
		return now != "" && now == commit, err
	}
	return t.store.isAncestor(ctx, t.Objects(), commit, now)
}

// isAncestor reports whether the commit first is an ancestor of the commit then.
func (s *ObjectStore) isAncestor(ctx context.Context, objects string, first, then Hash) (bool, error) {
	_, err := s.run(s.command(ctx, s.here(objects), "merge-base", "--is-ancestor", "--end-of-options", string(first), string(then)))
	var failure *failure
	if errors.As(err, &failure) && failure.Exit == 1 {
		return false, nil
	}
	return err == nil, err
}

// waitUnlocked waits up to two seconds until the lock file of a branch is gone.
func (t *Target) waitUnlocked(ctx context.Context, branch string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Lstat(filepath.Join(t.dir, "refs/heads", branch+".lock")); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return lockedError(branch)
		case <-tick.C:
		}
	}
}

// Move sets a branch to a commit that the target has, if the branch is still at old. An
// empty old means that the branch must not exist. It is a conflict if the branch is
// elsewhere, or if a work tree has it checked out, because the files there would not
// change.
func (t *Target) Move(ctx context.Context, branch string, old, to Hash) error {
	if err := t.Free(branch); err != nil {
		return err
	}
	if err := t.runHooksBefore(ctx, branch, old, to); err != nil {
		return err
	}
	return t.move(ctx, branch, old, to)
}

// move is Move without the check of work trees and without hooks.
func (t *Target) move(ctx context.Context, branch string, old, to Hash) error {
	ref, err := branchRef("push", branch)
	if err != nil {
		return err
	}
	if !to.Valid() || old != "" && !old.Valid() {
		return refusal("push", branch, sandbox.ErrInvalid, "there is no commit of that name")
	}
	if err := t.refuseSymlinks(ref); err != nil {
		return err
	}
	was := string(old)
	if old == "" {
		was = nothing
	}
	// A target without a reflog, such as a bare repository, gets none.
	_, logs := os.Lstat(filepath.Join(t.dir, "logs"))
	logged := fmt.Sprintf("core.logAllRefUpdates=%v", logs == nil)
	cmd := t.store.command(ctx, place{dir: t.view}, "-c", logged, "update-ref", "-m", "golem: cleared", "--no-deref", "--stdin", "-z")
	cmd.Env = append(cmd.Env, "GIT_COMMITTER_NAME=golem", "GIT_COMMITTER_EMAIL=golem@localhost")
	if err = t.store.commit(cmd, "update "+ref+"\x00"+string(to)+"\x00"+was+"\x00"); err == nil {
		return nil
	}
	if now, look := t.Branch(ctx, branch); look == nil && now != old {
		if now == to {
			return nil
		}
		return refusal("push", branch, sandbox.ErrConflict, "the branch has moved since this was staged; pull, and stage again")
	}
	if _, look := os.Lstat(filepath.Join(t.dir, ref+".lock")); look == nil {
		return lockedError(branch)
	}
	return err
}

// moveBack undoes a Move. It deletes the branch if to is empty.
func (t *Target) moveBack(ctx context.Context, branch string, from, to Hash) error {
	if to != "" {
		return t.move(ctx, branch, from, to)
	}
	ref, err := branchRef("push", branch)
	if err != nil {
		return err
	}
	cmd := t.store.command(ctx, place{dir: t.view}, "update-ref", "--no-deref", "--stdin", "-z")
	return t.store.commit(cmd, "delete "+ref+"\x00"+string(from)+"\x00")
}

// refuseSymlinks refuses a reference if its file or a directory above it is a symlink.
func (t *Target) refuseSymlinks(ref string) error {
	for dir := ref; dir != ""; dir = parent(dir) {
		if info, err := os.Lstat(filepath.Join(t.dir, dir)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return refusal("push", "", ErrUnsupported, sandbox.Shown(dir)+" in the target's repository is a symlink; find out who made it")
		}
	}
	return nil
}

func lockedError(branch string) error {
	return refusal("push", branch, sandbox.ErrConflict, "a git holds the lock of the branch; let it end, or remove the lock it left, and try again")
}

// commit runs a git that changes references in two steps: git takes the locks, and golem
// then sends "commit". If golem dies before that, git changes nothing. So if there is no
// lock, no change is still to come.
func (s *ObjectStore) commit(cmd *exec.Cmd, change string) error {
	var stderr tail
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	io.WriteString(in, "start\x00"+change+"prepare\x00")
	done := errors.New("it did not say that it was done")
	for answers := bufio.NewScanner(out); answers.Scan(); {
		switch answers.Text() {
		case "prepare: ok":
			io.WriteString(in, "commit\x00")
			in.Close()
		case "commit: ok":
			done = nil
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil || done != nil {
		return s.failed(cmd, errors.Join(err, done), stderr)
	}
	return nil
}
