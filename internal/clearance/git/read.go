package git

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A Reader reads objects of a store with one git process. It is not safe for concurrent
// use.
type Reader struct {
	store  *ObjectStore
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
	ahead  int // objects that were requested at the start and not read yet
}

// Reader starts a Reader. It reads objects of the store, and of more object directories.
func (s *ObjectStore) Reader(ctx context.Context, objects ...string) (*Reader, error) {
	return s.reader(ctx, objects, nil)
}

// ReaderOf starts a Reader that can only read the given files with Blob, in this order.
// It sends all requests to git at once.
func (s *ObjectStore) ReaderOf(ctx context.Context, hashes []Hash, objects ...string) (*Reader, error) {
	return s.reader(ctx, objects, hashes)
}

func (s *ObjectStore) reader(ctx context.Context, objects []string, hashes []Hash) (*Reader, error) {
	r := &Reader{store: s, cmd: s.command(ctx, s.here(objects...), "cat-file", "--batch"), ahead: len(hashes)}
	r.cmd.Stderr = &r.stderr
	var err error
	if len(hashes) > 0 {
		var all strings.Builder
		for _, hash := range hashes {
			all.WriteString(string(hash) + "\n")
		}
		r.cmd.Stdin = strings.NewReader(all.String())
	} else if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReaderSize(out, 64<<10)
	return r, r.cmd.Start()
}

// Close ends the reader.
func (r *Reader) Close() {
	if r.in != nil {
		r.in.Close()
	}
	r.cmd.Process.Kill() // it has nothing left to do
	r.cmd.Wait()
}

// Blob returns the content of a file, at most the given number of bytes, and the whole
// size.
func (r *Reader) Blob(hash Hash, most int64) (content []byte, size int64, err error) {
	if !hash.Valid() {
		return nil, 0, refusal("read", "", sandbox.ErrInvalid, "there is no object of that name")
	}
	kind, size, err := r.request(string(hash))
	if err != nil {
		return nil, 0, err
	}
	content = make([]byte, min(size, most))
	if _, err = io.ReadFull(r.out, content); err == nil {
		_, err = io.CopyN(io.Discard, r.out, size-int64(len(content))+1)
	}
	if err != nil {
		return nil, 0, r.broken(err)
	}
	if kind != "blob" {
		return nil, 0, refusal("read", "", sandbox.ErrInvalid, string(hash)+" is no file but a "+kind)
	}
	return content, size, nil
}

// request asks git for an object, and returns its type and size. The content comes next.
func (r *Reader) request(name string) (kind string, size int64, err error) {
	if r.in == nil {
		if r.ahead--; r.ahead < 0 {
			return "", 0, refusal("read", "", sandbox.ErrInternal, "more is read than was asked for")
		}
	} else if _, err := fmt.Fprintln(r.in, name); err != nil {
		return "", 0, r.broken(err)
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return "", 0, r.broken(err)
	}
	words := strings.Fields(line)
	if len(words) != 3 {
		return "", 0, goneError(Hash(name))
	}
	size, err = strconv.ParseInt(words[2], 10, 64)
	return words[1], size, err
}

// has reports whether an object exists.
func (r *Reader) has(name Hash) bool {
	_, size, err := r.request(string(name))
	if err == nil {
		_, err = io.CopyN(io.Discard, r.out, size+1)
	}
	return err == nil
}

func (r *Reader) broken(err error) error { return r.store.failed(r.cmd, err, r.stderr) }

// A ChangedFile is a file that differs between two commits.
type ChangedFile struct {
	Path             string
	OldMode, NewMode Mode
	Old, New         Hash // "" if there is no file
}

// Changes returns how a commit differs from its base, in git's order. A base of "" means
// that the commit has none. A renamed file is one deleted and one new file.
func (s *ObjectStore) Changes(ctx context.Context, objects string, base, commit Hash) ([]ChangedFile, error) {
	if !commit.Valid() || base != "" && !base.Valid() {
		return nil, refusal("diff", "", sandbox.ErrInvalid, "there is no commit of that name")
	}
	args := []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--ignore-submodules=none"}
	if base == "" {
		args = append(args, "--root", "--end-of-options", string(commit))
	} else {
		args = append(args, "--end-of-options", string(base), string(commit))
	}
	out, err := s.run(s.command(ctx, s.here(objects), args...))
	if err != nil {
		return nil, s.explainMissing(ctx, objects, base, err)
	}
	return parseChanges(out)
}

// parseChanges reads the output of diff-tree: ":mode mode hash hash kind", zero byte,
// path, zero byte.
func parseChanges(out []byte) ([]ChangedFile, error) {
	var list []ChangedFile
	for len(out) > 0 {
		head, rest, ok := bytes.Cut(out, []byte{0})
		path, rest, more := bytes.Cut(rest, []byte{0})
		words := strings.Fields(string(head))
		if !ok || !more || len(words) != 5 || !strings.HasPrefix(words[0], ":") {
			return nil, refusal("diff", "", ErrGit, "git wrote what is no list of changes")
		}
		list = append(list, ChangedFile{
			Path: string(path), OldMode: Mode(words[0][1:]), NewMode: Mode(words[1]),
			Old: hashOrNone(words[2]), New: hashOrNone(words[3]),
		})
		out = rest
	}
	return list, nil
}

// hashOrNone returns a hash, or "" for git's hash of zeros.
func hashOrNone(hash string) Hash {
	if hash == nothing {
		return ""
	}
	return Hash(hash)
}
