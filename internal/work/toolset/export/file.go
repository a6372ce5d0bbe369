package export

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of one export.
const (
	maxFiles = 10_000
	maxBytes = 4 << 30
	maxShown = 4 << 20 // bytes of content that are shown; the rest is shown by hash
)

type exportArgs struct {
	Path      string   `json:"path,omitempty" jsonschema:"a file, or a directory with its contents"`
	Paths     []string `json:"paths,omitempty" jsonschema:"several of them"`
	To        string   `json:"to" jsonschema:"a directory of yours: absolute, relative to the current directory, or below ~"`
	Overwrite bool     `json:"overwrite,omitempty" jsonschema:"replace files that are there"`
	Override  []string `json:"override,omitempty" jsonschema:"pass on a file that a scanner holds back: PATH=REASON; the journal records the reason"`
}

// export returns the tool with which the user writes files into a directory.
func (s Set) export() tool.Tool {
	const op = "file_export"
	t := newTool(op, "Copy files into a directory of yours that workers cannot see. It always shows the files and asks. It skips symlinks, and overwrites files only if overwrite is set.")
	t.Verbs = []policy.Verb{policy.Read}
	return tool.New(t, func(_ context.Context, names tool.Names, a exportArgs) (tool.Plan, error) {
		if s.Locate == nil {
			return tool.Plan{}, nowhereError(op)
		}
		if a.Path != "" {
			a.Path, a.Paths = "", append([]string{a.Path}, a.Paths...)
		}
		if len(a.Paths) == 0 {
			return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "say what to export: --path /out/report.md"}
		}
		var effects []policy.Effect
		for i, name := range a.Paths {
			at, err := names.Locate(op, name, sandbox.ReadOnly, true)
			if err != nil {
				return tool.Plan{}, err
			}
			a.Paths[i] = at
			effects = append(effects, names.ReadTreeEffects(at)...)
		}
		to, err := s.Locate(a.To)
		if err != nil {
			return tool.Plan{}, err
		}
		a.To = string(to) // the approval covers the absolute path
		prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
			e := &exporter{Set: s, op: op, files: files, args: a, dir: targetDir{path: a.To, own: s.Own}}
			return e.prepare(ctx)
		}
		plan := tool.NewChangePlan(prepare, effects...)
		plan.Args = a
		return plan, nil
	})
}

func nowhereError(op string) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrNotFound, Hint: "this tool works only on the command line: golem tool " + op}
}

// An exporting is a call of file_export.
type exporter struct {
	Set
	op    string
	files *sandbox.Sandbox
	args  exportArgs
	dir   targetDir

	list  []exported
	bytes int64
	shown int      // bytes of diffs
	left  []string // skipped symlinks and special files
}

// An exported is a file with its new name.
type exported struct {
	heldFile
	to     string // relative to the directory, with slashes
	was    string // SHA-256 of the file that it replaces
	change tool.Change
}

func (e *exporter) refuse(name string, code sandbox.Code, format string, args ...any) error {
	return &sandbox.Error{Op: e.op, Path: name, Code: code, Hint: fmt.Sprintf(format, args...)}
}

// prepare collects the files, and the files that they replace.
func (e *exporter) prepare(ctx context.Context) (tool.Preparation, error) {
	for _, name := range e.args.Paths {
		if err := e.add(ctx, name); err != nil {
			return tool.Preparation{}, err
		}
	}
	if len(e.list) == 0 {
		return tool.Preparation{}, e.refuse(e.args.Paths[0], sandbox.ErrNotFound, "there is no file in it to export%s", e.describeSkipped())
	}
	whole, err := e.examineNames()
	if err != nil {
		return tool.Preparation{}, err
	}
	if err := e.dir.check(e.op); err != nil {
		return tool.Preparation{}, err
	}
	var changes []tool.Change
	for i := range e.list {
		f := &e.list[i]
		if f.was, err = e.dir.hashAt(e.op, f.to); err != nil {
			return tool.Preparation{}, err
		}
		if f.was != "" && !e.args.Overwrite {
			return tool.Preparation{}, e.refuse(f.name, sandbox.ErrExists, "%s exists; name another directory, or overwrite it with --overwrite", sandbox.Shown(f.to))
		}
		f.change.To, f.change.Base = filepath.Join(e.dir.path, filepath.FromSlash(f.to)), f.was
		if f.was != "" {
			f.change.About = "replaces the file that is there; " + f.change.About
		}
		changes = append(changes, f.change)
	}
	var list []heldFile
	for _, f := range e.list {
		list = append(list, f.heldFile)
	}
	wish := fmt.Sprintf("export %s, %s, to %s", visible.Count(len(list), "file"), visible.Amount(e.bytes), e.dir.path)
	return newPreparation(e.op, wish, e.run, list, whole, changes, e.args.Override)
}

// add adds the file or directory at a name.
func (e *exporter) add(ctx context.Context, name string) error {
	inner := strings.TrimPrefix(name, "/")
	if name == "/" {
		inner = "."
	}
	info, err := e.files.Lstat(inner)
	switch {
	case err != nil:
		return withOp(e.op, name, err)
	case info.IsDir():
		return e.addDir(ctx, name)
	case !info.Mode().IsRegular():
		return e.refuse(name, sandbox.ErrNotRegular, "only files can be exported; name the target of the symlink")
	}
	return e.addFile(ctx, name, name)
}

func (e *exporter) addDir(ctx context.Context, name string) error {
	list, err := e.files.Walk(ctx, name, func(_ string, entry sandbox.Entry) (keep, enter bool) {
		if isGitName(entry.Name) {
			return true, false
		}
		return !entry.IsDir(), true
	}, sandbox.Budget{Results: maxFiles + 1})
	if err != nil {
		return withOp(e.op, name, err)
	}
	if list.Cut != "" || len(list.Found) > maxFiles || list.Unread > 0 {
		return e.refuse(name, sandbox.ErrLimit, "golem cannot read all of it (at most %d files, all readable); name smaller directories", maxFiles)
	}
	for _, f := range list.Found {
		if !f.Type.IsRegular() || isGitName(path.Base(f.Path)) {
			e.left = append(e.left, f.Path)
			continue
		}
		if err := e.addFile(ctx, name, f.Path); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds one file below a name that the user gave.
func (e *exporter) addFile(ctx context.Context, named, name string) error {
	to := pathBelow(named, name)
	if why := badName(to, runtime.GOOS == "windows"); why != "" {
		return e.refuse(name, sandbox.ErrInvalid, "the name does not work on every disk: %s; rename it first", why)
	}
	h, err := e.readAndExamine(ctx, e.op, e.files, name)
	if err != nil {
		return err
	}
	if e.bytes += h.size; e.bytes > maxBytes || len(e.list) == maxFiles {
		return e.refuse(name, sandbox.ErrTooLarge, "golem exports at most %d files and %s at once; export less", maxFiles, visible.Amount(maxBytes))
	}
	f := exported{heldFile: h, to: to, change: h.toolChange(tool.Copy, "")}
	if e.shown += len(f.change.Diff); e.shown > maxShown && f.change.Diff != "" {
		f.change.Diff, f.change.Omitted = "", "there is too much to show; export less at a time"
	}
	f.text = nil // there may be many files
	e.list = append(e.list, f)
	return nil
}

// examineNames examines the names of all files. It refuses two names that are equal on some
// systems.
func (e *exporter) examineNames() ([]review.Flag, error) {
	var changes []review.FileChange
	names := make(map[string]bool)
	for _, f := range e.list {
		if names[f.to] {
			return nil, e.refuse(f.name, sandbox.ErrExists, "two of the files would be %s; export them one by one, into different directories", sandbox.Shown(f.to))
		}
		names[f.to] = true
		changes = append(changes, review.FileChange{Path: f.to, Operation: "create"})
	}
	flags := review.All(changes)
	for _, f := range flags {
		if f.Kind == review.Case {
			return nil, e.refuse("", sandbox.ErrExists, "%s is %s; rename one first", sandbox.Shown(f.Path), f.Text)
		}
	}
	return flags, nil
}

// run writes the files, each only if it is as it was shown.
func (e *exporter) run(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
	written, err := e.dir.writeAll(ctx, e.op, e.list, func(name string) (io.ReadCloser, error) { return files.Open(strings.TrimPrefix(name, "/")) })
	data := exportedData{To: e.dir.path, Files: []string{}}
	for _, f := range e.list[:written] {
		data.Files = append(data.Files, f.to)
		data.Bytes += f.size
	}
	if err != nil {
		if written > 0 {
			err = e.refuse("", sandbox.CodeOf(err), "%d of %d files were written before this: %s", written, len(e.list), hint(err))
		}
		return tool.Result{}, err
	}
	text := fmt.Sprintf("exported %s, %s, to %s", visible.Count(written, "file"), visible.Amount(data.Bytes), data.To)
	r := tool.Result{Text: text, Data: data, Record: text}
	if len(e.left) > 0 {
		r.Notes = append(r.Notes, strings.TrimPrefix(e.describeSkipped(), "; "))
	}
	return r, nil
}

type exportedData struct {
	To    string   `json:"to"`
	Files []string `json:"files"`
	Bytes int64    `json:"bytes"`
}

// describeSkipped describes what was skipped.
func (e *exporter) describeSkipped() string {
	if len(e.left) == 0 {
		return ""
	}
	text := "; skipped, because golem exports no symlinks and no files of git: " + sandbox.Shown(e.left[0])
	if len(e.left) > 1 {
		text += fmt.Sprintf(" and %d more", len(e.left)-1)
	}
	return text
}
