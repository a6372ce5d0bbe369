package spending

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/golem-forge/golem/internal/work/model"
)

type usage = model.Usage

// refuse returns the answer with which golem refuses a request, in the form in which the
// vendor reports an error. Clients show an error of this kind, and do not try again.
func refuse(p place, why string) *http.Response {
	told := "golem: " + why
	var body any
	switch p.form {
	case messages:
		body = map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": told}}
	case generate:
		body = map[string]any{"error": map[string]any{"code": http.StatusBadRequest, "message": told, "status": "FAILED_PRECONDITION"}}
	default:
		body = map[string]any{"error": map[string]any{"message": told, "type": "invalid_request_error", "param": nil, "code": "budget_exceeded"}}
	}
	text, _ := json.Marshal(body) // it has only strings and a number
	header := http.Header{"Content-Type": {"application/json"}, "X-Should-Retry": {"false"}}
	return &http.Response{StatusCode: http.StatusBadRequest, Status: why, Header: header, Body: io.NopCloser(bytes.NewReader(text))}
}
