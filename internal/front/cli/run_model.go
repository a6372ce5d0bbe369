package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/model/replay"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// noModel returns the error if no model is named. It says what to type, and names a vendor
// whose key is there.
func noModel() error {
	for _, k := range models.KeySources() {
		from := ""
		for _, name := range k.Variables {
			if strings.TrimSpace(os.Getenv(name)) != "" && from == "" {
				from = "in " + name
			}
		}
		if secret, err := findSecret(k.Vendor); from == "" && err == nil && secret != "" {
			from = "among your secrets"
		}
		if from != "" {
			return usagef("no model is named, but golem found your key for %s %s; golem config set model %s uses it for every run, and --model %s for this run", k.Vendor, from, k.Example, k.Example)
		}
	}
	first := models.KeySources()[0]
	return usagef("no model is named, and golem found no key of a vendor; golem secret set %s stores your key, and golem config set model %s names the model for every run; golem help run lists the vendors, and models that need no key",
		first.Vendor, first.Example)
}

// openModel opens the model of the flag, the environment, the entry worker or the project, and
// its fallbacks. A model without a key is skipped if there is another one. It reports retries
// by tell.
func (f *runFlags) openModel(p *program.Program, requests http.RoundTripper, tell func(string)) (first run.Choice, fallbacks []run.Choice, closed func() error, err error) {
	closed = func() error { return nil }
	name := cmp.Or(f.model, program.ChosenModel(p.Project))
	f.oneModel = name != ""
	if name == "" && f.resume != "" { // a configuration may name another model since
		before, err := f.beginBefore(p)
		if err != nil {
			return first, nil, closed, err
		}
		name, f.oneModel = before.Model, before.OneModel
	}
	if name = cmp.Or(name, p.EntryModel()); name == "" {
		return first, nil, closed, noModel()
	}
	names := append([]string{name}, f.fallbackNames(p)...)
	var list []run.Choice
	for i, name := range names {
		name = withFullPath(string(p.Root()), name)
		m, err := f.openNamed(p, name, serverFor(p, names[0], name), requests, tell)
		var wrong *model.Error
		if errors.As(err, &wrong) && wrong.Class == model.Denied && len(list)+len(names)-i > 1 {
			tell(err.Error() + "; golem asks another model")
			continue
		}
		if wrong != nil {
			err = usageError(err.Error())
		}
		if err != nil {
			return first, nil, closed, err
		}
		list = append(list, run.Choice{Name: name, Model: m})
	}
	if f.record == "" {
		return list[0], list[1:], closed, nil
	}
	file, err := os.OpenFile(f.record, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		err = usagef("--record %s: it is there already; name another file", sandbox.Shown(f.record))
	} else if err != nil {
		err = usagef("--record %s: %v; name a file that can be made", sandbox.Shown(f.record), errors.Unwrap(err))
	}
	if err != nil {
		return first, nil, closed, err
	}
	f.recordFile = file
	for i, c := range list {
		list[i].Model = replay.Record(c.Model, file)
	}
	return list[0], list[1:], file.Close, nil
}

// openAlso opens a model that the user names during the run.
func (f *runFlags) openAlso(p *program.Program, name string, requests http.RoundTripper, tell func(string)) (run.Choice, error) {
	name = withFullPath(string(p.Root()), name)
	m, err := f.openNamed(p, name, serverFor(p, name, name), requests, tell)
	return run.Choice{Name: name, Model: m}, err
}

// fallbackNames returns the models to ask if the model does not answer: those of the flag,
// the project or the entry worker.
func (f *runFlags) fallbackNames(p *program.Program) []string {
	switch {
	case f.only:
		return nil
	case len(f.fallback) > 0:
		return f.fallback
	}
	names := p.Project.Fallbacks
	if p.Project.Fallbacks == nil && p.Entry != nil {
		for _, n := range p.Entry.Fallbacks {
			names = append(names, n.Text)
		}
	}
	return names
}

// answers returns how models answer, as the flags say it.
func (f *runFlags) answers(cmd *cobra.Command) (policy.Answers, error) {
	a := policy.Answers{Effort: f.effort, MaxTokens: f.maxTokens}
	flags := cmd.Flags()
	if a.Effort != "" && !slices.Contains(policy.Efforts(), a.Effort) {
		return a, usagef("--effort %s: it is %s", sandbox.Shown(a.Effort), strings.Join(policy.Efforts(), ", "))
	}
	if flags.Changed("temperature") {
		if !(f.temperature >= 0 && f.temperature <= policy.MaxTemperature) {
			return a, usageError("--temperature is a number from 0 to 2")
		}
		a.Temperature = &f.temperature
	}
	if flags.Changed("max-tokens") && a.MaxTokens < policy.MinAnswerTokens {
		return a, usagef("--max-tokens %d: at least %d, so that an answer is of use", a.MaxTokens, policy.MinAnswerTokens)
	}
	if flags.Changed("thinking") {
		a.ShowThinking = &f.thinking
	}
	return a, nil
}

// openWorkers opens the models of the workers that name one, unless one model is chosen for
// all workers. runs is the model of the run.
func (f *runFlags) openWorkers(p *program.Program, runs string, requests http.RoundTripper, tell func(string)) (map[string]program.WorkerModel, error) {
	if f.oneModel {
		return nil, nil
	}
	all := make(map[string]program.WorkerModel)
	for _, w := range p.Tree().WithModel() {
		names := []string{w.Model.Text}
		for _, n := range w.Fallbacks {
			names = append(names, n.Text)
		}
		var list []run.Choice
		var wrong error
		for _, name := range names {
			m, err := f.openNamed(p, name, serverFor(p, runs, name), requests, tell)
			if err != nil {
				wrong = cmp.Or(wrong, err)
				continue
			}
			list = append(list, run.Choice{Name: name, Model: m})
		}
		if len(list) == 0 || sandbox.CodeOf(wrong) == "blocked" {
			return nil, usagef("the worker %s: %v; --model chooses one model for all workers", visible.Text(w.Name), wrong)
		}
		if wrong != nil {
			tell(wrong.Error() + "; golem asks another model for " + visible.Text(w.Name))
		}
		all[w.Name] = program.WorkerModel{Choice: list[0], Fallbacks: list[1:], Context: contextOf(p, list[0].Name)}
	}
	return all, nil
}

// openNamed opens a model by its name, at a server of the user if it has an address. It
// returns an error if a policy forbids the model. If the answers are recorded already, so are
// those of this model.
func (f *runFlags) openNamed(p *program.Program, name string, server project.Server, requests http.RoundTripper, tell func(string)) (model.Model, error) {
	if err := program.CheckModel(p.Project.Ceiling, name, "choose one of them with --model"); err != nil {
		return nil, err
	}
	m, err := models.Open(models.Options{Spec: name, Base: server.URL, KeyName: server.Key, API: models.API(server.API), ByProject: !strings.HasPrefix(server.By.Source, "--"),
		Check: func(server string) error { return program.CheckServer(p.Project.Ceiling, name, server) },
		Env:   os.LookupEnv, Keyring: func(_, vendor string) (string, error) { return findSecret(vendor) }, Transport: requests, Read: func(file string) ([]byte, error) { return readBeside(string(p.Root()), file) }})
	if err != nil {
		return nil, err
	}
	m = model.Retrying(m, model.Retry{Jitter: func() float64 { return 0.5 + rand.Float64()/2 }, Tell: func(e *model.Error, tried int, wait time.Duration) {
		tell(fmt.Sprintf("trying again in %s: %s", wait.Round(time.Second/10), e.Error()))
	}})
	if f.recordFile != nil {
		m = replay.Record(m, f.recordFile)
	}
	return m, nil
}

// openSummarizer opens the model that summarises long conversations, if the project names
// one beside the model of the run. A run that is played from a record has its summaries
// from the record too.
func (f *runFlags) openSummarizer(p *program.Program, runs string, requests http.RoundTripper, tell func(string)) (run.Summarizer, error) {
	name := p.Project.SummaryModel
	if name == "" || strings.HasPrefix(runs, "replay:") {
		return run.Summarizer{}, nil
	}
	m, err := f.openNamed(p, withFullPath(string(p.Root()), name), serverFor(p, runs, name), requests, tell)
	if _, is := errors.AsType[*model.Error](err); is {
		err = usageError(err.Error())
	}
	return run.Summarizer{Model: m, Name: name}, err
}

// serverFor returns the server of the project for a model, if it has the vendor of the
// model of the run.
func serverFor(p *program.Program, runs, name string) project.Server {
	if vendor, _, _ := strings.Cut(name, ":"); strings.HasPrefix(runs, vendor+":") {
		return p.Project.ModelServer
	}
	return project.Server{}
}

// contextOf returns how many tokens the model of a run takes, 0 if that is not known, as
// for a server of the user.
func contextOf(p *program.Program, name string) int64 {
	if p.Project.ModelServer.URL != "" {
		return 0
	}
	return models.Context(name)
}

// beginBefore returns the beginning of the run that continues.
func (f *runFlags) beginBefore(p *program.Program) (run.Entry, error) {
	s, err := p.Storage.Runs().Find(f.resumed())
	if err != nil {
		return run.Entry{}, err
	}
	return p.Storage.Runs().Begin(s)
}

// withFullPath returns a model whose file is not in the program's directory with the whole
// path of the file. So the run can be resumed in another directory.
func withFullPath(root, name string) string {
	kind, file, ok := strings.Cut(name, ":")
	if !ok || kind != "scripted" && kind != "replay" || filepath.IsAbs(file) {
		return name
	}
	abs, err := filepath.Abs(file)
	if err != nil || realPath(abs) == filepath.Join(root, file) {
		return name
	}
	if _, err := os.Lstat(abs); err != nil {
		return name // readBeside looks in the program's directory
	}
	return kind + ":" + abs
}

// readBeside reads a file of the current directory, or else of the program's directory.
func readBeside(root, name string) ([]byte, error) {
	data, err := readSmall(name)
	if errors.Is(err, os.ErrNotExist) && !filepath.IsAbs(name) {
		if beside, second := readSmall(filepath.Join(root, name)); second == nil {
			return beside, nil
		}
	}
	return data, err
}

// readSmall reads a file, unless it is too large for a script or a record.
func readSmall(name string) ([]byte, error) {
	const most = 256 << 20
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		return nil, fmt.Errorf("%s: too large", sandbox.Shown(name))
	}
	return io.ReadAll(io.LimitReader(f, most))
}
