package anthropic

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/visible"
)

// params converts a request for the API. Instructions, tools and conversation are each
// marked as cacheable.
func (m *Model) params(r model.Request) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{Model: sdk.Model(m.name), MaxTokens: r.MaxTokens}
	if p.MaxTokens == 0 {
		p.MaxTokens = room(m.name)
	}
	cached := sdk.NewCacheControlEphemeralParam()
	if r.System != "" {
		p.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: cached}}
	}
	for _, t := range r.Tools {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = cached
	}
	for _, message := range r.Messages {
		blocks, err := m.blocks(message)
		if err != nil {
			return p, err
		}
		if len(blocks) > 0 { // the API refuses an empty message
			p.Messages = append(p.Messages, sdk.MessageParam{Role: sdk.MessageParamRole(message.Role), Content: blocks})
		}
	}
	if n := len(p.Messages); n > 0 {
		content := p.Messages[n-1].Content
		if at := content[len(content)-1].GetCacheControl(); at != nil {
			*at = cached
		}
	}
	return p, nil
}

// blocks converts the parts of a message. Results come first, as the API requires.
func (m *Model) blocks(message model.Message) (blocks []sdk.ContentBlockParamUnion, err error) {
	var results []sdk.ContentBlockParamUnion
	for _, p := range message.Parts {
		switch {
		case p.Result != nil:
			result := sdk.ToolResultBlockParam{ToolUseID: wireID(p.Result.ID), IsError: sdk.Bool(p.Result.Failed)}
			if strings.TrimSpace(p.Result.Text) != "" {
				result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: p.Result.Text}}}
			}
			results = append(results, sdk.ContentBlockParamUnion{OfToolResult: &result})
		case p.Call != nil:
			blocks = append(blocks, sdk.NewToolUseBlock(wireID(p.Call.ID), p.Call.SentArgs(), p.Call.Tool))
		case p.Thinking != nil:
			blocks = append(blocks, thought(*p.Thinking)...)
		case p.File != nil:
			file, err := m.file(*p.File)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, file)
		case strings.TrimSpace(p.Text) != "": // the API refuses a blank text
			blocks = append(blocks, sdk.NewTextBlock(p.Text))
		}
	}
	return append(results, blocks...), nil
}

// thought converts a thought. A thought without a proof of this vendor is dropped,
// because the vendor would refuse it.
func thought(t model.Thinking) []sdk.ContentBlockParamUnion {
	var p proof
	if json.Unmarshal(t.Proof, &p) != nil {
		return nil
	}
	switch {
	case p.Redacted != "":
		return []sdk.ContentBlockParamUnion{sdk.NewRedactedThinkingBlock(p.Redacted)}
	case p.Signature != "":
		return []sdk.ContentBlockParamUnion{sdk.NewThinkingBlock(p.Signature, t.Text)}
	}
	return nil
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() []string { return model.AllFileTypes() }

func (m *Model) file(f model.File) (sdk.ContentBlockParamUnion, error) {
	switch {
	case f.Type == "image/png", f.Type == "image/jpeg", f.Type == "image/gif", f.Type == "image/webp":
		return sdk.NewImageBlockBase64(f.Type, base64.StdEncoding.EncodeToString(f.Data)), nil
	case f.Type == "application/pdf":
		b := sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(f.Data)})
		b.OfDocument.Title = sdk.String(f.Name)
		return b, nil
	case strings.HasPrefix(f.Type, "text/"):
		b := sdk.NewDocumentBlock(sdk.PlainTextSourceParam{Data: string(f.Data)})
		b.OfDocument.Title = sdk.String(f.Name)
		return b, nil
	}
	return sdk.ContentBlockParamUnion{}, &model.Error{Class: model.Bad, Model: m.client.Model,
		What: "it does not accept the file " + visible.Name(f.Name) + " of the type " + visible.Name(f.Type),
		Hint: "it accepts " + model.ListFileTypes(m.FileTypes())}
}

// wireID returns a valid id for the API, always the same for the same id. A conversation
// that another vendor began may have ids that are invalid here.
func wireID(id string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	if id != "" && len(id) <= 64 && !strings.ContainsFunc(id, odd) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
