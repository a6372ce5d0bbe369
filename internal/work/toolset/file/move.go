package file

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

type moveArgs struct {
	From string `json:"from" jsonschema:"virtual path such as /dir/old"`
	To   string `json:"to" jsonschema:"its new path; nothing may be there"`
}

type copyArgs struct {
	From string `json:"from" jsonschema:"virtual path such as /dir/file"`
	To   string `json:"to" jsonschema:"the copy's path; nothing may be there"`
}

// Moved is the result of a move or a copy.
type Moved struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// moveFile renames a file, directory or symlink.
func moveFile() tool.Tool {
	const op = "move"
	return tool.New(changer("move_file", "Move or rename a file or directory. Never overwrites: use delete_file on the target first.",
		policy.Read, policy.Write, policy.Delete),
		func(_ context.Context, names tool.Names, a moveArgs) (tool.Plan, error) {
			from, err := names.Locate(op, a.From, sandbox.ReadWrite, true)
			if err == nil {
				err = checkMovable(names, op, from)
			}
			if err != nil {
				return tool.Plan{}, err
			}
			to, err := names.Locate(op, a.To, sandbox.ReadWrite, true)
			if err != nil {
				return tool.Plan{}, err
			}
			prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
				return prepareRelocation(ctx, files, names, tool.Change{Path: from, Op: tool.Move, To: to}, func(files *sandbox.Sandbox) error {
					return files.Move(from, to)
				})
			}
			// The result reveals whether the new name exists, so the call also counts as
			// a read of it.
			effects := append([]policy.Effect{{Verb: policy.Read, Target: from, Tree: true},
				{Verb: policy.Delete, Target: from, Tree: true}, {Verb: policy.Write, Target: to, Tree: true}}, names.ReadsToApprove(to)...)
			return tool.NewChangePlan(prepare, effects...), nil
		})
}

// copyFile copies a file.
func copyFile() tool.Tool {
	const op = "copy"
	return tool.New(changer("copy_file", "Copy a file. Never overwrites.", policy.Read, policy.Write),
		func(_ context.Context, names tool.Names, a copyArgs) (tool.Plan, error) {
			from, err := names.Locate(op, a.From, sandbox.ReadOnly, false)
			if err != nil {
				return tool.Plan{}, err
			}
			to, err := names.Locate(op, a.To, sandbox.ReadWrite, true)
			if err != nil {
				return tool.Plan{}, err
			}
			prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
				info, err := files.Stat(from)
				if err == nil && info.IsDir() {
					err = &sandbox.Error{Path: from, Code: sandbox.ErrIsDir, Hint: "only files can be copied; make the new directory with make_directory, and copy each file"}
				}
				if most := cmp.Or(names.MaxBytes(to), sandbox.MaxCopy); err == nil && info.Size() > min(most, sandbox.MaxCopy) {
					err = tooLargeError(from, fmt.Sprintf("%d bytes, at most %d", info.Size(), min(most, sandbox.MaxCopy)))
				}
				if err != nil {
					return tool.Preparation{}, withOp(op, err)
				}
				return prepareRelocation(ctx, files, names, tool.Change{Path: from, Op: tool.Copy, To: to}, func(files *sandbox.Sandbox) error {
					_, err := files.Copy(from, to)
					return err
				})
			}
			// The result reveals whether the new name exists, so the call also counts as
			// a read of it.
			effects := append([]policy.Effect{{Verb: policy.Read, Target: from}, {Verb: policy.Write, Target: to}}, names.ReadsToApprove(to)...)
			return tool.NewChangePlan(prepare, effects...), nil
		})
}

// prepareRelocation prepares a move or a copy. The function act does it.
func prepareRelocation(ctx context.Context, files *sandbox.Sandbox, names tool.Names, c tool.Change, act func(*sandbox.Sandbox) error) (tool.Preparation, error) {
	op := string(c.Op)
	seen, err := examine(ctx, files, op, c.Path)
	if err == nil {
		err = checkVacant(files, op, c.Path, c.To)
	}
	if err != nil {
		return tool.Preparation{}, err
	}
	c.Base, c.About, c.Tree, c.Omitted = seen.version, seen.describe()+seen.newMode(files, c), seen.names, seen.describeOmitted()
	seen.addCarried(files, names, &c)
	if seen.mode.IsDir() || seen.mode.IsRegular() {
		c.Mode = formatMode(seen.mode)
		if c.Op == tool.Copy {
			c.Mode = formatMode(seen.mode.Perm()) // a copy does not get the other bits
		}
	}
	return tool.NewPreparation(func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		if err := seen.checkUnchanged(ctx, files, op, c.Path); err != nil {
			return tool.Result{}, err
		}
		if err := act(files); err != nil {
			var why *sandbox.Error
			if errors.As(err, &why) && why.Code == sandbox.ErrTooLarge {
				err = tooLargeError(c.Path, why.Hint)
			}
			return tool.Result{}, withOp(op, err)
		}
		past := map[tool.Op]string{tool.Move: "moved", tool.Copy: "copied"}[c.Op]
		return tool.Result{Text: fmt.Sprintf("%s %s to %s: %s", past, sandbox.Shown(c.Path), sandbox.Shown(c.To), seen.describe()),
			Data: Moved{c.Path, c.To}}, nil
	}, c).WithUndo(), nil
}

// addCarried adds to a move or copy what its approval covers besides the names. If a file
// stays in its mount, its version is enough: anyone who may read one name may read the
// other. In another mount other people and rules trust it, and programs run files with
// some names. Where only the old name can be written without a question, nobody may have seen
// the content. In these cases addCarried shows the content, or says that it is not shown.
func (s sight) addCarried(files *sandbox.Sandbox, names tool.Names, c *tool.Change) {
	from, _ := files.MountOf(c.Path)
	to, _ := files.MountOf(c.To)
	newName := func(name string) string { return c.To + strings.TrimPrefix(name, c.Path) }
	why, code := review.MovedCode(c.Path, c.To)
	if code && !s.mode.IsDir() {
		c.About += "; becomes code: " + why
	}
	isShown := from.Target == to.Target && !code && !names.AsksOnlyAt(c.To, c.Path)
	switch {
	case s.mode.IsDir():
		count, about := 0, ""
		for _, name := range s.names {
			if _, code := review.MovedCode(name, newName(name)); code {
				count, about = count+1, "becomes code where it goes"
			}
		}
		if count == 0 {
			count, about = s.countUnseen(names, newName), "no question has shown"
		}
		if count > 0 && c.Omitted == "" {
			c.Omitted = "the content of " + visible.Count(count, "name") + ", which " + about
		}
	case s.mode.IsRegular():
		if c.Becomes = s.version; isShown {
			return
		}
		if s.content == nil && s.size > 0 {
			c.Omitted = "too large to show, or unreadable"
			return
		}
		new := tool.DescribeChange(c.To, sandbox.Version{}, nil, s.content)
		c.Diff, c.Omitted, c.Flags = new.Diff, new.Omitted, new.Flags
	case !isShown:
		c.Omitted = "where the symlink leads"
	}
}

// countUnseen returns how many names in a directory can be written without a question, and
// need one where they go.
func (s sight) countUnseen(names tool.Names, newName func(string) string) (n int) {
	for _, name := range s.names {
		if names.AsksOnlyAt(newName(name), name) {
			n++
		}
	}
	return n
}

// newMode describes the permission bits of the new file of a copy or a move, if they are
// unusual. A file that moves within its mount is not new.
func (s sight) newMode(files *sandbox.Sandbox, c tool.Change) string {
	from, _ := files.MountOf(c.Path)
	to, _ := files.MountOf(c.To)
	if bits := s.mode.Perm(); s.mode.IsRegular() && bits != 0o644 && bits != 0o664 && (c.Op == tool.Copy || from.Target != to.Target) {
		return ", mode " + formatMode(bits)
	}
	return ""
}

// formatMode returns permission bits in the form that chmod accepts.
func formatMode(mode fs.FileMode) string {
	bits := mode.Perm()
	for i, special := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if mode&special != 0 {
			bits |= 0o1000 << i
		}
	}
	return fmt.Sprintf("%04o", uint32(bits))
}

// checkMovable refuses to move or delete a permanent name, so that golem does not ask for
// approval of it.
func checkMovable(names tool.Names, op, name string) error {
	if names.IsPermanent(name) {
		return &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInvalid, Hint: "a mount is here or below, and cannot be moved or deleted; name something in it"}
	}
	return nil
}

// checkVacant returns an error if the new name exists already.
func checkVacant(files *sandbox.Sandbox, op, from, to string) error {
	info, err := lstat(files, op, to)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return nil
	case err != nil:
		return err
	case from == to:
		return &sandbox.Error{Op: op, Path: to, Code: sandbox.ErrExists, Hint: "from and to are the same"}
	case info.IsDir():
		return &sandbox.Error{Op: op, Path: to, Code: sandbox.ErrExists,
			Hint: "it is a directory; to put the file into it, name the file: " + sandbox.Shown(path.Join(to, path.Base(from)))}
	}
	hint := "it is not overwritten; choose another name"
	if op == string(tool.Move) { // a caller that may move may delete
		hint += ", or delete_file it first"
	}
	return &sandbox.Error{Op: op, Path: to, Code: sandbox.ErrExists, Hint: hint}
}

const (
	maxHashed = 1 << 20 // bytes of a file whose version includes its content
	maxTree   = 100_000 // entries of a directory to move or delete as a whole
	maxNamed  = 8 << 20 // bytes of their names to show
)

// A sight is the state of a name when a change of it was planned.
type sight struct {
	// version differs after any change, for a directory also after changes inside it.
	version     string
	mode        fs.FileMode
	size        int64
	files, dirs int      // in a directory
	unread      int      // entries in it that could not be examined
	content     []byte   // of a file of at most maxHashed bytes
	names       []string // of the entries in a directory, up to maxNamed bytes
	long        int      // bytes of all these names
}

// examine returns the state of a name. It does not follow a symlink.
func examine(ctx context.Context, files *sandbox.Sandbox, op, name string) (sight, error) {
	info, err := lstat(files, op, name)
	if err != nil {
		return sight{}, err
	}
	s := sight{version: info.Version().String(), mode: info.Mode(), size: info.Size()}
	switch {
	case info.IsDir():
		return s, s.examineInside(ctx, files, op, name)
	case info.Mode().IsRegular() && info.Size() <= maxHashed:
		// A file that cannot be read can still be moved or deleted.
		if data, version, err := files.ReadVersion(name); err == nil {
			s.content, s.version = data, version.String()
		}
	}
	return s, nil
}

// examineInside records everything in a directory.
func (s *sight) examineInside(ctx context.Context, files *sandbox.Sandbox, op, name string) error {
	found, err := files.Walk(ctx, name, nil, sandbox.Budget{Entries: maxTree + 1, Results: maxTree + 1})
	if err != nil {
		return withOp(op, err)
	}
	if found.Cut == sandbox.CutCancelled {
		return &sandbox.Error{Op: op, Path: name, Code: errTimeout, Hint: "it was stopped before anything was done"}
	}
	if found.Cut != "" || len(found.Found) > maxTree {
		return &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrLimit,
			Hint: fmt.Sprintf("it has more than %d entries; use its directories one by one", maxTree)}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d unread\n", found.Unread)
	s.size, s.unread = 0, found.Unread
	for _, f := range found.Found {
		info, err := lstat(files, op, f.Path)
		if err != nil {
			return err
		}
		if s.long += len(f.Path); s.long <= maxNamed {
			s.names = append(s.names, f.Path)
		}
		version := ""
		switch {
		case info.IsDir(): // its entries have their own lines
			s.dirs++
		default:
			s.files++
			s.size += info.Size()
			version = info.Version().String()
		}
		fmt.Fprintf(sum, "%q %v %s\n", f.Path, info.Mode(), version)
	}
	s.version = hex.EncodeToString(sum.Sum(nil)[:16])
	return nil
}

// checkUnchanged returns a conflict if the state of the name has changed. It cannot see changes
// between this check and the operation after it.
func (s sight) checkUnchanged(ctx context.Context, files *sandbox.Sandbox, op, name string) error {
	now, err := examine(ctx, files, op, name)
	if code := sandbox.CodeOf(err); code == sandbox.ErrLimit || code == errTimeout {
		return err
	}
	if err != nil || now.version != s.version || now.mode != s.mode {
		return changedError(op, name)
	}
	return nil
}

// describeOmitted says how many entries of a directory are not listed. It returns "" for none.
func (s sight) describeOmitted() string {
	if more := s.files + s.dirs + s.unread - len(s.names); more > 0 && s.mode.IsDir() {
		return fmt.Sprintf("%d names in the directory, which cannot be shown", more)
	}
	return ""
}

// describe describes the kind and the size.
func (s sight) describe() string {
	switch {
	case s.mode.IsDir():
		about := "a directory with " + visible.Count(s.files, "file") + ", " + visible.Count(s.dirs, "directory") + ", " + visible.Amount(s.size)
		if s.unread > 0 {
			about += fmt.Sprintf(", and %d more that cannot be shown", s.unread)
		}
		return about
	case s.mode&fs.ModeSymlink != 0:
		return "a symlink"
	case !s.mode.IsRegular():
		return "a special file"
	}
	return visible.Amount(s.size)
}

// lstat describes a canonical name. It does not follow a symlink.
func lstat(files *sandbox.Sandbox, op, name string) (sandbox.Info, error) {
	inner := "."
	if name != "/" {
		inner = name[1:]
	}
	info, err := files.Lstat(inner)
	if err != nil {
		return sandbox.Info{}, withOp(op, err)
	}
	return info.(sandbox.Info), nil
}
