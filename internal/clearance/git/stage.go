package git

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Mode is the kind of a file in git.
type Mode string

// The modes. A stage cannot hold a Submodule.
const (
	Plain      Mode = "100644"
	Executable Mode = "100755"
	Link       Mode = "120000"
	Submodule  Mode = "160000"
	None       Mode = "000000" // no file
)

// goneFirst compares two modes: deleted files come first.
func goneFirst(a, b Mode) int {
	switch {
	case (a == None) == (b == None):
		return 0
	case a == None:
		return -1
	}
	return 1
}

// A File is a file to stage. Mode None deletes it.
type File struct {
	Path string // relative to the root of the repository
	Mode Mode
	Size int64
	// Open returns the content, which has Size bytes. For a symlink it is the target. It
	// is called at most once.
	Open func() (io.ReadCloser, error)
}

// A Person is the author or committer of a commit.
type Person struct{ Name, Email string }

// A Commit is a commit to stage.
type Commit struct {
	Base      Hash // "" for a branch that does not exist yet
	Message   string
	Trailer   string // a line for the end of the message, "" for none
	Author    Person
	Committer Person
	Time      time.Time
	Files     []File
}

// Stage writes the objects of a commit and returns its hash. It reads the base and its
// trees from a directory of the target's objects. When Stage returns without an error,
// the commit is on the disk. If Stage fails or is killed, it leaves only files that Tidy
// removes.
func (s *ObjectStore) Stage(ctx context.Context, objects string, c Commit) (Hash, error) {
	files, err := c.check()
	if err != nil {
		return "", err
	}
	// Git does not see what others staged, so this stage cannot depend on it.
	scratch, err := os.MkdirTemp(s.dir, "new-")
	if err != nil {
		return "", storeError(err)
	}
	defer os.RemoveAll(scratch)
	cmd := s.command(ctx, s.here(objects, filepath.Join(s.pulled(), "objects")), "fast-import", "--quiet", "--done", "--date-format=raw", "--depth=0")
	cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+scratch)
	var out, stderr tail
	cmd.Stdout, cmd.Stderr = &out, &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	wrong := c.write(in, files)
	in.Close()
	if wrong.file != nil {
		cmd.Process.Kill() // otherwise git would commit the files so far
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case wrong.file != nil:
		return "", wrong.file
	case err != nil:
		return "", s.explainMissing(ctx, objects, c.Base, s.failed(cmd, err, stderr))
	case wrong.pipe != nil:
		return "", wrong.pipe
	}
	hash := Hash(strings.TrimSpace(string(out.text)))
	if !hash.Valid() {
		return "", s.failed(cmd, errors.New("it named no commit"), stderr)
	}
	if err := s.keepPack(scratch, hash); err == nil || !s.hasCommit(ctx, objects, hash) {
		return hash, err
	}
	return hash, nil // git makes no pack of a commit that the target has
}

// hasCommit reports whether a directory of objects has a commit.
func (s *ObjectStore) hasCommit(ctx context.Context, objects string, commit Hash) bool {
	r, err := s.Reader(ctx, objects)
	if err != nil {
		return false
	}
	defer r.Close()
	return r.has(commit)
}

// check validates what git would not check, and returns the files in the order in which
// they are written. Deleted files come first, because a new file may have the name of a
// directory that disappears with them.
func (c *Commit) check() ([]File, error) {
	if c.Base != "" && !c.Base.Valid() {
		return nil, refusal("stage", "", sandbox.ErrInvalid, "the base is no commit")
	}
	if strings.TrimSpace(c.Message) == "" || strings.Contains(c.Message, "\x00") {
		return nil, refusal("stage", "", sandbox.ErrInvalid, "say in a message what is staged, without zero bytes")
	}
	for _, p := range []Person{c.Author, c.Committer} {
		if !p.isValid() {
			return nil, refusal("stage", "", sandbox.ErrInvalid, "an author has a name and an address, without < and > and in one line")
		}
	}
	if len(c.Files) == 0 {
		return nil, refusal("stage", "", sandbox.ErrInvalid, "name the files to stage")
	}
	files := slices.Clone(c.Files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Or(goneFirst(a.Mode, b.Mode), strings.Compare(a.Path, b.Path)) })
	stays := make(map[string]bool, len(files)) // the files; false for deleted ones
	for _, f := range files {
		if why := BadName(f.Path, f.Mode); why != "" {
			return nil, refusal("stage", f.Path, sandbox.ErrInvalid, why+"; stage files by their path in the repository")
		}
		if !slices.Contains([]Mode{Plain, Executable, Link, None}, f.Mode) {
			return nil, refusal("stage", f.Path, sandbox.ErrInvalid, "only files and symlinks can be staged")
		}
		if _, twice := stays[f.Path]; twice {
			return nil, refusal("stage", f.Path, sandbox.ErrInvalid, "it is named twice; name it once")
		}
		stays[f.Path] = f.Mode != None
	}
	for _, f := range files {
		for dir := parent(f.Path); f.Mode != None && dir != ""; dir = parent(dir) {
			if stays[dir] {
				return nil, refusal("stage", f.Path, sandbox.ErrInvalid, sandbox.Shown(dir)+" is staged as a file; stage one of the two")
			}
		}
	}
	return files, nil
}

// parent returns the directory of a path, "" for the root.
func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	return path[:max(0, i)]
}

// A streamError is why a stream stopped: a file that could not be read, or git closed the
// pipe.
type streamError struct{ file, pipe error }

// write writes the stream of a commit. It deletes the branch that fast-import needs in
// the same stream. The caller keeps the hash of the commit.
func (c *Commit) write(to io.Writer, files []File) streamError {
	w := bufio.NewWriterSize(to, 64<<10)
	branch := "refs/staged/" + rand.Text()
	stamp := fmt.Sprintf("%d +0000", c.Time.Unix())
	fmt.Fprintf(w, "commit %s\nmark :1\n", branch)
	fmt.Fprintf(w, "author %s <%s> %s\ncommitter %s <%s> %s\n", c.Author.Name, c.Author.Email, stamp, c.Committer.Name, c.Committer.Email, stamp)
	message := withTrailer(c.Message, c.Trailer)
	fmt.Fprintf(w, "data %d\n%s\n", len(message), message)
	if c.Base != "" {
		fmt.Fprintf(w, "from %s\n", c.Base)
	}
	for _, f := range files {
		if f.Mode == None {
			fmt.Fprintf(w, "D %s\n", quote(f.Path))
			continue
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n", f.Mode, quote(f.Path), f.Size)
		if err := f.copy(w); err != nil {
			return streamError{file: err}
		}
		w.WriteByte('\n')
	}
	fmt.Fprintf(w, "\nget-mark :1\nreset %s\nfrom %s\n\ndone\n", branch, nothing)
	return streamError{pipe: w.Flush()}
}

// copy writes the content of a file, which must have exactly Size bytes. It ignores
// errors of the pipe to git. The final Flush reports them.
func (f File) copy(w *bufio.Writer) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	n, err := io.Copy(onlyWriter{w}, io.LimitReader(content, f.Size))
	if err == nil && n == f.Size {
		var more [1]byte
		if k, _ := io.ReadFull(content, more[:]); k > 0 {
			n++
		}
	}
	var closed *pipeError
	switch {
	case errors.As(err, &closed):
		return nil
	case err != nil:
		return err
	case n != f.Size:
		return refusal("stage", f.Path, sandbox.ErrConflict, "it changed while it was read; stage again")
	}
	return nil
}

// An onlyWriter marks the errors of a writer, so that io.Copy's error shows who failed.
type onlyWriter struct{ w io.Writer }

type pipeError struct{ error }

func (o onlyWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = &pipeError{err}
	}
	return n, err
}

// explainMissing returns goneError if a git failed because the base no longer exists, and
// otherwise the error that it was given.
func (s *ObjectStore) explainMissing(ctx context.Context, objects string, base Hash, failed error) error {
	if base == "" {
		return failed
	}
	r, err := s.Reader(ctx, objects)
	if err != nil {
		return failed
	}
	defer r.Close()
	if !r.has(base) || !r.has(base+"^{tree}") {
		return goneError(base)
	}
	return failed
}

// goneError is the error for a base commit that no longer exists.
func goneError(base Hash) error {
	return refusal("git", "", ErrStageAgain, "commit "+string(base[:min(12, len(base))])+" is no longer in the target; stage again")
}
