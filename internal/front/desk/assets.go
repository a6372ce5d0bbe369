package desk

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
)

//go:embed assets
var assets embed.FS

// assetTypes are the files that a browser may load, with their types.
var assetTypes = map[string]string{"htmx.min.js": "text/javascript", "desk.js": "text/javascript", "device.js": "text/javascript", "icon.svg": "image/svg+xml"}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	kind, ok := assetTypes[r.PathValue("name")]
	if !ok {
		refuse(w, http.StatusNotFound, "no such file")
		return
	}
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	http.ServeFileFS(w, r, assets, "assets/"+r.PathValue("name"))
}

func readAsset(name string) string {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(data)
}

// hashOf returns the hash of a script or style, in the form of content security policies.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// contentPolicy returns the content security policy of all pages. A browser runs only the
// scripts and uses only the style with these hashes.
func contentPolicy() string {
	return fmt.Sprintf("default-src 'none'; script-src '%s' '%s' '%s'; style-src '%s'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		hashOf(readAsset("htmx.min.js")), hashOf(readAsset("desk.js")), hashOf(readAsset("device.js")), hashOf(readAsset("desk.css")))
}

// templates returns the pages. golem parses them when it serves the first one.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"style":     func() template.CSS { return template.CSS(readAsset("desk.css")) },
		"integrity": func(name string) string { return hashOf(readAsset(name)) },
		"age":       visible.Age,
		"clock":     func(t time.Time) string { return t.Local().Format(time.DateTime) },
		"count":     func(n int, noun string) string { return visible.Count(n, noun) },
		"total":     func(n uint64, noun string) string { return visible.Count(n, noun) },
		"near":      visible.HomeRelative,
		"kind":      kindWords,
		"command":   nextCommand,
		"cells":     splitRow,
		"painted":   paintRows,
		"lines":     visible.LineCounts,
		"number":    formatNumber,
		"shorten":   visible.Cut,
		"prose":     visible.Prose,
		"cost":      costText,
		"work":      workText,
		"eventkind": eventWord,
		"controls":  newControls,
		"ending":    endingOf,
		"size":      visible.Amount,
		"percent":   func(load float64) string { return fmt.Sprintf("%.0f %%", 100*load) },
		"pair":      func(values ...any) []any { return values },
	}).ParseFS(assets, "assets/*.html"))
})

// formatNumber returns a whole number with separators.
func formatNumber(n any) string {
	switch n := n.(type) {
	case int:
		return visible.Number(n)
	case int64:
		return visible.Number(n)
	case uint64:
		return visible.Number(n)
	}
	return fmt.Sprint(n)
}

// costText returns what a worker has cost.
func costText(u inbox.WorkerUse) string {
	switch {
	case u.Unpriced && u.Cost > 0:
		return fmt.Sprintf("$%.2f and more, cost unknown", u.Cost)
	case u.Unpriced:
		return "cost unknown"
	}
	return fmt.Sprintf("$%.2f", u.Cost)
}

// workText says how much a job has done.
func workText(r hub.Result) string {
	return visible.Count(r.Calls, "call") + ", " + visible.Count(r.Tokens, "token")
}

// eventWord says what an event is.
func eventWord(e inbox.Event) string {
	word := map[inbox.EventKind]string{inbox.EventInput: "Input", inbox.EventAnswer: "Answer", inbox.EventCall: "Call", inbox.EventResult: "Result",
		inbox.EventConnection: "Connection", inbox.EventDecision: "Decision", inbox.EventNote: "Note", inbox.EventEnd: "End"}[e.Kind]
	if e.Failed {
		word += ", failed"
	}
	return word
}

// kindWords says what an item is.
func kindWords(k inbox.Kind) string {
	return map[inbox.Kind]string{inbox.KindCall: "Call", inbox.KindHost: "Unknown host", inbox.KindChanges: "Changes", inbox.KindCommit: "Staged commit", inbox.KindRun: "Paused run", inbox.KindJob: "Job", inbox.KindFetch: "Finished job"}[k]
}

// nextCommand returns the command that shows an item in a terminal.
func nextCommand(i inbox.Item, home string) string {
	dir := visible.CommandLine(i.Directory)
	if near := visible.HomeRelative(i.Directory, home); dir == i.Directory && strings.HasPrefix(near, "~/") {
		dir = near // a shell reads it in the same way
	}
	switch i.Kind {
	case inbox.KindCall, inbox.KindHost:
		if i.Job != "" {
			return "golem approve --hub " + i.ID
		}
	case inbox.KindJob:
		return "golem jobs show " + i.ID
	case inbox.KindFetch:
		return "golem jobs fetch " + i.ID
	case inbox.KindChanges:
		return "golem diff -C " + dir + " " + naming.Mark + cmp.Or(i.Name, i.ID)
	case inbox.KindCommit:
		return "golem review -C " + dir
	case inbox.KindRun:
		return "golem run " + dir + " --resume " + cmp.Or(i.Name, i.ID)
	}
	return ""
}
