package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// A seer is a model that takes files of some types.
type seer struct {
	player
	types []string
}

func (s seer) FileTypes() []string { return s.types }

var (
	png = append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{0, 1, 2, 3}, 100)...)
	pdf = append([]byte("%PDF-1.7\n"), bytes.Repeat([]byte{0, 1, 2, 3}, 100)...)
)

// partsOf describes the parts of a message.
func partsOf(m model.Message) string {
	var list []string
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			list = append(list, "result "+p.Result.Text)
		case p.File != nil:
			list = append(list, "file "+p.File.Name+" "+p.File.Type)
		default:
			list = append(list, "text "+p.Text)
		}
	}
	return strings.Join(list, "\n")
}

// TestReadMedia reads an image and a PDF. A model that takes them gets them after the
// results. Another one gets an error that lists what it takes.
func TestReadMedia(t *testing.T) {
	for _, test := range []struct {
		types      []string
		want, none []string
	}{
		{model.AllFileTypes(), []string{"result /in/a.png: image/png, 408 bytes\nresult /in/b.pdf: application/pdf, 409 bytes\ntext [/in/a.png follows: image/png]\nfile a.png image/png\ntext [/in/b.pdf follows: application/pdf]\nfile b.pdf application/pdf"}, []string{"Error"}},
		{model.ImageTypes, []string{"file a.png image/png", "application/pdf, 409 bytes; the model accepts text, and images as PNG, JPEG, GIF and WebP"}, []string{"file b.pdf"}},
		{nil, []string{"image/png, 408 bytes; the model accepts text; convert it"}, []string{"\nfile "}},
	} {
		h := newTestRun(t)
		_, err := h.files.Write("/in/a.png", png)
		must(t, err)
		_, err = h.files.Write("/in/b.pdf", pdf)
		must(t, err)
		var got model.Message
		m := seer{player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) > 1 {
				got = r.Messages[2]
				return newTextAnswer("done"), nil
			}
			return newCallsAnswer("read_file", `{"path":"/in/a.png"}`, "read_file", `{"path":"/in/b.pdf"}`), nil
		}), test.types}
		h.do(h.worker(m, "main"), "go")
		said := partsOf(got)
		for _, part := range test.want {
			if !strings.Contains(said, part) {
				t.Errorf("%v: no %q in\n%s", test.types, part, said)
			}
		}
		for _, part := range test.none {
			if strings.Contains(said, part) {
				t.Errorf("%v: %q in\n%s", test.types, part, said)
			}
		}
		for _, e := range h.events {
			if text, _ := json.Marshal(e); bytes.Contains(text, []byte("\\u0001")) || len(text) > 1000 {
				t.Errorf("an event has the content of the file: %s", text)
			}
		}
		if notes := journalNotes(&h.journal); len(test.types) > 0 && !strings.Contains(notes, "image/png, 408 bytes, sha256 ") {
			t.Errorf("the journal does not describe the file: %s", notes)
		}
	}
}

func journalNotes(j *journal) string {
	var list []string
	for _, r := range j.records {
		if r.Kind == audit.Outcome {
			list = append(list, r.Note)
		}
	}
	return strings.Join(list, "\n")
}

// TestMediaLimits reads a file that is too large, and more files than fit in a message.
func TestMediaLimits(t *testing.T) {
	h := newTestRun(t)
	large := append(bytes.Clone(png), make([]byte, 3500<<10)...)
	_, err := h.files.Write("/in/large.png", large)
	must(t, err)
	_, err = h.files.Write("/in/fits.png", large[:3500<<10])
	must(t, err)
	var got model.Message
	m := seer{player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) > 1 {
			got = r.Messages[2]
			return newTextAnswer("done"), nil
		}
		fits := `{"path":"/in/fits.png"}`
		return newCallsAnswer("read_file", `{"path":"/in/large.png"}`, "read_file", fits, "read_file", fits, "read_file", fits), nil
	}), model.AllFileTypes()}
	h.do(h.worker(m, "main"), "go")
	said := partsOf(got)
	if strings.Count(said, "file fits.png") != 2 || !strings.Contains(said, "a model gets at most 3584000") || !strings.Contains(said, "[/in/fits.png is omitted, because the results of one answer are too large") {
		t.Error(said)
	}
}

// TestResumeMedia stops a run after it has read an image. The resumed run gives the model
// the image, and does not read it again. The log is shown without its bytes.
func TestResumeMedia(t *testing.T) {
	d := newDiary(t)
	_, err := d.files.Write("/in/a.png", png)
	must(t, err)
	d.stopAfter(1, d.worker(seer{playAnswers(newCallsAnswer("read_file", `{"path":"/in/a.png"}`, "read_file", `{"path":"/in/a.txt"}`)), model.AllFileTypes()}, "main"))
	err = d.files.Delete("/in/a.png")
	must(t, err)
	var got model.Message
	d.again(true, func(r *run.Run) {
		o, err := r.Do(context.Background(), d.worker(seer{player(func(r model.Request) (model.Answer, error) {
			got = r.Messages[len(r.Messages)-1]
			return newTextAnswer("done"), nil
		}), model.AllFileTypes()}, "main"), run.Input{})
		must(t, err)
		if !o.OK() {
			t.Errorf("%+v", o)
		}
	})
	if said := partsOf(got); !strings.Contains(said, "file a.png image/png") || !bytes.Equal(got.Parts[3].File.Data, png) {
		t.Error(said)
	}
	files := 0
	for _, e := range d.entries() {
		text, err := json.Marshal(e.WithoutFileData())
		must(t, err)
		if bytes.Contains(text, []byte(`"data":"`)) {
			t.Errorf("the bytes are shown: %s", text)
		}
		files += bytes.Count(text, []byte(`"type":"image/png","size":408,"digest":"`))
	}
	if files != 2 { // with the result, and in the message
		t.Errorf("%d files are shown, want 2", files)
	}
}

// TestRefusedFile: a server that takes no images after all gets the request without them.
func TestRefusedFile(t *testing.T) {
	h := newTestRun(t)
	_, err := h.files.Write("/in/a.png", png)
	must(t, err)
	refused := 0
	m := seer{player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) == 1 {
			return newCallsAnswer("read_file", `{"path":"/in/a.png"}`), nil
		}
		said := partsOf(r.Messages[2])
		if strings.Contains(said, "file a.png") {
			refused++
			return model.Answer{}, &model.Error{Class: model.Bad, Model: "x", What: "no images"}
		}
		return newTextAnswer(said), nil
	}), model.AllFileTypes()}
	o, err := h.run(policy.Limits{}).Do(context.Background(), h.worker(m, "main"), run.Input{Text: "go"})
	must(t, err)
	if refused != 1 || !o.OK() || !strings.Contains(o.Text, "[a.png, image/png, 408 bytes, is not here: the model's server refused it]") {
		t.Errorf("%d %+v", refused, o)
	}
}
