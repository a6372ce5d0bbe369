package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Stream returns the content of a file of any size. After it the Reader can only be
// closed.
func (r *Reader) Stream(hash Hash) (content io.Reader, size int64, err error) {
	if !hash.Valid() {
		return nil, 0, refusal("read", "", sandbox.ErrInvalid, "there is no object of that name")
	}
	kind, size, err := r.request(string(hash))
	if err == nil && kind != "blob" {
		err = refusal("read", "", sandbox.ErrInvalid, string(hash)+" is no file but a "+kind)
	}
	return io.LimitReader(r.out, size), size, err
}

// A CommitObject is a commit of the store.
type CommitObject struct {
	Tree              Hash
	Parents           []Hash
	Author, Committer Person
	Time              time.Time // of the committer, in UTC
	Authored          time.Time // of the author; Stage writes the same
	Message           string
	// Headers are the other lines before the message, such as a signature. Git shows most of
	// them nowhere.
	Headers string
}

// Commit returns a commit that was staged.
func (r *Reader) Commit(hash Hash) (*CommitObject, error) {
	raw, err := r.rawCommit(hash)
	if err != nil {
		return nil, err
	}
	head, message, _ := strings.Cut(raw, "\n\n")
	c := &CommitObject{Message: message}
	for line := range strings.SplitSeq(head, "\n") {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "tree":
			c.Tree = Hash(value)
		case "parent":
			c.Parents = append(c.Parents, Hash(value))
		case "author":
			c.Author, c.Authored = person(value)
		case "committer":
			c.Committer, c.Time = person(value)
		default:
			c.Headers += line + "\n"
		}
	}
	if !c.Tree.Valid() {
		return nil, refusal("read", "", sandbox.ErrInvalid, string(hash)+" is no commit")
	}
	return c, nil
}

// rawCommit returns the text of a commit object.
func (r *Reader) rawCommit(hash Hash) (string, error) {
	if !hash.Valid() {
		return "", refusal("read", "", sandbox.ErrInvalid, "there is no commit of that name")
	}
	kind, size, err := r.request(string(hash))
	if err != nil {
		return "", err
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(r.out, data); err != nil {
		return "", r.broken(err)
	}
	if kind != "commit" {
		return "", refusal("read", "", sandbox.ErrInvalid, string(hash)+" is no commit but a "+kind)
	}
	return string(data[:size]), nil
}

// person reads "Name <address> seconds zone".
func person(text string) (Person, time.Time) {
	name, rest, _ := strings.Cut(text, " <")
	address, when, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(when, " ")
	n, _ := strconv.ParseInt(seconds, 10, 64)
	return Person{name, address}, time.Unix(n, 0).UTC()
}

// An Entry is a file of a commit.
type Entry struct {
	Path string
	Mode Mode
	Hash Hash
	Size int64 // 0 for a submodule
}

// Entries returns the files of a commit at the paths, or in directories at the paths, in
// git's order. It fails if there are more than most. A path without files gives none.
func (s *ObjectStore) Entries(ctx context.Context, objects string, commit Hash, paths []string, most int) ([]Entry, error) {
	if !commit.Valid() {
		return nil, refusal("read", "", sandbox.ErrInvalid, "there is no commit of that name")
	}
	args := []string{"ls-tree", "-r", "-z", "--full-tree", "--end-of-options", string(commit)}
	for _, path := range paths {
		if why := BadName(path, Plain); why != "" {
			return nil, refusal("read", path, sandbox.ErrInvalid, why+"; name files by their path in the repository")
		}
		args = append(args, path)
	}
	// Sizes are read only after the number of files is known: git would look up each file
	// of an endless tree.
	out, err := s.listNames(s.command(ctx, s.here(objects), args...), most)
	if err != nil {
		return nil, s.explainMissing(ctx, objects, commit, err)
	}
	var list []Entry
	for part := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		head, path, ok := bytes.Cut(part, []byte{'\t'})
		words := strings.Fields(string(head))
		if !ok || len(words) != 3 {
			continue // no files
		}
		list = append(list, Entry{Path: string(path), Mode: Mode(words[0]), Hash: Hash(words[2])})
	}
	return list, s.sizes(ctx, objects, list)
}

// sizes fills in the sizes of files.
func (s *ObjectStore) sizes(ctx context.Context, objects string, list []Entry) error {
	size := map[Hash]int64{}
	var asked []Hash
	var question strings.Builder
	for _, e := range list {
		if _, known := size[e.Hash]; e.Mode != Submodule && !known {
			size[e.Hash] = 0
			asked = append(asked, e.Hash)
			question.WriteString(string(e.Hash) + "\n")
		}
	}
	if len(asked) == 0 {
		return nil
	}
	cmd := s.command(ctx, s.here(objects), "cat-file", "--batch-check=%(objecttype) %(objectsize)")
	cmd.Stdin = strings.NewReader(question.String())
	out, err := s.run(cmd)
	if err != nil {
		return err
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(asked) {
		return refusal("read", "", ErrGit, "git wrote what is no list of sizes")
	}
	for i, line := range answers {
		kind, text, _ := strings.Cut(line, " ")
		n, err := strconv.ParseInt(text, 10, 64)
		if kind != "blob" || err != nil {
			return goneError(asked[i])
		}
		size[asked[i]] = n
	}
	for i := range list {
		list[i].Size = size[list[i].Hash]
	}
	return nil
}

// listNames runs a git that lists files, each with a zero byte after it. It stops git
// when there are more than most.
func (s *ObjectStore) listNames(cmd *exec.Cmd, most int) ([]byte, error) {
	out := answer{most: most}
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if out.endless {
		return nil, refusal("read", "", sandbox.ErrLimit, fmt.Sprintf("there are more than %d files; name fewer", most))
	}
	if err != nil {
		return nil, s.failed(cmd, err, said)
	}
	return out.text.Bytes(), nil
}
