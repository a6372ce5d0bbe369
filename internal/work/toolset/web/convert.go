package web

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// convert runs a converter in a jail of its own. The jail shows no directory of the host: the
// document goes in through standard input, and the results come out as one archive through
// standard output. So a converter that the document has taken over can change only its own
// results.
func (in Intake) convert(ctx context.Context, c *project.Converter, suffix string, doc content, level string) ([]content, jail.Result, error) {
	p := in.Jail
	p.Limits.Output, p.Strongest = maxDocument+1<<20, true
	least, err := jail.ParseLevel(cmp.Or(level, jail.Container.String()))
	if err != nil {
		return nil, jail.Result{}, jail.CommandError(err)
	}
	weaker := p.Least < least // another level can be accepted
	p.Least = max(p.Least, least)
	j, err := jail.Start(p, in.Now)
	if err != nil {
		if err = jail.CommandError(err); sandbox.CodeOf(err) == jail.ErrNoSandbox && p.Least == jail.Container {
			why := hintOf(err)
			if _, reason, ok := strings.Cut(why, " requires the level container: "); ok {
				why = reason
			}
			accept := ""
			if weaker {
				accept = "--jail namespaces accepts a weaker level, and "
			}
			err = intakeError(doc.name, jail.ErrNoSandbox, "nothing was stored; converters run at the level container: %s; %s--raw stores the document without converting it", why, accept)
		}
		return nil, jail.Result{}, err
	}
	command := jail.Shell(converterLine(c.Command, "document"+suffix))
	command.Input = doc.data
	ran, err := j.Run(ctx, command)
	if err = errors.Join(err, j.Close()); err != nil {
		return nil, ran, jail.CommandError(err)
	}
	failed := func(format string, args ...any) ([]content, jail.Result, error) {
		return nil, ran, intakeError(doc.name, "failed", "the converter %s %s; nothing was stored", c.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case ran.Late:
		return failed("did not end; golem ended it and all its processes; the limit is %s", ran.Describe(jail.TimeLimit))
	case ran.Stopped:
		return failed("was stopped")
	case ran.Stdout.Hidden > 0:
		return failed("made more than %s", visible.Amount(maxDocument))
	case len(ran.Hit) > 0 && !slices.Equal(ran.Hit, []jail.Limit{jail.OutputLimit}): // that one is of what it printed as errors
		return failed("reached its limit of %s, %s", ran.Hit[0], ran.Describe(ran.Hit[0]))
	case ran.Code > 128: // of the shell, or of its child
		return failed("was ended by signal %d", ran.Code-128)
	case ran.Code == notThere:
		return failed("runs %s, which is not on this machine, or a program that is not; install it, or change intake.%s in golem-forge.config.yaml", visible.Quote(c.Command[0]), c.Name)
	case ran.Code != 0:
		said, _ := ran.Stderr.Text()
		return failed("failed with exit code %d: %s", ran.Code, visible.Line(strings.TrimSpace(said), 300))
	}
	list, err := unpack(slices.Concat(ran.Stdout.Head, ran.Stdout.Tail))
	if err != nil {
		return failed("made no results: %v", err)
	}
	return list, ran, nil
}

// notThere is the exit code of a shell that does not find a program.
const notThere = 127

// converterLine returns the line of a shell that runs a converter in an empty directory and
// prints an archive of its results. The shell does that only if the converter succeeded, and if
// /tmp is not full: some programs do not report a failed write.
func converterLine(command []string, name string) string {
	line := `cd "${TMPDIR:-/tmp}" && mkdir in out && cat >in/` + name + " && cd out && (exec"
	for _, word := range command {
		line += " " + jail.QuoteWord(strings.ReplaceAll(word, project.Document, "../in/"+name))
	}
	return line + ") </dev/null >../text && cd .. && head -c 65536 /dev/zero >room && exec tar -cf - text out"
}

// unpack returns the files in the archive of a converter, under names that mean nothing. An
// exploited converter can write any archive.
func unpack(archive []byte) (list []content, err error) {
	names := map[string]bool{}
	left := int64(maxDocument)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, errors.New("the archive of its results is damaged")
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(r, left+1))
		if err != nil {
			return nil, errors.New("the archive of its results is damaged")
		}
		if left -= int64(len(data)); left < 0 {
			return nil, fmt.Errorf("they have more than %s", visible.Amount(maxDocument))
		}
		name := "text.txt"
		if h.Name != "text" {
			name = "result-" + safeName(strings.TrimPrefix(path.Clean(h.Name), "out/"))
		} else if len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		for i, first := 2, name; names[strings.ToLower(name)]; i++ {
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(first, path.Ext(first)), i, path.Ext(first))
		}
		names[strings.ToLower(name)] = true
		if list = append(list, content{name: name, data: data}); len(list) > maxResults {
			return nil, fmt.Errorf("there are more than %d", maxResults)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("it printed no text, and made no file in its directory")
	}
	return list, nil
}

// A place is a directory in an untrusted mount, with the files of the mount.
type place struct {
	files *sandbox.Sandbox
	dir   string
}

// place returns the directory that the user names, which must be untrusted: its readers are
// tainted. Without a name it is the only untrusted mount.
func (in Intake) place(to string) (place, error) {
	var mounts []project.Mount
	var names []string
	for _, m := range in.Project.Mounts {
		if m.Untrusted {
			mounts, names = append(mounts, m), append(names, m.Target)
		}
	}
	switch {
	case len(mounts) == 0:
		return place{}, intakeError("", sandbox.ErrNotFound, "there is no untrusted mount for content of strangers; add one to sandbox.mounts in golem-forge.config.yaml, such as {source: ./in, target: /in, mode: ro, trust: untrusted}")
	case to == "" && len(mounts) > 1:
		return place{}, intakeError("", "invalid_args", "there are several untrusted mounts; name one with --to: %s", strings.Join(names, ", "))
	case to == "":
		to = mounts[0].Target
	}
	to = path.Clean("/" + to)
	i := -1
	for n, m := range in.Project.Mounts {
		if policy.AtOrBelow(m.Target, to) && (i < 0 || len(m.Target) > len(in.Project.Mounts[i].Target)) {
			i = n
		}
	}
	refused := intakeError(to, sandbox.ErrReadOnly, "it is not in an untrusted mount; --to takes a directory in %s", strings.Join(names, ", "))
	if i < 0 {
		return place{}, refused
	}
	m := in.Project.Mounts[i]
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: m.Target, Source: m.Source, Base: m.Base, Access: sandbox.ReadWrite}}})
	if err != nil {
		return place{}, err
	}
	if to, err = files.Canonical(to); err != nil {
		return place{}, err
	}
	host, err := files.Resolve(to)
	if err != nil {
		return place{}, err
	}
	if in.Project.Untrusted(string(host)) == "" {
		return place{}, refused
	}
	return place{files, to}, nil
}

// unfinished returns what begins the names of directories that golem is writing. Only the
// golem that has the lock of Owner writes one, so any other was left by one that was killed.
func (in Intake) unfinished() string {
	sum := sha256.Sum256([]byte(in.Owner))
	return ".golem-intake-" + hex.EncodeToString(sum[:8]) + "-"
}

// store stores contents in a new directory, all or none. It gives the directory its name when
// everything in it is on the disk.
func (in Intake) store(ctx context.Context, files *sandbox.Sandbox, at string, list []content) (err error) {
	release, err := in.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	dir := path.Dir(at)
	if err := files.MakeDir(dir); err != nil {
		return err
	}
	there, err := files.List(dir)
	if err != nil {
		return err
	}
	for _, e := range there {
		if strings.HasPrefix(e.Name, in.unfinished()) {
			if err := files.DeleteAll(ctx, path.Join(dir, e.Name)); err != nil {
				return err
			}
		}
	}
	temp := path.Join(dir, in.unfinished()+path.Base(at))
	defer func() {
		if err != nil {
			files.DeleteAll(context.WithoutCancel(ctx), temp)
		}
	}()
	if err := files.MakeDir(temp); err != nil {
		return err
	}
	host, err := files.Resolve(temp)
	if err != nil {
		return err
	}
	if err := makePrivate(string(host)); err != nil {
		return intakeError(at, sandbox.ErrInternal, "the directory could not be made private; nothing was stored")
	}
	for _, c := range list {
		if _, err := files.WriteNew(path.Join(temp, c.name), c.data); err != nil {
			return err
		}
	}
	if err := durable.SyncTree(string(host)); err != nil {
		return intakeError(at, sandbox.ErrInternal, "the disk failed; nothing was stored")
	}
	if err := files.Move(temp, at); err != nil {
		return err
	}
	if host, err = files.Resolve(dir); err == nil {
		err = durable.SyncDir(string(host))
	}
	return err
}

// makePrivate lets only the user open a directory, because the document may be for them only.
func makePrivate(dir string) error {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(above.Chmod(filepath.Base(dir), 0o700), above.Close())
}
