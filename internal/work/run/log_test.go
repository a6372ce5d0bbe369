package run_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// stopAfter runs a worker and stops it after a number of results.
func (d *diary) stopAfter(results int, w *run.Worker) {
	d.again(false, func(r *run.Run) {
		r.Tell = func(e run.Event) {
			if e.Type == run.ToolResult {
				if results--; results == 0 {
					r.Stop()
				}
			}
		}
		_, err := r.Do(context.Background(), w, run.Input{Text: "go"})
		must(d.t, err)
	})
}

// entries returns the lines of the log.
func (d *diary) entries() (list []run.Entry) {
	d.t.Helper()
	folder, err := state.Open(d.dir)
	must(d.t, err)
	defer folder.Close()
	log, err := run.OpenLog(folder, false, time.Now)
	must(d.t, err)
	defer log.Close()
	must(d.t, log.Read(func(e run.Entry) error {
		list = append(list, e)
		return nil
	}))
	return list
}

// rewrite replaces the log by one whose lines were changed.
func (d *diary) rewrite(change func(line map[string]any)) {
	d.t.Helper()
	var lines [][]byte
	for _, e := range d.entries() {
		data, err := json.Marshal(e)
		must(d.t, err)
		line := make(map[string]any)
		must(d.t, json.Unmarshal(data, &line))
		change(line)
		data, err = json.Marshal(line)
		must(d.t, err)
		lines = append(lines, data)
	}
	d.dir = d.t.TempDir()
	folder, err := state.Open(d.dir)
	must(d.t, err)
	defer folder.Close()
	log, err := folder.Log("run", 64<<20)
	must(d.t, err)
	defer log.Close()
	must(d.t, log.Append(false, func(state.Tail) ([][]byte, []byte, error) { return lines, nil, nil }))
}

// idsOf returns the ids of the entries of a kind.
func idsOf(list []run.Entry, kind string) (ids []string) {
	for _, e := range list {
		if e.Kind == kind {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// callsTwice returns a worker whose model uses the same id for all its calls. In two
// answers it writes a file and starts a child, which writes a file too.
func (d *diary) callsTwice() *run.Worker {
	write := `{"path":"/out/a","content":"1"}`
	w := d.worker(player(func(r model.Request) (model.Answer, error) {
		switch len(r.Messages) {
		case 1, 5:
			return newCallAnswer("x", "write_file", write), nil
		case 3, 7:
			return newCallAnswer("x", "child", `{"input":"a part"}`), nil
		}
		return newTextAnswer("done"), nil
	}), "main")
	w.Callees = []run.Callee{{Name: "child"}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		return d.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) == 1 {
				return newCallAnswer("x", "write_file", write), nil
			}
			return newTextAnswer("written"), nil
		}), "main", "child"), nil
	}
	return w
}

// TestLogIDs: every call has an id of its own, also if the model repeats its ids, and
// keeps the id when the run is stopped and resumed at any call.
func TestLogIDs(t *testing.T) {
	want := []string{"1.1", "2.1/1.1", "2.1", "3.1", "4.1/1.1", "4.1"} // in the order of their results
	for stop := 1; stop <= len(want); stop++ {
		d := newDiary(t)
		d.stopAfter(stop, d.callsTwice())
		if o := d.do(true, d.callsTwice(), ""); o.Text != "done" {
			t.Errorf("stopped after %d results: %+v", stop, o)
		}
		list := d.entries()
		if got := idsOf(list, "result"); !slices.Equal(got, want) {
			t.Errorf("stopped after %d results: the results have the ids %v, want %v", stop, got, want)
		}
		if got := idsOf(list, "begin"); !slices.Equal(got, []string{"", "2.1", "4.1"}) {
			t.Errorf("stopped after %d results: the workers were started by %v", stop, got)
		}
	}
}

// TestLogOlder: a run continues from the log of an older golem, whose lines had no
// version, no step and no ids. Its calls get the ids that they would have had.
func TestLogOlder(t *testing.T) {
	for stop := 1; stop <= 5; stop++ {
		d := newDiary(t)
		d.stopAfter(stop, d.callsTwice())
		before := len(idsOf(d.entries(), "result"))
		d.rewrite(func(line map[string]any) {
			delete(line, "version")
			delete(line, "step")
			delete(line, "id")
		})
		if o := d.do(true, d.callsTwice(), ""); o.Text != "done" {
			t.Errorf("stopped after %d results: %+v", stop, o)
		}
		want := []string{"1.1", "2.1/1.1", "2.1", "3.1", "4.1/1.1", "4.1"}
		if got := idsOf(d.entries(), "result"); !slices.Equal(got[before:], want[before:]) {
			t.Errorf("stopped after %d results: the ids are %v, want %v at the end", stop, got, want[before:])
		}
	}
}

// TestLogNewer: the log of a newer golem is refused, with a way out, and stays as it is.
func TestLogNewer(t *testing.T) {
	d := newDiary(t)
	d.stopAfter(1, d.callsTwice())
	d.rewrite(func(line map[string]any) { line["version"] = 3 })
	folder, err := state.Open(d.dir)
	must(t, err)
	defer folder.Close()
	_, err = run.OpenLog(folder, true, time.Now)
	if err == nil || !strings.Contains(err.Error(), "a newer golem wrote") || !strings.Contains(err.Error(), "continue it with that golem") {
		t.Errorf("the log of a newer golem: %v", err)
	}
}
