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

// A Content is what is scanned: its bytes, their number, the name that they will
// have, and their hash.
type Content struct {
	Path string
	Size int64
	Hash string // of the bytes; without one no verdict is kept
	Open func() (io.ReadCloser, error)

	data   []byte // all of it, once it was read
	tries  *tries // shared by all that is inside of one content
	within string // the kind of thing that it is inside of, or empty
	text   bool   // was decoded from something, and is no file by itself
}

// A Finding is one thing that a scanner says of a content.
type Finding struct {
	Scanner string `json:"scanner"`
	Hold    bool   `json:"hold,omitempty"` // holds the content back; otherwise it is only told
	What    string `json:"what"`           // short, and without the value of a secret
	Line    int    `json:"line,omitempty"` // from 1; 0 where there is none
	Offset  int64  `json:"offset,omitempty"`
}

// A Scanner looks at one content. An error means that it cannot tell.
type Scanner interface {
	Name() string
	// Version changes when verdicts may. Where it is empty none is kept.
	Version() string
	Scan(ctx context.Context, c Content) ([]Finding, error)
}

// A Verdict is what all scanners say of one content. It is held if one of them
// found something that holds, or could not tell.
type Verdict struct {
	Path     string    `json:"path"`
	Hash     string    `json:"hash"`
	Findings []Finding `json:"findings,omitempty"`
	Scanners []string  `json:"scanners"` // that looked at all of it
	Held     bool      `json:"held"`
}

// Limits bound the work for one content. Zero means the default.
type Limits struct {
	Size     int64         // of a content, and of each file inside of it; 32 MiB
	Time     time.Duration // for all scanners together; one minute
	Depth    int           // of things inside of each other; 4
	Entries  int           // inside of a content, at all depths together; 10,000
	Expanded int64         // bytes inside of it, at all depths together; 256 MiB
	Ratio    int64         // of the bytes inside of an archive to its own; 250
}

// freely is what may be inside of an archive whatever the ratio.
const freely = 1 << 20

// withDefaults returns limits without zeros.
func (l Limits) withDefaults() (Limits, error) {
	if l.Size < 0 || l.Time < 0 || l.Depth < 0 || l.Entries < 0 || l.Expanded < 0 || l.Ratio < 0 {
		return l, errors.New("scan limits: invalid; a limit is a positive number, or left out for the default")
	}
	or(&l.Size, 32<<20)
	or(&l.Time, time.Minute)
	or(&l.Depth, 4)
	or(&l.Entries, 10_000)
	or(&l.Expanded, 256<<20)
	or(&l.Ratio, 250)
	return l, nil
}

// or sets what is zero.
func or[T comparable](value *T, otherwise T) {
	if zero := *new(T); *value == zero {
		*value = otherwise
	}
}

// A Cache keeps verdicts. It holds no secret: findings never do.
type Cache interface {
	Get(key string) ([]byte, bool)
	Put(key string, value []byte)
}

// Run runs a program with content on its standard input, where it can do no harm.
// It returns when the context ends.
type Run func(ctx context.Context, argv []string, stdin io.Reader) (stdout []byte, exit int, err error)

// Options say what a Set does. The zero value has all the scanners that need
// nothing from outside.
type Options struct {
	Scanners []string // which of ours look: format, size, content, secrets, malware; none: all
	Limits   Limits
	Allow    []string // kinds of binary files that are only told: image/png, application/*
	Cache    Cache    // may be nil
	Clamd    Dial     // to clamd's socket; nil: without
	Clamscan []string // the program with its options, run by Run; empty: without
	Yara     []string // files with rules for the program yara, run by Run
	External []Command
	Run      Run
	Budget   *Budget // shared with other sets; nil: one for this set
}

// A Set runs scanners. Many goroutines may use it at once.
type Set struct {
	looks  []look
	limits Limits
	cache  Cache
	budget *Budget
	about  []string
}

// A look is a scanner, with what the Set must know of it.
type look struct {
	Scanner
	inside  bool                // looks at what is inside of a content too
	decoded bool                // and at what is no file, but was decoded from one
	depends func(string) string // what of the path its verdicts depend on
	unsaid  bool                // its silence means nothing: it is not named among those that looked
}

// The scanners of ours, by name.
const (
	formatName   = "format"
	entropyName  = "size"
	metadataName = "content"
	secretsName  = "secrets"
	malwareName  = "malware"
	limitsName   = "limits" // what could not be looked at
)

// New makes a Set. It does no work and meets nobody: what a scanner needs is
// there when it is first used.
func New(o Options) (*Set, error) {
	limits, err := o.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	whole := func(p string) string { return p }
	// What is in page.html.gz is page.html: all endings count.
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
			// It knows one test file. To call that "ok" would be a promise.
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

// NotScanned is what About says of a scanner that has nothing to scan with.
const NotScanned = "not scanned"

// hasEngine reports whether there is a program that knows malware.
func (o Options) hasEngine() bool { return o.Clamd != nil || len(o.Clamscan)+len(o.Yara) > 0 }

// engines are the scanners that are programs of others.
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

// About says what each scanner can do here, a line each.
func (s *Set) About() []string { return s.about }

// bytes returns all of a content.
func (c Content) bytes() ([]byte, error) {
	if c.data != nil || c.Open == nil {
		return c.data, nil
	}
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// One byte more than there should be shows that there is more.
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

// of makes a content of bytes.
func of(name string, data []byte) Content {
	return Content{Path: name, Size: int64(len(data)), data: data,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// line is the number of the line in which an offset lies.
func line(data []byte, offset int) int {
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}
