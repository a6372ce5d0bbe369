package serve_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// FuzzAnswer sends forged requests of a node, a submitter and an approver, who have nothing to do
// with a job. The hub answers each without a failure of its own, the job stays as it is, and neither
// the node nor the submitter sees a content of it.
func FuzzAnswer(f *testing.F) {
	p := &place{t: f, dir: f.TempDir(), listen: "127.0.0.1:0", deadline: time.Hour, isQuiet: true}
	p.start()
	f.Cleanup(func() { p.server.Close() })
	admin := p.admin()
	maker, approver, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Approve, "approver"), p.client(admin, hub.Node, "node")
	const secret = "the secret of the job"
	id := submit(f, maker, []string{approver.Key}, nil, secret)
	j := take(f, node)
	request := hub.Request{ID: "r1", Hash: send(f, node, of(j), secret+" in a request"), Tool: "push"}
	must(f, node.Ask(f.Context(), hub.Question{Attempt: of(j), Requests: []hub.Request{request}}))
	strangers := []*hub.Client{p.client(admin, hub.Node, "evil"), p.client(admin, hub.Submit, "other"), p.client(admin, hub.Approve, "nobody")}
	own := submit(f, strangers[1], nil, nil, "x") // the stranger's node has a job of its own
	take(f, strangers[0])
	state := func(t testing.TB) string {
		t.Helper()
		job, err := maker.Job(t.Context(), id)
		must(t, err)
		text, err := json.Marshal(job)
		must(t, err)
		return string(text)
	}
	before := state(f)
	attempt := `{"job":"` + id + `","attempt":1`
	hash := hub.HashOf([]byte(secret))
	for _, one := range [][2]string{
		{"beat", attempt + "}"}, {"claim", attempt + `,"call":"1.1","tool":"shell","nonce":"n"}`}, {"end", attempt + `,"state":"done","result":{"answer":"x"}}`}, {"pause", attempt + "}"},
		{"checkpoint", attempt + `,"files":"` + hash + `","first":1,"lines":["e30="]}`}, {"question", attempt + `,"requests":[{"id":"r2","hash":"` + hash + `"}]}`}, {"decisions", attempt + "}"},
		{"get", attempt + `,"hash":"` + hash + `"}`}, {"get", `{"hash":"` + hash + `"}`}, {"put", attempt + `,"hash":"` + hash + `","size":1}`}, {"missing", attempt + `,"hashes":["` + hash + `","x"]}`},
		{"job", `"` + id + `"`}, {"job", `"job"`}, {"cancel", `"` + id + `"`}, {"retry", `"` + id + `"`}, {"remove", `"` + id + `"`}, {"events", `{"job":"` + id + `","from":1}`},
		{"jobs", `{"states":["running"],"after":"x","most":-1}`}, {"users", "null"}, {"nodes", "{}"}, {"revoke", `"maker"`}, {"invite", `{"key":"x","role":"admin","name":"x"}`}, {"prune", `{"before":"2030-01-01T00:00:00Z"}`},
		{"submit", `{"text":"e30=","signature":"AAAA"}`}, {"decide", `{"job":"` + id + `","decision":{"text":"e30="}}`}, {"hello", `"x"`}, {"take", `{"labels":["a","a","any"],"slots":-5}`},
		{"end", `{"job":"` + own + `","attempt":1,"state":"in doubt","doubt":{"call":"1"}}`}, {"checkpoint", `{"job":"` + own + `","attempt":1,"files":"` + hash + `"}`}, {"", ""},
	} {
		for who := range strangers {
			f.Add(uint8(who), one[0], one[1], []byte("data"))
		}
	}
	f.Fuzz(func(t *testing.T, who uint8, method, value string, data []byte) {
		if strings.Contains(strings.ToLower(value), "wait") { // such requests take seconds
			return
		}
		c := strangers[int(who)%len(strangers)]
		text := `{"value":` + value + `}`
		message := append(append(binary.AppendUvarint(nil, uint64(len(text))), text...), data...)
		for _, sent := range [][]byte{message, data} {
			got, more, failure := p.server.Answer(c.Key, method, sent)
			if failure != nil && failure.Code == hub.CodeInternal {
				t.Fatalf("%s: %s", method, failure.Text)
			}
			answer, err := json.Marshal(got)
			must(t, err)
			if c.Role != hub.Approve && (bytes.Contains(answer, []byte(secret)) || bytes.Contains(more, []byte(secret))) {
				t.Fatalf("%s answers %s, %s", method, answer, more)
			}
		}
		if got := state(t); got != before {
			t.Fatalf("%s %s changed the job: got %s, want %s", method, value, got, before)
		}
	})
}
