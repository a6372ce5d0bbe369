package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/visible"
)

// params converts a request for the API.
func (m *Model) params(r model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{Model: m.name, StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}}
	switch {
	case r.MaxTokens == 0:
	case m.able.NewMax:
		p.MaxCompletionTokens = sdk.Int(r.MaxTokens)
	default:
		p.MaxTokens = sdk.Int(r.MaxTokens)
	}
	if m.able.Schema && len(r.Schema) > 0 {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: r.Schema},
		}
	}
	for _, t := range r.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		if len(t.Schema) > 0 && json.Unmarshal(t.Schema, &f.Parameters) != nil {
			return p, &model.Error{Class: model.Bad, Model: m.client.Model, What: "the schema of the tool " + visible.Name(t.Name) + " is not one", Hint: "a schema is a JSON object"}
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if r.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(r.System))
	}
	for _, message := range r.Messages {
		if message.Role == model.Assistant {
			p.Messages = append(p.Messages, fromModel(message)...)
			continue
		}
		told, err := m.fromUser(message)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, told...)
	}
	return p, nil
}

// fromModel converts a message of the model. The API accepts no thinking and no empty
// message.
func fromModel(message model.Message) []sdk.ChatCompletionMessageParamUnion {
	var text strings.Builder
	a := sdk.ChatCompletionAssistantMessageParam{}
	for _, p := range message.Parts {
		text.WriteString(p.Text)
		if p.Call != nil {
			c := sdk.ChatCompletionMessageFunctionToolCallParam{ID: p.Call.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
				Name: p.Call.Tool, Arguments: string(p.Call.SentArgs()),
			}}
			if len(p.Call.Proof) > 0 {
				c.SetExtraFields(map[string]any{"extra_content": p.Call.Proof})
			}
			a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &c})
		}
	}
	if text.Len() > 0 {
		a.Content.OfString = sdk.String(text.String())
	}
	if text.Len() == 0 && len(a.ToolCalls) == 0 {
		return nil
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &a}}
}

// fromUser converts a message of the user: first the results, each as its own message,
// then the rest.
func (m *Model) fromUser(message model.Message) (list []sdk.ChatCompletionMessageParamUnion, err error) {
	var parts []sdk.ChatCompletionContentPartUnionParam
	onlyText := true
	for _, p := range message.Parts {
		switch {
		case p.Result != nil:
			list = append(list, sdk.ToolMessage(p.Result.Text, p.Result.ID))
		case p.File != nil:
			file, err := m.file(*p.File)
			if err != nil {
				return nil, err
			}
			parts, onlyText = append(parts, file...), false
		case p.Text != "":
			parts = append(parts, sdk.TextContentPart(p.Text))
		}
	}
	switch {
	case len(parts) == 1 && onlyText: // the form that every server accepts
		list = append(list, sdk.UserMessage(parts[0].OfText.Text))
	case len(parts) > 0:
		list = append(list, sdk.UserMessage(parts))
	}
	return list, nil
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() []string {
	if m.able.PDF {
		return model.AllFileTypes()
	}
	return model.ImageTypes
}

func (m *Model) file(f model.File) ([]sdk.ChatCompletionContentPartUnionParam, error) {
	inline := "data:" + f.Type + ";base64," + base64.StdEncoding.EncodeToString(f.Data)
	switch {
	case f.Type == "image/png", f.Type == "image/jpeg", f.Type == "image/gif", f.Type == "image/webp":
		return []sdk.ChatCompletionContentPartUnionParam{sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: inline})}, nil
	case f.Type == "application/pdf" && m.able.PDF:
		return []sdk.ChatCompletionContentPartUnionParam{sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
			Filename: sdk.String(f.Name), FileData: sdk.String(inline),
		})}, nil
	case strings.HasPrefix(f.Type, "text/"):
		return []sdk.ChatCompletionContentPartUnionParam{sdk.TextContentPart("The file " + f.Name + " follows."), sdk.TextContentPart(string(f.Data))}, nil
	}
	return nil, &model.Error{Class: model.Bad, Model: m.client.Model,
		What: "it does not accept the file " + visible.Name(f.Name) + " of the type " + visible.Name(f.Type), Hint: "it accepts " + model.ListFileTypes(m.FileTypes())}
}
