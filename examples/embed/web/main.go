// Command web lets a person decide in a browser about the file changes of an agent. The agent
// sends its calls to one port, and the person opens the other, which the agent must not reach.
package main

import (
	"context"
	"encoding/json"
	"html/template"
	"log"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

func main() {
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/out", Source: "out", Access: sandbox.ReadWrite}}})
	if err != nil {
		log.Fatal(err)
	}
	journal, err := gate.OpenJournal("state", time.Now)
	if err != nil {
		log.Fatal(err)
	}
	desk := &desk{questions: map[string]question{}}
	desk.gate = gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: desk, Journal: journal}
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], desk.calls())) }()
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2], desk.pages()))
}

// A desk shows requests in a browser and waits for the answers.
type desk struct {
	gate      gate.Gate
	mu        sync.Mutex
	questions map[string]question
}

type question struct {
	gate.Request
	answer chan gate.Decision
}

// Approve implements gate.Approver.
func (d *desk) Approve(ctx context.Context, r gate.Request) gate.Decision {
	q := question{r, make(chan gate.Decision, 1)}
	d.mu.Lock()
	d.questions[r.ID()] = q
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.questions, r.ID())
		d.mu.Unlock()
	}()
	select {
	case decision := <-q.answer:
		return decision
	case <-ctx.Done():
		return r.Decline("nobody", "nobody answered")
	}
}

// calls returns the handler for the agent.
func (d *desk) calls() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call gate.Call
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(d.gate.Do(r.Context(), gate.Model, call).Text)
	})
}

// pages returns the handler for the person.
func (d *desk) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		questions := maps.Clone(d.questions)
		d.mu.Unlock()
		page.Execute(w, questions)
	})
	mux.HandleFunc("POST /decide", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		q, ok := d.questions[r.FormValue("id")]
		d.mu.Unlock()
		if !ok {
			http.Error(w, "this request does not wait any more", http.StatusNotFound)
			return
		}
		decision := q.Decline("the person at the browser", r.FormValue("why"))
		if r.FormValue("answer") == "yes" {
			seen, err := q.Acknowledge(r.Form["seen"]...)
			if err != nil { // a box is not ticked
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			decision = seen.Approve("the person at the browser")
		}
		select {
		case q.answer <- decision:
		default: // somebody was faster
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	return http.NewCrossOriginProtection().Handler(mux) // another site cannot answer for the person
}

var page = template.Must(template.New("").Parse(`<!doctype html><title>Requests</title>
{{range .}}<form method=post action=/decide><input type=hidden name=id value="{{.ID}}">
{{range .Items}}<p><label><input type=checkbox name=seen value="{{.Ack}}"> {{.Name}}</label><pre>{{.Text}}</pre>{{end}}
<button name=answer value=yes>Approve</button> <button name=answer value=no>Decline</button></form>{{else}}Nothing waits.{{end}}
`))
