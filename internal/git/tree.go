package git

import (
	"context"
	"io"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Names returns the files that a commit has at a path or below it, "" for all. It
// looks at no other folder.
func (s *Store) Names(ctx context.Context, objects string, commit Hash, path string) ([]string, error) {
	if commit == "" {
		return nil, nil
	}
	if !commit.Valid() {
		return nil, refusal("list", "", sandbox.ErrInvalid, "there is no commit of that name")
	}
	args := []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", string(commit)}
	if path != "" {
		if why := BadName(path, Plain); why != "" {
			return nil, refusal("list", path, sandbox.ErrInvalid, why)
		}
		args = append(args, "--", path)
	}
	out, err := s.run(s.command(ctx, s.here(objects), args...))
	if err != nil {
		return nil, s.pruned(ctx, objects, commit, err)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// BlobHash returns the name that git gives to a content.
func BlobHash(size int64, from io.Reader) Hash { return blobHash(size, from) }
