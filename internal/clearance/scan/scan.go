package scan

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// A Content is the input of a scan: its bytes, their number, the path, and the hash.
type Content struct {
	Path string
	Size int64
	Hash string // the hash of the bytes; without it no verdict is cached
	Open func() (io.ReadCloser, error)

	data   []byte // all bytes, once they were read
	tries  *tries // shared by everything inside of one content
	within string // kind of the container, "" for none
	text   bool   // decoded from other data, and not a separate file
}

// A Finding is one result of a scanner.
type Finding struct {
	Scanner string `json:"scanner"`
	Hold    bool   `json:"hold,omitempty"` // it holds the content back; otherwise it is only reported
	What    string `json:"what"`           // short, and without the value of a secret
	Line    int    `json:"line,omitempty"` // from 1; 0 for none
	Offset  int64  `json:"offset,omitempty"`
}

// A Scanner examines one content. An error means that it cannot tell.
type Scanner interface {
	Name() string
	// Version changes when verdicts may change. If it is empty, verdicts are not cached.
	Version() string
	Scan(ctx context.Context, c Content) ([]Finding, error)
}

// A Verdict is the result of all scanners for one content. The content is held if one of
// them found something that holds, or could not tell.
type Verdict struct {
	Path     string    `json:"path"`
	Hash     string    `json:"hash"`
	Findings []Finding `json:"findings,omitempty"`
	Scanners []string  `json:"scanners"` // the scanners that examined all of it
	Held     bool      `json:"held"`
}

// Limits limit the work for one content. Zero means the default.
type Limits struct {
	Size     int64         // bytes of a content, and of each file inside; 32 MiB
	Time     time.Duration // for all scanners together; one minute
	Depth    int           // depth of nested containers; 4
	Entries  int           // parts inside of a content, at all depths together; 10,000
	Expanded int64         // bytes inside, at all depths together; 256 MiB
	Ratio    int64         // bytes inside of an archive per byte of the archive; 250
}

// freely is how many bytes may be inside of an archive whatever the ratio.
const freely = 1 << 20

// withDefaults returns the limits with defaults for zeros.
func (l Limits) withDefaults() (Limits, error) {
	if l.Size < 0 || l.Time < 0 || l.Depth < 0 || l.Entries < 0 || l.Expanded < 0 || l.Ratio < 0 {
		return l, errors.New("scan limits: invalid; a limit is a positive number; omit it for the default")
	}
	or(&l.Size, 32<<20)
	or(&l.Time, time.Minute)
	or(&l.Depth, 4)
	or(&l.Entries, 10_000)
	or(&l.Expanded, 256<<20)
	or(&l.Ratio, 250)
	return l, nil
}

// or sets a value that is zero.
func or[T comparable](value *T, otherwise T) {
	if zero := *new(T); *value == zero {
		*value = otherwise
	}
}

// A Cache keeps verdicts. They contain no secret, because findings never do.
type Cache interface {
	Get(key string) ([]byte, bool)
	Put(key string, value []byte)
}

// A Run runs a program with content on its stdin, in a place where it can do no harm. It
// returns when the context ends.
type Run func(ctx context.Context, argv []string, stdin io.Reader) (stdout []byte, exit int, err error)

// Options configure a Set. The zero value has all scanners that need nothing from
// outside.
type Options struct {
	Scanners []string // which of ours run: format, size, content, secrets, malware; none: all
	Limits   Limits
	Allow    []string  // kinds of binary files that do not hold: image/png, application/*
	Cache    Cache     // may be nil
	Clamd    Dial      // connects to clamd's socket; nil: not used
	Clamscan []string  // the program with its options, run by Run; empty: not used
	Yara     []Content // rules for the program yara, run by Run; it gets only their text
	External []Command
	Run      Run
	Budget   *Budget // shared with other sets; nil: one for this set
}

// A Set runs scanners. It is safe for concurrent use.
type Set struct {
	looks  []look
	limits Limits
	cache  Cache
	budget *Budget
	about  []string
}

// A look is a scanner, with what the Set must know about it.
type look struct {
	Scanner
	inside  bool                // it also examines what is inside of a content
	decoded bool                // and data that was decoded from a file
	depends func(string) string // returns the part of the path that its verdicts depend on
	unsaid  bool                // a clean result means little, so it is not listed in Verdict.Scanners
}

// The names of our scanners.
const (
	formatName   = "format"
	entropyName  = "size"
	metadataName = "content"
	secretsName  = "secrets"
	malwareName  = "malware"
	limitsName   = "limits" // for contents that could not be examined
)

// New returns a Set. It runs nothing and opens no connection: scanners prepare what they
// need on first use.
func New(o Options) (*Set, error) {
	limits, err := o.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	whole := func(p string) string { return p }
	// page.html.gz contains page.html, so all extensions count.
	extension := func(p string) string {
		_, endings, _ := strings.Cut(strings.ToLower(path.Base(p)), ".")
		return endings
	}
	s := &Set{limits: limits, cache: o.Cache, budget: cmp.Or(o.Budget, NewBudget())}
	own := []struct {
		look
		about string
	}{
		{look{format{o.Allow}, true, false, extension, false}, "content against the file's name"},
		{look{entropy{}, true, false, extension, false}, "encoded and hidden data in text"},
		{look{metadata{}, true, true, extension, false}, "metadata and active parts of images, documents, fonts and sound"},
		{look{secrets{}, true, true, whole, false}, "keys and tokens by the rules of " + rulesFrom + ", and ours"},
		{look{malware{}, true, true, extension, false}, "the EICAR test file"},
	}
	var names []string
	for _, l := range own {
		names = append(names, l.Name())
		if len(o.Scanners) > 0 && !slices.Contains(o.Scanners, l.Name()) {
			s.about = append(s.about, l.Name()+" off")
			continue
		}
		if l.Name() == malwareName && !o.hasEngine() {
			// It knows one test file. To report "ok" would promise too much.
			l.unsaid = true
			s.looks = append(s.looks, l.look)
			s.about = append(s.about, l.Name()+" "+NotScanned+" (no engine: clearance.malware sets one; without it only "+l.about+" is known)")
			continue
		}
		s.looks = append(s.looks, l.look)
		s.about = append(s.about, l.Name()+" ok ("+l.about+")")
	}
	for _, name := range o.Scanners {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("scanner %q: unknown; there are %s", name, strings.Join(names, ", "))
		}
	}
	engines, err := o.engines()
	if err != nil {
		return nil, err
	}
	for _, e := range engines {
		s.looks = append(s.looks, look{Scanner: e, depends: func(string) string { return "" }})
		s.about = append(s.about, e.Name()+" ok (given the whole file)")
	}
	return s, nil
}

// NotScanned is the word in About for a scanner without an engine.
const NotScanned = "not scanned"

// hasEngine reports whether a malware engine is configured.
func (o Options) hasEngine() bool { return o.Clamd != nil || len(o.Clamscan)+len(o.Yara) > 0 }

// engines returns the scanners that are external programs.
func (o Options) engines() (all []Scanner, err error) {
	if o.Clamd != nil {
		all = append(all, clamd{o.Clamd})
	}
	if o.Run == nil && len(o.Clamscan)+len(o.Yara)+len(o.External) > 0 {
		return nil, errors.New("scanners that are programs: no way to run them; they need a jail")
	}
	if len(o.Clamscan) > 0 {
		all = append(all, clamscan{o.Clamscan, o.Run})
	}
	if len(o.Yara) > 0 {
		all = append(all, yara{o.Yara, o.Run})
	}
	taken := map[string]bool{"clamd": true, "clamscan": true, "yara": true, limitsName: true,
		formatName: true, entropyName: true, metadataName: true, secretsName: true, malwareName: true}
	for _, c := range o.External {
		if c.Name == "" || len(c.Argv) == 0 || taken[c.Name] {
			return nil, fmt.Errorf("scanner %q: invalid; an external scanner has a name of its own and a command", c.Name)
		}
		taken[c.Name] = true
		all = append(all, external{c, o.Run})
	}
	return all, nil
}

// About describes what each scanner can do here, one line each.
func (s *Set) About() []string { return s.about }

// bytes returns all bytes of a content.
func (c Content) bytes() ([]byte, error) {
	if c.data != nil || c.Open == nil {
		return c.data, nil
	}
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// One byte more shows whether the content is longer than it should be.
	data := make([]byte, c.Size+1)
	n, err := io.ReadFull(r, data)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if int64(n) != c.Size {
		return nil, fmt.Errorf("changed: it should have %d bytes", c.Size)
	}
	return data[:n], nil
}

// of returns a content with the given bytes.
func of(name string, data []byte) Content {
	return Content{Path: name, Size: int64(len(data)), data: data,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// line returns the line number of an offset.
func line(data []byte, offset int) int {
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}
