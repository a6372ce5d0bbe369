package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of reading several files at once.
const (
	maxPaths = 50
	maxEach  = 64 << 10  // bytes of text for one file
	maxAll   = 512 << 10 // bytes of text for all
)

type readArgs struct {
	Path   string `json:"path" jsonschema:"virtual path such as /dir/file"`
	Offset int64  `json:"offset,omitempty" jsonschema:"first line, from 1; negative counts from the end"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"lines" default:"2000"`
	Cursor string `json:"cursor,omitempty" jsonschema:"from an earlier answer, to continue there; offset wins over it"`
}

// readData is a page of a file for programs. The content is as in the file, without the
// parts cut from long lines. Replacement characters stand for bytes that are not UTF-8.
type readData struct {
	Path       string   `json:"path"`
	Content    string   `json:"content"`
	FirstLine  int64    `json:"firstLine,omitempty"` // negative numbers count from the end
	LastLine   int64    `json:"lastLine,omitempty"`
	TotalLines int64    `json:"totalLines,omitempty"` // if known
	NextOffset int64    `json:"nextOffset,omitempty"` // set if there is more
	Cursor     string   `json:"cursor,omitempty"`     // the same for a large file
	CutLines   []string `json:"cutLines,omitempty"`   // cursors to the parts that were cut
	Size       int64    `json:"size"`
	Version    string   `json:"version"`
	LineEnds   string   `json:"lineEnds,omitempty"` // LF, CRLF or mixed, of the page
	BOM        bool     `json:"bom,omitempty"`
	NotUTF8    bool     `json:"notUTF8,omitempty"`
}

func readFile() tool.Tool {
	return tool.New(reader("read_file", "Read a text file as numbered lines. Long files come in pages; the answer says how to continue. It also reads images and PDFs, if the model accepts them. It also returns the version for if_version."),
		func(_ context.Context, names tool.Names, a readArgs) (tool.Plan, error) {
			at, err := locateFile(names, a.Path)
			if err != nil {
				return tool.Plan{}, err
			}
			from, ok := parseSpot(a.Cursor)
			if !ok {
				return tool.Plan{}, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrInvalid, Hint: "a cursor is what an earlier answer gave; or use offset"}
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				d, text, err := read(ctx, files, at, wish{a.Offset, a.Limit, from, maxPage})
				if accepted, ok := tool.AcceptedMedia(ctx); ok && err != nil {
					return readMedia(files, at, accepted, err)
				}
				if err != nil {
					return tool.Result{}, err
				}
				return tool.Result{Text: text, ForModel: versionText(d.Version), Data: d}, nil
			}
			return tool.NewReadPlan(run, names.ReadEffects(at)...), nil
		})
}

type readFilesArgs struct {
	Paths []string `json:"paths" jsonschema:"virtual paths such as /dir/file, at most 50"`
}

// readEach is one of several files for programs.
type readEach struct {
	*readData
	Error string `json:"error,omitempty"`
}

func readFiles() tool.Tool {
	return tool.New(reader("read_files", "Read several text files at once. Each is cut at 64 KiB. A file that cannot be read does not stop the others."),
		func(_ context.Context, names tool.Names, a readFilesArgs) (tool.Plan, error) {
			if n := len(a.Paths); n == 0 || n > maxPaths {
				return tool.Plan{}, &sandbox.Error{Op: "read", Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("%d paths; name 1 to %d", n, maxPaths)}
			}
			at := make([]string, len(a.Paths))
			wrong := make([]error, len(a.Paths))
			var effects []policy.Effect
			for i, name := range a.Paths {
				if at[i], wrong[i] = locateFile(names, name); wrong[i] == nil {
					effects = append(effects, names.ReadEffects(at[i])...)
				}
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				return readAll(ctx, files, at, wrong)
			}
			return tool.NewReadPlan(run, effects...), nil
		})
}

// readAll reads the files in order. A file with an error has that error in its place.
func readAll(ctx context.Context, files *sandbox.Sandbox, at []string, wrong []error) (tool.Result, error) {
	var b strings.Builder
	list := make([]readEach, len(at))
	for i, name := range at {
		var d *readData
		var text string
		err := wrong[i]
		if err == nil && b.Len() > maxAll-maxEach {
			err = &sandbox.Error{Op: "read", Path: name, Code: sandbox.ErrLimit, Hint: "the answer is full; ask for it by itself"}
		}
		if err == nil {
			d, text, err = read(ctx, files, name, wish{limit: maxLines, most: maxEach})
		}
		if err != nil {
			if ctx.Err() != nil {
				return tool.Result{}, err
			}
			text = "Error: " + plainError(err).Error() + "\n"
			list[i].Error = plainError(err).Error()
		}
		list[i].readData = d
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	r := tool.Result{Text: b.String(), Data: list}
	if d := list[0].readData; d != nil {
		r.ForModel = versionText(d.Version)
	}
	return r, nil
}

// A wish says which part of a file to read.
type wish struct {
	offset int64 // a line, as in readArgs; 0 means the cursor or the start
	limit  int64 // lines
	cursor spot  // the zero spot means none
	most   int   // bytes of text
}

// read returns a page of the file at a located name, for programs and for a model.
func read(ctx context.Context, files *sandbox.Sandbox, at string, w wish) (*readData, string, error) {
	data, info, err := files.ReadRange(at, 0, maxWhole)
	if err != nil {
		return nil, "", err
	}
	if err := refuseBinary(at, data, info.Size()); err != nil {
		return nil, "", err
	}
	d := &readData{Path: at, Size: info.Size()}
	t := wholeText(data)
	if info.Size() <= maxWhole {
		d.Version = info.Version().With(data).String()
		d.TotalLines = t.countLines()
	} else {
		f, err := files.Open(strings.TrimPrefix(at, "/"))
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		d.Version = info.Version().String()
		t = largeText(ctx, f.(io.ReaderAt), info.Size())
	}
	p, err := w.readPage(t, d.TotalLines)
	if err != nil {
		return nil, "", stoppedError(at, err)
	}
	if bytes.IndexByte(p.content, 0) >= 0 {
		return nil, "", binaryError(at, "not text", info.Size())
	}
	d.fill(p)
	return d, d.text(p, w), nil
}

// readPage finds and returns the page. The total is 0 for a large text.
func (w wish) readPage(t *text, total int64) (*page, error) {
	s := spot{1, 0}
	var err error
	switch {
	case w.offset < 0 && t.file != nil:
		s, err = t.findTail(max(w.offset, -1<<62) * -1)
	case w.offset < 0:
		s, err = t.skip(s, max(total+max(w.offset, -total), 0))
	case w.offset == 0 && w.cursor != spot{}:
		s = w.cursor
	case w.offset > 0:
		if c := w.cursor; c.line > 0 && c.line <= w.offset {
			s = c // do not count the lines before it again
		}
		s, err = t.skip(s, w.offset-s.line)
	}
	if errors.Is(err, errSpent) {
		return &page{next: s, more: true, spent: true}, nil
	}
	if err != nil {
		return nil, err
	}
	limit := w.limit
	if limit < 1 {
		limit = maxLines
	}
	return t.readPage(s, limit, w.most)
}

// fill copies the data of the page.
func (d *readData) fill(p *page) {
	d.NotUTF8 = !utf8.Valid(p.content)
	if d.Content = string(p.content); d.NotUTF8 {
		d.Content = toValidText(p.content)
	}
	d.FirstLine, d.LastLine, d.BOM = p.first, p.last, p.bom
	for _, s := range p.cut {
		d.CutLines = append(d.CutLines, s.String())
	}
	switch {
	case p.crlf > 0 && p.lf > 0:
		d.LineEnds = "mixed"
	case p.crlf > 0:
		d.LineEnds = "CRLF"
	case p.lf > 0:
		d.LineEnds = "LF"
	}
	switch {
	case !p.more:
		if p.last > 0 {
			d.TotalLines = p.last
		}
	case d.TotalLines > 0:
		d.NextOffset = p.next.line
	default:
		d.Cursor = p.next.String()
	}
}

// text returns the page as a model reads it: a heading, the lines, and how to continue.
func (d *readData) text(p *page, w wish) string {
	var b strings.Builder
	b.Grow(len(p.shown) + 256)
	b.WriteString(sandbox.Shown(d.Path) + ": ")
	switch {
	case d.Size == 0:
		b.WriteString("empty file")
	case p.first == 0 && p.spent:
		fmt.Fprintf(&b, "%d bytes; line %d is after the first %d MiB, which is all that one call reads", d.Size, w.offset, maxScan>>20)
	case p.first == 0 && d.TotalLines > 0:
		fmt.Fprintf(&b, "it has %d lines, and none from %d on", d.TotalLines, max(w.offset, w.cursor.line))
	case p.first == 0:
		fmt.Fprintf(&b, "it ends before that; offset -%d shows the last lines", maxLines)
	case d.TotalLines > 0:
		fmt.Fprintf(&b, "lines %d to %d of %d", p.first, p.last, d.TotalLines)
	default:
		fmt.Fprintf(&b, "lines %d to %d, %d bytes in all", p.first, p.last, d.Size)
		if p.first < 0 {
			b.WriteString(", numbered from the end")
		}
	}
	b.WriteString(versionText(d.Version))
	if d.LineEnds == "CRLF" || d.LineEnds == "mixed" {
		b.WriteString("; " + d.LineEnds + " line ends")
	}
	if d.BOM {
		b.WriteString("; begins with a byte order mark")
	}
	if p.isOpen() {
		b.WriteString("; no line end after the last line")
	}
	if d.NotUTF8 {
		b.WriteString("; not UTF-8: invalid bytes are shown as \uFFFD; edit_file keeps them")
	}
	b.WriteByte('\n')
	if d.NotUTF8 {
		b.WriteString(toValidText(p.shown))
	} else {
		b.Write(p.shown)
	}
	switch {
	case d.NextOffset > 0:
		fmt.Fprintf(&b, "[more: offset %d]\n", d.NextOffset)
	case d.Cursor != "" && w.offset > 0 && p.first == 0:
		fmt.Fprintf(&b, "[more: the same offset with cursor %s]\n", d.Cursor)
	case d.Cursor != "":
		fmt.Fprintf(&b, "[more: cursor %s]\n", d.Cursor)
	}
	return b.String()
}
