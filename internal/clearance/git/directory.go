package git

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// maxNames limits how many files of a commit are listed.
const maxNames = 1_000_000

// Names returns the files of a commit at a path or below it, all files for "". It reads
// no other directory. It returns a submodule only if the submodule is the path itself,
// because its files belong to another repository.
func (s *ObjectStore) Names(ctx context.Context, objects string, commit Hash, path string) ([]string, error) {
	if commit == "" {
		return nil, nil
	}
	if !commit.Valid() {
		return nil, refusal("list", "", sandbox.ErrInvalid, "there is no commit of that name")
	}
	args := []string{"ls-tree", "-r", "-z", "--full-tree", string(commit)}
	if path != "" {
		if why := BadName(path, Plain); why != "" {
			return nil, refusal("list", path, sandbox.ErrInvalid, why)
		}
		args = append(args, "--", path)
	}
	out, err := s.listNames(s.command(ctx, s.here(objects), args...), maxNames)
	if err != nil {
		return nil, s.explainMissing(ctx, objects, commit, err)
	}
	var names []string
	for part := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		head, name, ok := bytes.Cut(part, []byte{'\t'})
		if ok && (string(name) == path || !bytes.HasPrefix(head, []byte(Submodule))) {
			names = append(names, string(name))
		}
	}
	return names, nil
}

// ReadDir returns the names in a directory of a commit, the root for "". It returns none
// if there is no such directory.
func (r *Reader) ReadDir(commit Hash, path string) ([]string, error) {
	if !commit.Valid() || strings.Contains(path, "\n") { // git would read two requests
		return nil, nil
	}
	if _, err := fmt.Fprintf(r.in, "%s:%s\n", commit, path); err != nil {
		return nil, r.broken(err)
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return nil, r.broken(err)
	}
	words := strings.Fields(line)
	if len(words) < 2 || words[len(words)-1] == "missing" {
		return nil, nil
	}
	size, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if err != nil {
		return nil, r.broken(err)
	}
	content := make([]byte, size+1)
	if _, err := io.ReadFull(r.out, content); err != nil {
		return nil, r.broken(err)
	}
	if words[len(words)-2] != "tree" {
		return nil, nil
	}
	var names []string
	for rest := content[:size]; len(rest) > 0; { // mode, space, name, zero byte, hash
		head, tail, ok := bytes.Cut(rest, []byte{0})
		_, name, named := bytes.Cut(head, []byte{' '})
		if !ok || !named || len(tail) < sha1.Size {
			return nil, r.broken(errors.New("a tree that is none"))
		}
		names = append(names, string(name))
		rest = tail[sha1.Size:]
	}
	return names, nil
}
