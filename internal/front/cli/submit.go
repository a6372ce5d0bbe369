package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/parcel"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// submitFlags are the flags of golem submit.
type submitFlags struct {
	*programFlags
	hub       *hubFlags
	model     string
	each      []string
	labels    []string
	approvers []string
	wait      bool
}

func newSubmit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "submit PROGRAM INPUT…",
		Short: "Give a program to a hub, whose machines run it",
		Long: `Give a program with its files to a hub. One of its machines runs it as golem run does, and the
changes come back for your review. golem prints the id of the job.

golem sends the project file, the workers with their tools, and all mounts, which must be inside
the directory of the program: only files that the hub does not have. The machine runs exactly
the content that you trust now.

--each makes one job for each file, with the file attached or named in the input. --approver
says whose approvals count; otherwise those of all approvers that the hub has now.`,
		Example: `  golem submit . "Summarise the papers"
  golem submit . "Summarise the paper" --each in/*.pdf
  golem submit . "Train it" --label gpu --follow`,
	}
	f := &submitFlags{programFlags: addProgramFlags(cmd), hub: addHubFlags(cmd)}
	cmd.Flags().StringVar(&f.model, "model", "", "the model, with the keys of the machine that runs the job")
	cmd.Flags().StringArrayVar(&f.each, "each", nil, "one job for each of these files; words after the input are more of them")
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, "what the machine must offer, such as gpu")
	cmd.Flags().StringSliceVar(&f.approvers, "approver", nil, "the name of an approver whose decisions count")
	cmd.Flags().BoolVar(&f.wait, "follow", false, "print the events of the job until it is over")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) }
	return cmd
}

func (f *submitFlags) run(cmd *cobra.Command, args []string) error {
	input, err := f.take(args)
	if err != nil {
		return err
	}
	labels, err := hub.CheckLabels(f.labels)
	if err != nil {
		return usageError("--label: " + err.Error())
	}
	p, err := f.open(opening{})
	if err != nil {
		return err
	}
	if p.Content.Hash == "" {
		return noProgram(p)
	}
	if err := p.CheckEntry(); err != nil {
		return err
	}
	if err := f.askTrust(cmd, p, false); err != nil {
		return err
	}
	specs, err := f.specs(p, input)
	if err != nil {
		return err
	}
	c, err := f.hub.connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	approvers, err := f.findApprovers(cmd.Context(), c)
	if err != nil {
		return inbox.HubError(err)
	}
	names := []string{specs[0].Model}
	if specs[0].Model == "" {
		names = []string{p.EntryModel()}
		for _, w := range p.Tree().WithModel() {
			names = append(names, w.Model.Text)
		}
	}
	files, err := sendProgram(cmd, c, p, names)
	if err != nil {
		return inbox.HubError(err)
	}
	known, err := p.Storage.OpenRecords() // golem desk finds the program of a finished job by its state
	if err == nil {
		err = known.Close()
	}
	if err != nil {
		return err
	}
	var ids []string
	for _, s := range specs {
		s.ID, s.Hub, s.User, s.Files, s.Labels, s.Approvers, s.Created = strings.ToLower(rand.Text()[:10]), c.Hub, c.Key, files, labels, approvers, time.Now().UTC()
		signed, err := hub.SignSpec(c.Credentials, s)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
		err = c.Submit(ctx, signed)
		cancel()
		if err != nil {
			return inbox.HubError(err)
		}
		if ids = append(ids, s.ID); !wantsJSON(cmd) {
			fmt.Fprintln(cmd.OutOrStdout(), s.ID)
		}
	}
	switch {
	case wantsJSON(cmd):
		return printJSON(cmd.OutOrStdout(), map[string]any{"jobs": ids})
	case f.wait && len(ids) == 1:
		return inbox.HubError(followJob(cmd, c, ids[0], true))
	case len(ids) == 1:
		printNext(cmd.ErrOrStderr(), "golem jobs logs -f "+ids[0])
	default:
		printNext(cmd.ErrOrStderr(), "golem jobs")
	}
	return nil
}

// take takes the program from the arguments, and returns the input. With --each, words after
// the first one of the input are files: the shell has written them out.
func (f *submitFlags) take(args []string) (input string, err error) {
	if len(args) > 0 && f.dir == "." {
		if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
			f.dir, args = args[0], args[1:]
		} else {
			return "", usagef("no program %s; the first argument is a directory: golem submit . \"what to do\"", sandbox.Shown(args[0]))
		}
	}
	if len(f.each) > 0 && len(args) > 1 {
		f.each, args = append(f.each, args[1:]...), args[:1]
	}
	input = strings.Join(args, " ")
	if strings.TrimSpace(input) == "" && len(f.each) == 0 {
		return "", usageError("submit what? golem submit . \"what to do\"")
	}
	if len(input) > maxInput {
		return "", usageError("the input is too long; put it into a file of the program")
	}
	return input, nil
}

// specs returns what to submit: one job, or one for each file of --each.
func (f *submitFlags) specs(p *program.Program, input string) ([]hub.Spec, error) {
	one := hub.Spec{Name: filepath.Base(string(p.Root())), Trust: p.Content.Hash, Entry: f.entry, Input: input, Model: cmp.Or(f.model, program.ChosenModel(p.Project))}
	name := cmp.Or(one.Model, p.EntryModel())
	if name == "" {
		return nil, noModel()
	}
	if p.Project.PlaceOf("model").Source != p.Project.File && name == p.Project.Model { // the node has no other way to know it
		one.Model = name
	}
	if len(f.each) == 0 {
		return []hub.Spec{one}, nil
	}
	at, err := f.pathsOf(p)
	if err != nil {
		return nil, err
	}
	var list []hub.Spec
	for _, file := range f.each {
		host, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		host = realPath(host)
		info, err := os.Stat(host)
		if err != nil || !info.Mode().IsRegular() {
			return nil, usagef("--each %s: no such file", sandbox.Shown(file))
		}
		name, ok := nameIn(at.mounts, host)
		if !ok {
			return nil, usagef("--each %s: no mount of the program has it; workers could not read it", sandbox.Shown(file))
		}
		s := one
		s.Input = strings.TrimSpace(input + "\n\nThe file: " + name)
		if attachedUnasked(host) {
			rel, err := filepath.Rel(string(p.Root()), host)
			if err != nil || !filepath.IsLocal(rel) {
				return nil, usagef("--each %s: it is outside the program", sandbox.Shown(file))
			}
			s.Attached = []string{filepath.ToSlash(rel)}
		}
		list = append(list, s)
	}
	return list, nil
}

// findApprovers returns the keys of the approvers that the user named, or of all.
func (f *submitFlags) findApprovers(ctx context.Context, c *hub.Client) (keys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	users, err := c.Users(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Role == hub.Approve && !u.Revoked && (len(f.approvers) == 0 || slices.Contains(f.approvers, u.Name)) {
			keys = append(keys, u.Key)
		}
	}
	for _, name := range f.approvers {
		if !slices.ContainsFunc(users, func(u hub.User) bool { return u.Name == name && u.Role == hub.Approve && !u.Revoked }) {
			return nil, usagef("--approver %s: nobody with this name may approve; golem hub users lists who may", sandbox.Shown(name))
		}
	}
	return keys, nil
}

// sendProgram sends the files of a program that the hub lacks, says what it sends, and returns the
// hash of their list. models are those that the jobs name.
func sendProgram(cmd *cobra.Command, c *hub.Client, p *program.Program, models []string) (string, error) {
	status := beginStatus(cmd.ErrOrStderr(), "reading the program")
	defer func() { status.end() }()
	hashing, err := job.NewSnapshotter(p, nil, nil)
	if err != nil {
		return "", err
	}
	made, skipped, err := hashing.TakeProgram(cmd.Context(), models...)
	if err != nil {
		return "", err
	}
	sizes, files := make(map[string]int64), 0
	for _, e := range made.Program {
		if e.Kind != parcel.Dir {
			files++
		}
		if e.Size > 0 {
			sizes[e.Hash] = e.Size
		}
	}
	missing, err := c.Missing(cmd.Context(), hub.Lookup{Hashes: slices.Sorted(maps.Keys(sizes))})
	if err != nil {
		return "", err
	}
	lacking, total, sent := make(map[string]bool), int64(0), int64(0)
	for _, hash := range missing {
		lacking[hash] = true
		total += sizes[hash]
	}
	status.end()
	if !wantsJSON(cmd) {
		sayWhatIsSent(cmd.ErrOrStderr(), files, len(lacking), total, skipped)
	}
	if len(lacking) > 0 {
		status = beginStatus(cmd.ErrOrStderr(), "sending the program")
		sending, err := job.NewSnapshotter(p, func(ctx context.Context, hash string, size int64, content io.Reader) error {
			return c.Put(ctx, hub.Part{Hash: hash, Size: size}, readerFunc(func(b []byte) (int, error) {
				n, err := content.Read(b)
				sent += int64(n)
				status.advance(sent, total, fmt.Sprintf("%s of %s", visible.Amount(sent), visible.Amount(total)))
				return n, err
			}))
		}, func(hash string) bool { return !lacking[hash] })
		if err != nil {
			return "", err
		}
		if made, _, err = sending.TakeProgram(cmd.Context(), models...); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(made)
	if err != nil {
		return "", err
	}
	hash := hub.HashOf(text)
	return hash, c.Put(cmd.Context(), hub.Part{Hash: hash, Size: int64(len(text))}, bytes.NewReader(text))
}

// A readerFunc is an io.Reader.
type readerFunc func(b []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// sayWhatIsSent prints what the nodes of a hub will have of a program.
func sayWhatIsSent(w io.Writer, files, lacking int, bytes int64, skipped []string) {
	text := fmt.Sprintf("golem: the job gets %s", visible.Count(files, "file"))
	switch {
	case lacking == 0:
		text += "; the hub has them all"
	default:
		text += fmt.Sprintf("; sending %s that the hub lacks (%s)", visible.Count(lacking, "content"), visible.Amount(bytes))
	}
	fmt.Fprintln(w, text)
	const most = 5
	if n := len(skipped); n > 0 {
		more := ""
		if n > most {
			skipped, more = skipped[:most], fmt.Sprintf(" and %d more", n-most)
		}
		fmt.Fprintf(w, "golem: not sent, because no mount has it: %s%s\n", strings.Join(shownAll(skipped), ", "), more)
	}
}
