// Command web lets a person decide in a browser about the file changes of an agent. The agent
// sends its calls to one port, and the person opens the other, which the agent must not reach.
package main

import (
	"context"
	"encoding/json"
	"html/template"
	"log"
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
	d := &desk{}
	g := gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: d, Journal: journal}
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], calls(g))) }()
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2], http.NewCrossOriginProtection().Handler(d)))
}

// calls returns the handler for the agent.
func calls(g gate.Gate) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var call gate.Call
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(g.Do(r.Context(), gate.Model, call).Text)
	}
}

// A desk has the questions that wait, by the names of their requests.
type desk struct{ sync.Map }

type question struct {
	gate.Request
	answer chan gate.Decision
}

// Approve implements gate.Approver.
func (d *desk) Approve(ctx context.Context, r gate.Request) gate.Decision {
	q := question{r, make(chan gate.Decision, 1)}
	d.Store(r.ID(), q)
	defer d.Delete(r.ID())
	select {
	case decision := <-q.answer:
		return decision
	case <-ctx.Done():
		return r.Decline("nobody", "nobody answered")
	}
}

// ServeHTTP shows the questions to the person, and takes the answers.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if one, ok := d.Load(r.FormValue("id")); ok && r.Method == http.MethodPost {
		q, decision := one.(question), gate.Decision{}
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
	}
	var list []question
	d.Range(func(_, q any) bool { list = append(list, q.(question)); return true })
	page.Execute(w, list)
}

var page = template.Must(template.New("").Parse(`<!doctype html><title>Requests</title>
{{range .}}<form method=post><input type=hidden name=id value="{{.ID}}">
{{range .Items}}<p><label><input type=checkbox name=seen value="{{.Ack}}"> {{.Name}}</label><pre>{{.Text}}</pre>{{end}}
<button name=answer value=yes>Approve</button> <button name=answer value=no>Decline</button></form>{{else}}Nothing waits.{{end}}
`))
