package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// Limits of one intake.
const (
	maxDocument   = 64_000_000 // bytes of a document, and of all that a converter makes of it
	maxResults    = 1000       // files that a converter makes
	maxIntakeTime = 5 * time.Minute
	maxTold       = 4  // findings that an error repeats
	maxNotes      = 10 // findings that are notes
)

const intakeOp = "intake"

// An Intake is what the tool intake needs. With the zero Intake the tool can only be listed.
type Intake struct {
	Project  *project.Project
	Scanners func() (*scan.Set, error)
	Jail     jail.Policy // of converters, without mounts and network
	Now      func() time.Time
	// Owner names the golem that Lock is about, so that another one, such as that of another
	// machine with the same directory, keeps the documents that it is storing.
	Owner string
	// Lock waits until no other golem stores documents of the program.
	Lock func(ctx context.Context) (release func() error, err error)
}

// IntakeArgs are the arguments of intake.
type IntakeArgs struct {
	Source   string `json:"source" jsonschema:"a file of yours, or an address with http:// or https://"`
	To       string `json:"to,omitempty" jsonschema:"a directory in an untrusted mount; the only untrusted mount if not given"`
	Raw      bool   `json:"raw,omitempty" jsonschema:"store the document as it is, and convert nothing"`
	Jail     string `json:"jail,omitempty" enum:"container,namespaces,landlock" jsonschema:"the weakest level that the converter may run in; container if not given"`
	Override string `json:"override,omitempty" jsonschema:"why you store what a scanner holds back"`
	SHA256   string `json:"sha256,omitempty" jsonschema:"the SHA-256 that the document must have"`
}

// ToolName implements tool.Arguments.
func (IntakeArgs) ToolName() string { return intakeOp }

// A content is a document, or a file that a converter made of it.
type content struct {
	name string
	data []byte
	hide func(text string) string // removes the user's credentials; nil for a file of the user
}

func (c content) sum() string {
	sum := sha256.Sum256(c.data)
	return hex.EncodeToString(sum[:])
}

// An origin says where a stored document comes from. It is the result of the tool, and is
// stored beside the document.
type origin struct {
	At        string       `json:"at"`
	Source    string       `json:"source"` // an address, or the name of a file without its directory
	SHA256    string       `json:"sha256"`
	Bytes     int          `json:"bytes"`
	Time      time.Time    `json:"time"`
	Converter string       `json:"converter,omitempty"`
	Level     string       `json:"level,omitempty"`
	Files     []originFile `json:"files"`
}

type originFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// OriginName is the file with the origin of a stored document.
const OriginName = "origin.json"

// intake returns the tool with which the user brings a document in.
func (s Set) intake() tool.Tool {
	t := tool.Tool{Name: intakeOp, Toolset: "web", Mode: policy.Manual, ForUser: true, ChangesState: true, Unlisted: true, Category: "Web",
		Description: "Store a document of a stranger in an untrusted mount, with text and images that a converter makes of it in the jail."}
	return tool.New(t, func(_ context.Context, _ tool.Names, a IntakeArgs) (tool.Plan, error) {
		if s.Intake.Project == nil {
			return tool.Plan{}, intakeError("", sandbox.ErrNotFound, "this tool works only on the command line: golem intake FILE")
		}
		to, err := s.Intake.place(a.To)
		if err != nil {
			return tool.Plan{}, err
		}
		a.To = to.dir
		if !isAddress(a.Source) {
			return s.planFile(a, to)
		}
		g := s.download()
		u, tainted, ask, err := g.check(a.Source)
		if err != nil {
			return tool.Plan{}, err
		}
		a.Source = u.String()
		plan := tool.NewReadPlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
			doc, from, err := g.fetch(ctx, u, tainted, s.Intake.Project)
			if err != nil {
				return tool.Result{}, err
			}
			return s.Intake.run(ctx, a, to, doc, from)
		})
		plan.Args = a
		if ask {
			plan.Asks = u
			plan.Why = "a host that is not on the list"
		}
		return plan, nil
	})
}

// planFile plans the intake of a file of the user. The journal gets its hash before anything
// is done with it.
func (s Set) planFile(a IntakeArgs, to place) (tool.Plan, error) {
	file, err := filepath.Abs(a.Source)
	if err != nil {
		return tool.Plan{}, err
	}
	doc, err := readDocument(file)
	if err != nil {
		return tool.Plan{}, err
	}
	if err := a.checkSum(doc); err != nil {
		return tool.Plan{}, err
	}
	a.Source, a.SHA256 = file, doc.sum()
	plan := tool.NewReadPlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
		return s.Intake.run(ctx, a, to, doc, doc.name)
	})
	plan.Args = a
	return plan, nil
}

// isAddress reports whether a source is a URL and not a file.
func isAddress(source string) bool {
	scheme, _, ok := strings.Cut(source, "://")
	return ok && !strings.ContainsAny(scheme, `/\`)
}

func intakeError(name string, code sandbox.Code, format string, args ...any) error {
	return &sandbox.Error{Op: intakeOp, Path: name, Code: code, Hint: fmt.Sprintf(format, args...)}
}

func (a IntakeArgs) checkSum(doc content) error {
	if sum := doc.sum(); a.SHA256 != "" && !strings.EqualFold(a.SHA256, sum) {
		return intakeError(doc.name, sandbox.ErrConflict, "its SHA-256 is %s; nothing was stored", sum)
	}
	return nil
}

// readDocument reads a file of the user. It opens no pipe, no device, and no symlink that
// leads out of the directory: the directory may be a stranger's, too.
func readDocument(file string) (content, error) {
	doc := content{name: filepath.Base(file)}
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(filepath.Dir(file)), Access: sandbox.ReadOnly}}})
	if err != nil {
		return doc, intakeError(doc.name, sandbox.CodeOf(err), "golem cannot open its directory")
	}
	f, err := files.Open(doc.name)
	if err != nil {
		return doc, intakeError(doc.name, sandbox.CodeOf(err), "name a file that is there, and no pipe, no device and no symlink that leads out of its directory")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return doc, intakeError(doc.name, sandbox.ErrIsDir, "it takes files and addresses")
	}
	doc.data, err = readAtMost(f)
	if err != nil {
		return doc, intakeError(doc.name, sandbox.CodeOf(err), "%s", hintOf(err))
	}
	return doc, nil
}

// readAtMost reads a whole document.
func readAtMost(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = intakeError("", sandbox.ErrTooLarge, "a document has at most %s", visible.Amount(maxDocument))
	}
	return data, err
}

// hintOf returns the hint of an error of golem, or its text.
func hintOf(err error) string {
	if known, is := err.(*sandbox.Error); is {
		return known.Hint
	}
	return err.Error()
}

// download returns what gets documents.
func (s Set) download() getter { return getter{s.Fetcher, intakeOp, maxIntakeTime} }

// fetch gets a document, and returns its address after redirects.
func (g getter) fetch(ctx context.Context, u *url.URL, tainted bool, p *project.Project) (doc content, from string, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.time)
	defer cancel()
	a, stop, err := g.open(ctx, u, tainted)
	if err != nil {
		return doc, "", err
	}
	if stop != nil {
		return doc, "", intakeError(u.Redacted(), "blocked", "it redirects to %s, which needs an approval of its own; run golem intake with that address", stop)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return doc, "", intakeError(a.from.Redacted(), "network", "it answered %d %s", a.StatusCode, http.StatusText(a.StatusCode))
	}
	if doc.data, err = readAtMost(a.Body); err != nil {
		if sandbox.CodeOf(err) == sandbox.ErrTooLarge {
			return doc, "", err
		}
		return doc, "", g.failure(ctx, a.from, err)
	}
	doc.hide = a.hide
	if doc.name = path.Base(a.from.Path); doc.name == "/" || doc.name == "." {
		doc.name = a.from.Hostname()
	}
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	suffix := map[string]string{"text/html": ".html", "application/xhtml+xml": ".html", "application/pdf": ".pdf", "text/plain": ".txt"}[kind]
	if p.ConverterFor(doc.name) == nil && !strings.HasSuffix(doc.name, suffix) {
		doc.name += suffix
	}
	return doc, a.hide(withoutSecrets(a.from)), nil
}

// withoutSecrets returns an address without what may be a key in it: a password, the fragment,
// and long values of the query, such as a signature or a token.
func withoutSecrets(u *url.URL) string {
	const most = 15
	shown := *u
	shown.Fragment, shown.RawFragment = "", ""
	var query []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if name, value, _ := strings.Cut(part, "="); len(value) > most {
			part = name + "=hidden"
		} else if len(part) > 2*most {
			part = "hidden"
		}
		query = append(query, part)
	}
	shown.RawQuery = strings.Join(query, "&")
	return shown.Redacted()
}

// run converts, scans and stores a document.
func (in Intake) run(ctx context.Context, a IntakeArgs, to place, doc content, from string) (tool.Result, error) {
	if err := a.checkSum(doc); err != nil {
		return tool.Result{}, err
	}
	o := origin{Source: from, SHA256: doc.sum(), Bytes: len(doc.data), Time: in.Now().UTC()}
	o.At = path.Join(to.dir, safeName(doc.name)+"-"+o.SHA256[:8])
	r := tool.Result{Record: fmt.Sprintf("%s, sha256 %s, %d bytes", a.Source, o.SHA256, o.Bytes)}
	fail := func(err error) (tool.Result, error) {
		if known, is := err.(*sandbox.Error); is {
			r.Err = known
			return r, nil
		}
		return r, err
	}
	if found, err := to.files.Exists(o.At); err != nil || found {
		if err == nil {
			err = intakeError(o.At, sandbox.ErrExists, "the same document was stored before; remove the directory to store it again")
		}
		return fail(err)
	}
	list := []content{{name: "original" + suffixOf(doc.name), data: doc.data}}
	switch c := in.Project.ConverterFor(doc.name); {
	case a.Raw:
	case c != nil:
		results, ran, err := in.convert(ctx, c, suffixOf(doc.name), doc, a.Jail)
		if err != nil {
			return fail(err)
		}
		list = append(list, results...)
		o.Converter, o.Level = c.Name, ran.Level.String()
		if ran.Level < jail.Container {
			r.Notes = append(r.Notes, "the converter ran at the level "+o.Level+", because of --jail: it used the kernel of this machine; the level container has its own")
		}
	case !filecontent.IsText(doc.data):
		return fail(intakeError(doc.name, sandbox.ErrInvalid, "it is no text, and no converter in golem-forge.config.yaml takes this suffix; nothing was stored; add one below intake, such as %s, or use --raw to store it as it is", `pdf: {suffixes: [.pdf], command: [pdftotext, -layout, "{}", "-"]}`))
	}
	for _, c := range list {
		if text := string(c.data); doc.hide != nil && doc.hide(text) != text {
			return fail(intakeError(c.name, "blocked", "it contains a credential of yours; nothing was stored"))
		}
	}
	notes, err := in.scan(ctx, list, a.Override)
	if err != nil {
		return fail(err)
	}
	r.Notes = append(r.Notes, notes...)
	for _, c := range list {
		o.Files = append(o.Files, originFile{c.name, c.sum(), len(c.data)})
	}
	about, err := json.MarshalIndent(o, "", "  ")
	if err == nil {
		err = in.store(ctx, to.files, o.At, append(list, content{name: OriginName, data: append(about, '\n')}))
	}
	if err != nil {
		return fail(err)
	}
	r.Text, r.Data = o.String(), o
	r.Record += "; " + o.Record()
	return r, nil
}

// String returns the origin for a person.
func (o origin) String() string {
	const most = 6
	text := fmt.Sprintf("%s is at %s:", visible.Line(o.Source, 200), o.At)
	for i, f := range o.Files {
		if i == most {
			text += fmt.Sprintf(" and %d more", len(o.Files)-most)
			break
		}
		text += " " + f.Name
	}
	if o.Converter != "" {
		text += fmt.Sprintf("\nconverted by %s at the level %s", o.Converter, o.Level)
	}
	return text + "\nsha256 " + o.SHA256
}

// Record returns the origin for the journal, with the hashes of the first files.
func (o origin) Record() string {
	text := "stored at " + o.At
	if o.Converter != "" {
		text += fmt.Sprintf("; converted by %s at the level %s", o.Converter, o.Level)
	}
	const most = 20
	for i, f := range o.Files {
		if i == most {
			return text + fmt.Sprintf("; and %d more", len(o.Files)-most)
		}
		text += fmt.Sprintf("; %s sha256 %s", f.Name, f.SHA256)
	}
	return text
}

// safeName returns a name for a document or a result of a converter that means nothing to a
// terminal, a shell, git or an agent.
func safeName(name string) string {
	const most = 80
	safe := []byte(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, name))
	if len(safe) > most { // the end has the suffix
		safe = slices.Concat(safe[:most-20], safe[len(safe)-20:])
	}
	safe = bytes.TrimLeft(safe, "-.")
	if len(bytes.Trim(safe, "._-")) == 0 {
		return "document"
	}
	return string(safe)
}

// suffixOf returns the suffix of a document, "" for an odd one.
func suffixOf(name string) string {
	suffix := strings.ToLower(path.Ext(name))
	if len(suffix) < 2 || len(suffix) > 10 || safeName("x"+suffix) != "x"+suffix {
		return ""
	}
	return suffix
}

// scan scans what would be stored. Its error says what scanners hold back, unless the user has
// given a reason.
func (in Intake) scan(ctx context.Context, list []content, override string) (notes []string, err error) {
	scanners, err := in.Scanners()
	if err != nil {
		return nil, intakeError("", "scan", "golem cannot start the scanners, and stores nothing without them: %s", err)
	}
	for _, c := range list {
		v := scanners.Scan(ctx, scan.Content{Path: c.name, Size: int64(len(c.data)), Hash: c.sum(), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.data)), nil }})
		if err := ctx.Err(); err != nil {
			return nil, intakeError("", "stopped", "nothing was stored")
		}
		var held, said []string
		for _, f := range v.Findings {
			if text := f.Scanner + ": " + f.What; f.Hold {
				held = append(held, text)
			} else {
				said = append(said, text)
			}
		}
		if filecontent.IsText(c.data) {
			for _, f := range review.Shorten(review.Flags(review.FileChange{Path: c.name, Operation: "create", OldMode: "000000", Mode: "100644", New: c.data, Size: int64(len(c.data)), Sum: c.sum()})) {
				said = append(said, f.Text)
			}
		}
		if v.Held && override == "" {
			if len(held) == 0 {
				held = []string{"a scanner holds it back"}
			}
			return nil, intakeError(c.name, "scan", "%s; nothing was stored; to store it anyway: --override REASON", strings.Join(held[:min(len(held), maxTold)], "; "))
		}
		for _, text := range append(held, said...) {
			notes = append(notes, c.name+": "+text)
		}
	}
	if more := len(notes) - maxNotes; more > 0 {
		notes = append(notes[:maxNotes], fmt.Sprintf("and %s; golem scan shows them", visible.Count(more, "more finding")))
	}
	return notes, nil
}
