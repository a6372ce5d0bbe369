package editor

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// Copies are read-only copies of both versions of some files, in a private directory. A tool shows
// them to the user. The files may come from an agent, so their names are escaped: see escape.
type Copies struct {
	Pairs []Pair // in the order in which they were added
	dir   string
	free  func() // ends the claim on dir
	left  int64  // bytes that still may be copied
}

// A Pair is the two versions of one file. A version that does not exist is os.DevNull.
type Pair struct{ Name, Before, After string }

// The limits on the copies.
const (
	MaxCopied = 32 << 20  // the largest file
	maxCopies = 512 << 20 // all files together
)

// CopiesDir returns the directory for copies in a state directory.
func CopiesDir(state string) string { return filepath.Join(state, "copies") }

// MakeCopies makes the directory for copies, below a directory of golem's. If this golem is killed,
// RemoveLeft of the next one removes it.
func MakeCopies(in string) (*Copies, error) {
	if err := os.MkdirAll(in, 0o700); err != nil {
		return nil, err
	}
	c := &Copies{left: maxCopies}
	var err error
	if c.dir, c.free, err = makeClaimed(in); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(c.Before(), 0o700), os.Mkdir(c.After(), 0o700)); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Dir returns the directory, which has Before, After and nothing else. A tool runs in it.
func (c *Copies) Dir() string { return c.dir }

// Before returns the directory with the old versions.
func (c *Copies) Before() string { return filepath.Join(c.dir, "before") }

// After returns the directory with the new versions.
func (c *Copies) After() string { return filepath.Join(c.dir, "after") }

// ErrFull is the error of Add when the copies have reached their limit.
var ErrFull = errors.New("the copies for the tool would become larger than " + fmt.Sprint(maxCopies>>20) + " MiB")

// Add writes both versions of a file. The name is relative and has slashes. A version that is nil does
// not exist.
func (c *Copies) Add(name string, before, after []byte) error {
	if c.left -= int64(len(before) + len(after)); c.left < 0 {
		return ErrFull
	}
	before, after = printable(before), printable(after)
	p := Pair{Name: name, Before: os.DevNull, After: os.DevNull}
	var err error
	if before != nil {
		p.Before, err = write(c.Before(), name, before)
	}
	if err == nil && after != nil {
		p.After, err = write(c.After(), name, after)
	}
	if err != nil {
		return err
	}
	c.Pairs = append(c.Pairs, p)
	return nil
}

// printable replaces the control characters of a text by pictures, such as ␛: many tools print a text
// as it is, and the terminal would obey. It keeps other contents, which have a zero byte where tools
// look for one.
func printable(content []byte) []byte {
	if !bytes.ContainsFunc(content, isControl) && !bytes.ContainsAny(content, "\r\x00") && utf8.Valid(content) || bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
		return content
	}
	made := make([]byte, 0, len(content)+16)
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRune(content[i:])
		switch {
		case r == utf8.RuneError && size == 1 && (content[i] < 0x80 || content[i] > 0x9f):
			made = append(made, content[i])
		case r == '\r' && i+1 < len(content) && content[i+1] != '\n' || r < ' ' && r != '\r' && isControl(r):
			made = utf8.AppendRune(made, '␀'+r)
		case r == 0x7f:
			made = append(made, "␡"...)
		case isControl(r), r == utf8.RuneError && size == 1:
			made = append(made, "\ufffd"...)
		default:
			made = append(made, content[i:i+size]...)
		}
		i += size
	}
	return made
}

// isControl reports whether a terminal may obey a character that is no space or end of a line.
func isControl(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\f", r) }

// write writes a file that only its user can read, below a directory, with an escaped name.
func write(top, name string, content []byte) (file string, err error) {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = escape(part)
	}
	below := filepath.Join(parts...)
	if !filepath.IsLocal(below) || len(below) > 2000 {
		return "", &sandbox.Error{Op: "diff", Path: name, Code: sandbox.ErrInvalid, Hint: "its path is too long for a copy"}
	}
	file = filepath.Join(top, below)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return file, errors.Join(err, f.Close())
}

// escape returns a part of a path that means nothing to a shell, a terminal or a tool. It keeps letters,
// digits and "_+=@,-." and writes other bytes as %XX. It writes a dot or dash at the beginning so, too:
// no copy is named .., is an option, or is one of the directories and files from which tools read
// settings and programs, such as .git, .hg, .vscode and .dir-locals.el. HEAD would make a directory a
// git repository. Two names never become the same one.
func escape(part string) string {
	var b strings.Builder
	for i, r := range part {
		size := utf8.RuneLen(r)
		plain := r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_+=@,-.", r) && i > 0 || r == '_')
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(part[i:])
		}
		if plain && (i > 0 || !strings.EqualFold(part, "HEAD")) && (r != '.' || i < len(part)-1) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(part[i : i+size]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	const most = 200
	if b.Len() <= most {
		return b.String()
	}
	extension := escape(filepath.Ext(part))
	if len(extension) > 20 {
		extension = ""
	}
	return strings.ToValidUTF8(b.String()[:100], "") + fmt.Sprintf("%%%x", sha256.Sum256([]byte(part)))[:40] + strings.Replace(extension, "%2E", ".", 1)
}

// Seal makes the directories read-only. The copies are complete.
func (c *Copies) Seal() error { return setMode(c.dir, 0o500) }

// Remove removes the copies.
func (c *Copies) Remove() error {
	defer c.free()
	return removeTree(c.dir)
}

// setMode sets the mode of a directory and of all directories below it.
func setMode(dir string, mode fs.FileMode) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, mode)
	})
}

// removeTree removes a directory whose directories may be read-only.
func removeTree(dir string) error {
	if err := setMode(dir, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}
