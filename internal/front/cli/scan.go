package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/clearance/scanners"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

func newScan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scan PATH…",
		Short: "Scan files for secrets, hidden text and malware",
		Long: `Scan files and directories with the scanners that clearance uses: format,
size and entropy, content and metadata, secrets, malware, and those that the program's
configuration adds (clearance.malware, clearance.external), after you trusted the program. In
directories golem skips symlinks, pipes and .git, as it does for staged results. golem changes
nothing, and nothing leaves this machine, except to clamd if one is configured.

golem lists last the files that a push would hold back. Exit code 0: no file held back; 1: some
held back; 2: wrong arguments, such as a file that does not exist.`,
		Example: "  golem scan out/\n  golem scan report.pdf picture.png\n  golem scan --json . > findings.json",
	}
	f := addProgramFlags(cmd)
	held := cmd.Flags().Bool("held", false, "show only files that are held back")
	cmd.Args = takesArgs(1, math.MaxInt, "scan which files? golem scan PATH…")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.scan(cmd, args, *held) }
	return cmd
}

// scan scans files of the user. It uses the scanners of the program that they are in, or
// those that every program has.
func (f *programFlags) scan(cmd *cobra.Command, args []string, onlyHeld bool) error {
	p, err := f.open(opening{strict: true, otherwise: emptyProgram})
	if p == nil || p.Project == nil {
		return err
	}
	ofFile := func(v project.Value) bool {
		return strings.HasPrefix(v.Key, "clearance.") && v.From.Source == p.Project.File
	}
	if err := p.CheckTrust(); err != nil && slices.ContainsFunc(p.Project.Values(), ofFile) {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: scanning without the settings in clearance: "+visible.Text(err.Error()))
	}
	scanners, err := scanners.Open(p.ScannerOptions(nil))
	if err != nil {
		return err
	}
	defer scanners.Close()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	s := scanning{cmd: cmd, scanners: scanners, onlyHeld: onlyHeld, list: []scan.Verdict{}, found: map[string]int{}, saw: map[string]int{}}
	if s.status = beginStatus(cmd.ErrOrStderr(), "scanning"); s.status != nil {
		defer s.status.end()
		s.total = countFiles(args)
	}
	for _, arg := range args {
		err := s.below(ctx, arg)
		if caught, is := errors.AsType[signaled](err); is {
			s.printHeld()
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: stopped after %s; there may be more to find\n", visible.Count(s.count, "file"))
			return caught.code()
		}
		if err != nil {
			s.printHeld()
			return err
		}
	}
	return s.end()
}

// A scanning is one run of golem scan.
type scanning struct {
	cmd      *cobra.Command
	scanners *scanners.Set
	onlyHeld bool
	list     []scan.Verdict
	count    int
	held     []string       // lines that are printed last
	holds    int            // number of files that are held back
	found    map[string]int // number of findings of each scanner
	saw      map[string]int // number of files that each scanner read completely
	leftOut  int
	status   *statusLine
	total    int // number of files to scan; 0 if it is not known
}

// countFiles returns the number of files that a scan reads, for its status line.
func countFiles(tops []string) (n int) {
	for _, top := range tops {
		filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil: // the scan itself reports it
			case e.IsDir() && e.Name() == ".git" && name != top:
				return filepath.SkipDir
			case e.Type().IsRegular():
				n++
			}
			return nil
		})
	}
	return n
}

// below scans a file, or all files in a directory.
func (s *scanning) below(ctx context.Context, top string) error {
	return filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == top:
			return usagef("scan %s: not_found; name a file or a directory that exists", sandbox.Shown(name))
		case err != nil:
			s.add(name, scan.Verdict{Path: filepath.ToSlash(name), Held: true, Scanners: []string{}, Findings: []scan.Finding{{Scanner: "limits", Hold: true, What: "cannot tell: " + visible.FileError("", err).Error()}}})
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case e.IsDir() && e.Name() == ".git" && name != top:
			s.leftOut++
			return filepath.SkipDir
		case e.IsDir():
			return nil
		case e.Type().IsRegular():
			return s.file(ctx, name)
		case name == top:
			return usagef("scan %s: invalid; it is neither a file nor a directory, and golem follows no symlinks; name the target", sandbox.Shown(name))
		}
		s.leftOut++
		return nil
	})
}

func (s *scanning) file(ctx context.Context, name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	s.status.advance(int64(s.count), int64(s.total), fmt.Sprintf("%d of %s", s.count, visible.Count(s.total, "file")))
	v := s.scanners.Scan(ctx, scan.Content{Path: filepath.ToSlash(name), Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(name) }})
	if ctx.Err() != nil { // the verdict of a stopped scan means nothing
		return context.Cause(ctx)
	}
	if wantsJSON(s.cmd) {
		v.Hash = overlay.Digest(os.Open(name))
	}
	s.add(name, v)
	return nil
}

// add counts the findings of a file, and prints those that do not hold it back.
func (s *scanning) add(name string, v scan.Verdict) {
	s.count++
	if v.Held {
		s.holds++
	}
	for _, name := range v.Scanners {
		s.saw[name]++
	}
	v.Path = scan.ShownName(v.Path)
	if v.Held || !s.onlyHeld {
		s.list = append(s.list, v)
	}
	for _, f := range v.Findings {
		s.found[f.Scanner]++
		where := sandbox.Shown(scan.ShownName(name))
		if f.Line > 0 {
			where += fmt.Sprintf(":%d", f.Line)
		}
		line := where + ": " + f.Scanner + ": " + f.What
		switch {
		case f.Hold:
			s.held = append(s.held, line)
		case !s.onlyHeld && !wantsJSON(s.cmd):
			fmt.Fprintln(s.cmd.OutOrStdout(), "  "+line)
		}
	}
}

// printHeld prints the findings that hold files back, after all others.
func (s *scanning) printHeld() {
	if wantsJSON(s.cmd) {
		return
	}
	for _, line := range s.held {
		fmt.Fprintln(s.cmd.OutOrStdout(), "! "+line)
	}
}

// end prints the totals, and returns the exit code as an error.
func (s *scanning) end() error {
	if wantsJSON(s.cmd) {
		if err := printJSON(s.cmd.OutOrStdout(), map[string]any{"scanners": s.about(), "files": s.list, "left_out": s.leftOut}); err != nil {
			return err
		}
	} else {
		s.printHeld()
		left := ""
		if s.leftOut > 0 {
			left = fmt.Sprintf("; %d skipped: symlinks, pipes, .git", s.leftOut)
		}
		fmt.Fprintf(s.cmd.OutOrStdout(), "%s scanned, %d held back (!)%s\n", visible.Count(s.count, "file"), s.holds, left)
		for _, line := range s.about() {
			fmt.Fprintln(s.cmd.OutOrStdout(), "  "+line)
		}
	}
	return exitIf(s.holds > 0, exitFailed)
}

// about describes for each scanner its findings and how many files it did not read
// completely.
func (s *scanning) about() []string {
	lines := []string{}
	for _, line := range s.scanners.About() {
		name, state, _ := strings.Cut(line, " ")
		works := strings.HasPrefix(state, "ok ")
		about := state[max(0, strings.IndexByte(state, '(')):]
		if n := s.found[name]; n > 0 {
			line = fmt.Sprintf("%s found %d %s", name, n, about)
		}
		if missed := s.count - s.saw[name]; works && missed > 0 {
			line += ", but " + visible.Count(missed, "file") + " not seen whole"
		}
		lines = append(lines, line)
	}
	return lines
}
