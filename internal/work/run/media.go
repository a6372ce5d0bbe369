package run

import (
	"context"
	"fmt"
	"path"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// maxResultFile is the size of the largest file that a result brings to a model. Encoded
// as base64 it has less than 5 MB, which is the lowest limit of the vendors.
const maxResultFile = 3500 << 10

// withMedia returns the context for a call of a worker. It says which files the worker's
// model accepts.
func (t *conversation) withMedia(ctx context.Context) context.Context {
	types := model.FileTypes(t.w.Model)
	return tool.WithMedia(ctx, tool.Accepted{Types: types, Bytes: maxResultFile, Names: model.ListFileTypes(types)})
}

// filesOf returns the media of a result as files for the model.
func filesOf(r tool.Result, number int) (files []model.File) {
	if r.Err != nil {
		return nil
	}
	for i, m := range r.Media {
		name := m.Path
		if name == "" {
			name = fmt.Sprintf("image %d of call %d", i+1, number+1)
		}
		files = append(files, model.File{Name: name, Type: m.Type, Data: m.Data})
	}
	return files
}

// fileParts returns the files of a result as parts of a message, each after a text that
// names it. It returns a text for a file that does not fit in the rest of the message,
// and reduces room.
func fileParts(files []model.File, room *int) (parts []model.Part) {
	for _, f := range files {
		if len(f.Data) > *room {
			parts = append(parts, model.Part{Text: "[" + sandbox.Shown(f.Name) + " is omitted, because the results of one answer are too large; read it again by itself]"})
			continue
		}
		*room -= len(f.Data)
		shown := f
		shown.Name = path.Base(f.Name)
		parts = append(parts, model.Part{Text: "[" + sandbox.Shown(f.Name) + " follows: " + f.Type + "]"}, model.Part{File: &shown})
	}
	return parts
}

// dropRefusedFiles replaces the files that results brought in the last message by texts.
// It reports whether there were any. A server may refuse a file of a type that its other
// models accept.
func (t *conversation) dropRefusedFiles(why string) (bool, error) {
	last := len(t.messages) - 1
	if last < 1 || t.messages[last].Role != model.User || len(callsOf(t.messages[last-1].Parts)) == 0 {
		return false, nil
	}
	m := withoutFiles(t.messages[last], "the model's server refused it")
	if m == nil {
		return false, nil
	}
	t.messages = append(append([]model.Message{}, t.messages[:last]...), *m)
	t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Text: "the model's server refused a request with files, so golem repeats it without them: " + why})
	return true, t.Log.write(Entry{Kind: "replace", In: t.id, Step: t.step, Worker: t.w.Name, Messages: t.messages})
}

// withoutFiles returns a message with texts in place of its files, nil if it has none.
func withoutFiles(m model.Message, why string) *model.Message {
	var parts []model.Part
	found := false
	for _, p := range m.Parts {
		if p.File != nil {
			found = true
			p = model.Part{Text: fmt.Sprintf("[%s, %s, %d bytes, is not here: %s]", sandbox.Shown(p.File.Name), p.File.Type, len(p.File.Data), why)}
		}
		parts = append(parts, p)
	}
	if !found {
		return nil
	}
	return &model.Message{Role: m.Role, Parts: parts}
}
