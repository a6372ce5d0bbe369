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

// A Mode is what a file is to git.
type Mode string

// The modes that are staged, and two that are only met.
const (
	Plain      Mode = "100644"
	Executable Mode = "100755"
	Link       Mode = "120000"
	Submodule  Mode = "160000"
	None       Mode = "000000" // no file
)

// goneFirst compares two modes: files that go come before those that stay.
func goneFirst(a, b Mode) int {
	switch {
	case (a == None) == (b == None):
		return 0
	case a == None:
		return -1
	}
	return 1
}

// A File is one that is staged. One of mode None is deleted.
type File struct {
	Path string // relative to the root of the repository
	Mode Mode
	Size int64
	// Open returns the content, which has Size bytes; of a link it is where it
	// leads. It is called once at most.
	Open func() (io.ReadCloser, error)
}

// A Person made a commit.
type Person struct{ Name, Email string }

// A Commit is what is staged.
type Commit struct {
	Base      Hash // "" for a branch that is not there yet
	Message   string
	Author    Person
	Committer Person
	Time      time.Time
	Files     []File
}

// Stage makes objects of a commit. The objects of the target are in a directory
// from which nothing is taken but the base and its trees. When Stage returns, the
// commit is on the disk; when it fails or is killed, nothing is there but waste.
func (s *Store) Stage(ctx context.Context, objects string, c Commit) (Hash, error) {
	files, err := c.check()
	if err != nil {
		return "", err
	}
	// What others have staged is not seen, so that nothing here needs it.
	room, err := os.MkdirTemp(s.dir, "new-")
	if err != nil {
		return "", trouble(err)
	}
	defer os.RemoveAll(room)
	cmd := s.command(ctx, s.here(objects, filepath.Join(s.pulled(), "objects")), "fast-import", "--quiet", "--done", "--date-format=raw", "--depth=0")
	cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+room)
	var out, said tail
	cmd.Stdout, cmd.Stderr = &out, &said
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
		cmd.Process.Kill() // or else it would take what there is for all
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case wrong.file != nil:
		return "", wrong.file
	case err != nil:
		return "", s.pruned(ctx, objects, c.Base, s.failed(cmd, err, said))
	case wrong.pipe != nil:
		return "", wrong.pipe
	}
	hash := Hash(strings.TrimSpace(string(out.text)))
	if !hash.Valid() {
		return "", s.failed(cmd, errors.New("it named no commit"), said)
	}
	return hash, s.adopt(room, hash)
}

// check looks at all that git would have to take on trust, and returns the files
// in the order in which they are written: first those that go, for another may
// have the name of a directory that goes with them.
func (c *Commit) check() ([]File, error) {
	if c.Base != "" && !c.Base.Valid() {
		return nil, refusal("stage", "", sandbox.ErrInvalid, "the base is no commit")
	}
	if strings.TrimSpace(c.Message) == "" || strings.Contains(c.Message, "\x00") {
		return nil, refusal("stage", "", sandbox.ErrInvalid, "say in a message what is staged, without zero bytes")
	}
	for _, p := range []Person{c.Author, c.Committer} {
		if !p.fits() {
			return nil, refusal("stage", "", sandbox.ErrInvalid, "an author has a name and an address, without < and > and in one line")
		}
	}
	if len(c.Files) == 0 {
		return nil, refusal("stage", "", sandbox.ErrInvalid, "name the files to stage")
	}
	files := slices.Clone(c.Files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Or(goneFirst(a.Mode, b.Mode), strings.Compare(a.Path, b.Path)) })
	stays := make(map[string]bool, len(files)) // the files, true for those that stay
	for _, f := range files {
		if why := BadName(f.Path, f.Mode); why != "" {
			return nil, refusal("stage", f.Path, sandbox.ErrInvalid, why+"; stage files by their path in the repository")
		}
		if !slices.Contains([]Mode{Plain, Executable, Link, None}, f.Mode) {
			return nil, refusal("stage", f.Path, sandbox.ErrInvalid, "files and links can be staged, nothing else")
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

// wrong is what stopped a stream: a file that could not be read, or git that no
// longer listened.
type wrong struct{ file, pipe error }

// write writes the stream of a commit. The branch that fast-import wants is taken
// back in the same stream: whoever stages keeps the commit's name.
func (c *Commit) write(to io.Writer, files []File) wrong {
	w := bufio.NewWriterSize(to, 64<<10)
	branch := "refs/staged/" + rand.Text()
	stamp := fmt.Sprintf("%d +0000", c.Time.Unix())
	fmt.Fprintf(w, "commit %s\nmark :1\n", branch)
	fmt.Fprintf(w, "author %s <%s> %s\ncommitter %s <%s> %s\n", c.Author.Name, c.Author.Email, stamp, c.Committer.Name, c.Committer.Email, stamp)
	fmt.Fprintf(w, "data %d\n%s\n", len(c.Message), c.Message)
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
			return wrong{file: err}
		}
		w.WriteByte('\n')
	}
	fmt.Fprintf(w, "\nget-mark :1\nreset %s\nfrom %s\n\ndone\n", branch, nothing)
	return wrong{pipe: w.Flush()}
}

// copy writes the content of a file, all of it and no more. When git no longer
// listens, that is found out later.
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
	var deaf *deafError
	switch {
	case errors.As(err, &deaf):
		return nil
	case err != nil:
		return err
	case n != f.Size:
		return refusal("stage", f.Path, sandbox.ErrConflict, "it changed while it was read; stage again")
	}
	return nil
}

// An onlyWriter tells a writer's errors from a reader's.
type onlyWriter struct{ w io.Writer }

type deafError struct{ error }

func (o onlyWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = &deafError{err}
	}
	return n, err
}

// pruned returns the error of a git that did not find what it was to build on,
// if that is why it failed.
func (s *Store) pruned(ctx context.Context, objects string, base Hash, failed error) error {
	if base == "" {
		return failed
	}
	r, err := s.Reader(ctx, objects)
	if err != nil {
		return failed
	}
	defer r.Close()
	if !r.has(base) || !r.has(base+"^{tree}") {
		return gone(base)
	}
	return failed
}

// gone is the error of something that was made against a commit that is no
// longer there.
func gone(base Hash) error {
	return refusal("git", "", ErrStageAgain, "commit "+string(base[:min(12, len(base))])+" is no longer in the target; stage again")
}
