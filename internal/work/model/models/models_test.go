package models_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
)

// TestKeys checks which key goes where. A server on the loopback interface stands in for
// every host, as the proxy or as the address itself.
func TestKeys(t *testing.T) {
	all := []string{"ANTHROPIC_API_KEY", "for-anthropic", "OPENAI_API_KEY", "for-openai", "OPENROUTER_API_KEY", "for-openrouter",
		"GEMINI_API_KEY", "for-gemini", "MISTRAL_API_KEY", "for-mistral", "DEEPSEEK_API_KEY", "for-deepseek", "GROQ_API_KEY", "for-groq", "XAI_API_KEY", "for-xai",
		"GOOGLE_API_KEY", "for-google", "CORP_KEY", "for-corp"}
	for _, test := range []struct {
		name    string
		options models.Options
		env     []string // in addition to the common ones
		want    string   // the variable whose key is sent, or an error
	}{
		{"by the user, the vendor's key", models.Options{Spec: "openai:m", Base: "LOCAL"}, nil, "Bearer for-openai"},
		{"by the user's environment", models.Options{Spec: "openai:m"}, []string{"OPENAI_BASE_URL", "LOCAL"}, "Bearer for-openai"},
		{"by the user's environment", models.Options{Spec: "anthropic:m"}, []string{"ANTHROPIC_BASE_URL", "LOCAL"}, "for-anthropic"},
		{"by the user's environment", models.Options{Spec: "openrouter:m"}, []string{"OPENROUTER_BASE_URL", "LOCAL"}, "Bearer for-openrouter"},
		{"by the user's environment", models.Options{Spec: "gemini:m"}, []string{"GEMINI_BASE_URL", "LOCAL"}, "for-gemini"},
		{"by the user's environment", models.Options{Spec: "mistral:m"}, []string{"MISTRAL_BASE_URL", "LOCAL"}, "Bearer for-mistral"},
		{"by the user's environment", models.Options{Spec: "deepseek:m"}, []string{"DEEPSEEK_BASE_URL", "LOCAL"}, "Bearer for-deepseek"},
		{"by the user's environment", models.Options{Spec: "groq:m"}, []string{"GROQ_BASE_URL", "LOCAL"}, "Bearer for-groq"},
		{"by the user's environment", models.Options{Spec: "xai:m"}, []string{"XAI_BASE_URL", "LOCAL"}, "Bearer for-xai"},
		{"by the project, none", models.Options{Spec: "gemini:m", Base: "LOCAL", ByProject: true}, nil, ""},
		{"ollama has none", models.Options{Spec: "ollama:m"}, []string{"OLLAMA_HOST", "LOCAL"}, ""},
		{"by the user, another key", models.Options{Spec: "openai:m", Base: "LOCAL", KeyName: "CORP_KEY"}, nil, "Bearer for-corp"},
		{"by the project, none", models.Options{Spec: "openai:m", Base: "LOCAL", ByProject: true}, nil, ""},
		{"by the project, none", models.Options{Spec: "anthropic:m", Base: "LOCAL", ByProject: true}, nil, ""},
		{"by the project, none from the keyring", models.Options{Spec: "openai:m", Base: "LOCAL", ByProject: true, Keyring: ring}, nil, ""},
		{"by the project, the one it names", models.Options{Spec: "openai:m", Base: "LOCAL", ByProject: true, KeyName: "CORP_KEY"}, nil, "Bearer for-corp"},
		{"the user's environment before the project", models.Options{Spec: "openai:m", Base: "http://evil.example", ByProject: true, KeyName: "CORP_KEY"},
			[]string{"OPENAI_BASE_URL", "LOCAL"}, "Bearer for-openai"},
		{"the user before the environment", models.Options{Spec: "openai:m", Base: "LOCAL"}, []string{"OPENAI_BASE_URL", "http://127.0.0.1:1"}, "Bearer for-openai"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startServer(t, answer(500, "", ""))
			o := test.options
			o.Base = strings.Replace(o.Base, "LOCAL", s.URL, 1)
			pairs := append([]string(nil), all...)
			for _, p := range test.env {
				pairs = append(pairs, strings.Replace(p, "LOCAL", s.URL, 1))
			}
			o.Env = env(pairs...)
			m, err := models.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.Answer(context.Background(), hello, nil)
			mustFail(t, err, model.Broken, "500")
			if len(s.headers) != 1 {
				t.Fatalf("%d requests, want one without a retry", len(s.headers))
			}
			if got := s.headers[0].Get("Authorization") + s.headers[0].Get("X-Api-Key") + s.headers[0].Get("X-Goog-Api-Key"); got != test.want {
				t.Errorf("sent %q, want %q", got, test.want)
			}
			for name, values := range s.headers[0] {
				for _, v := range values {
					if strings.Contains(v, "for-") && v != test.want {
						t.Errorf("%s: %s", name, v)
					}
				}
			}
		})
	}
}

func ring(service, user string) (string, error) {
	if service == "golem" && user == "openai" {
		return "from-ring", nil
	}
	return "", errors.New("not there")
}

func TestKeyring(t *testing.T) {
	s := startServer(t, answer(500, "", ""))
	m, err := models.Open(models.Options{Spec: "openai:m", Base: s.URL, Keyring: ring, Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = m.Answer(context.Background(), hello, nil); err == nil || s.headers[0].Get("Authorization") != "Bearer from-ring" {
		t.Errorf("sent %v, %v", s.headers[0], err)
	}
	if _, err := models.Open(models.Options{Spec: "anthropic:m", Keyring: ring, Env: env()}); err == nil {
		t.Error("a key that is not in the keyring was found")
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestOwnHosts: a vendor's key goes to the vendor's host, and the address is https.
func TestOwnHosts(t *testing.T) {
	for spec, want := range map[string]string{
		"anthropic:m": "https://api.anthropic.com", "openai:m": "https://api.openai.com", "openrouter:a/b:free": "https://openrouter.ai",
		"gemini:m": "https://generativelanguage.googleapis.com", "ollama:qwen3:8b": "http://localhost:11434",
		"mistral:m": "https://api.mistral.ai", "deepseek:m": "https://api.deepseek.com", "groq:m": "https://api.groq.com", "xai:m": "https://api.x.ai", "openai:gpt-5": "https://api.openai.com",
	} {
		var asked *url.URL
		stop := errors.New("stop")
		m, err := models.Open(models.Options{Spec: spec, Env: env("ANTHROPIC_API_KEY", secret, "OPENAI_API_KEY", secret, "OPENROUTER_API_KEY", secret, "GOOGLE_API_KEY", secret,
			"MISTRAL_API_KEY", secret, "DEEPSEEK_API_KEY", secret, "GROQ_API_KEY", secret, "XAI_API_KEY", secret),
			Transport: transport(func(r *http.Request) (*http.Response, error) { asked = r.URL; return nil, stop })})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Answer(context.Background(), hello, nil)
		mustFail(t, err, model.Broken, "stop")
		if got := asked.Scheme + "://" + asked.Host; got != want {
			t.Errorf("%s: asked %s, want %s", spec, got, want)
		}
	}
}

// TestRedirect: the client follows no redirect.
func TestRedirect(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		for _, status := range []int{301, 302, 303, 307, 308} {
			other := startServer(t, stream(d.events(sampleAnswer{text: []string{"yours"}, stop: d.stops[model.Done]})...))
			first := startServer(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/take?key="+secret, status)
			})
			_, err := open(t, d, first.URL).Answer(context.Background(), hello, nil)
			mustFail(t, err, model.Bad, "sends to http://localhost:", "use that address")
			if len(other.headers) != 0 || len(first.headers) != 1 || !strings.HasSuffix(first.headers[0].Get(d.header), secret) {
				t.Errorf("%d: %v, %v", status, other.headers, first.headers)
			}
		}
	})
}

func TestRefusedToOpen(t *testing.T) {
	for _, test := range []struct {
		name    string
		options models.Options
		env     []string
		class   model.Class
		words   []string
	}{
		{"no vendor", models.Options{Spec: "gpt-5"}, nil, model.Bad, []string{"not vendor:name", "such as"}},
		{"no name", models.Options{Spec: "openai:"}, nil, model.Bad, []string{"not vendor:name"}},
		{"unknown", models.Options{Spec: "antropic:x\x1b"}, nil, model.Bad, []string{"no vendor antropic", "did you mean anthropic?", "ollama, openai, openrouter, replay, scripted"}},
		{"no key", models.Options{Spec: "anthropic:m"}, []string{"OPENAI_API_KEY", secret}, model.Denied, []string{"no key in ANTHROPIC_API_KEY", "for api.anthropic.com", "golem secret set anthropic"}},
		{"a blank key", models.Options{Spec: "gemini:m"}, []string{"GEMINI_API_KEY", " \n"}, model.Denied, []string{"no key in GEMINI_API_KEY or GOOGLE_API_KEY"}},
		{"a key with a line break", models.Options{Spec: "openai:m"}, []string{"OPENAI_API_KEY", secret + "\nX: y"}, model.Denied, []string{"has a character that no key has"}},
		{"the project's key is not there", models.Options{Spec: "openai:m", Base: "https://llm.corp.example/v1", ByProject: true, KeyName: "CORP_KEY"}, []string{"OPENAI_API_KEY", secret},
			model.Denied, []string{"no key in CORP_KEY", "for llm.corp.example"}},
		{"a key in the open", models.Options{Spec: "openai:m", Base: "http://10.0.0.1/v1"}, []string{"OPENAI_API_KEY", secret}, model.Denied, []string{"unencrypted", "use https"}},
		{"a key in the open to the vendor", models.Options{Spec: "openai:m", Base: "http://api.openai.com/v1"}, []string{"OPENAI_API_KEY", secret}, model.Denied, []string{"unencrypted"}},
		{"a host that only looks like loopback", models.Options{Spec: "openai:m", Base: "http://localhost.evil.example"}, []string{"OPENAI_API_KEY", secret}, model.Denied, []string{"unencrypted"}},
		{"a password", models.Options{Spec: "openai:m", Base: "https://me:" + secret + "@host/"}, nil, model.Bad, []string{"base_url", "a name or a password"}},
		{"a query", models.Options{Spec: "openai:m", Base: "https://host/?k=" + secret}, nil, model.Bad, []string{"more than a path"}},
		{"no address", models.Options{Spec: "openai:m"}, []string{"OPENAI_BASE_URL", "%zz" + secret}, model.Bad, []string{"OPENAI_BASE_URL is no address", "cannot be read"}},
		{"a file", models.Options{Spec: "openai:m", Base: "file:///etc/passwd"}, nil, model.Bad, []string{"does not begin with https://"}},
		{"no file", models.Options{Spec: "scripted:no.yaml"}, nil, model.Bad, []string{"cannot be read: not there"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Env = env(test.env...)
			test.options.Read = func(string) ([]byte, error) { return nil, errors.New("not there") }
			m, err := models.Open(test.options)
			if m != nil {
				t.Errorf("got %v", m)
			}
			mustFail(t, err, test.class, test.words...)
		})
	}
}

// TestProjectToVendor: a project may name the vendor's own host, which gets its key.
func TestProjectToVendor(t *testing.T) {
	_, err := models.Open(models.Options{Spec: "openai:m", Base: "https://API.openai.com/v1", ByProject: true, Env: env()})
	mustFail(t, err, model.Denied, "no key in OPENAI_API_KEY")
	if _, err := models.Open(models.Options{Spec: "openai:m", Base: "https://llm.corp.example/v1", ByProject: true, Env: env()}); err != nil {
		t.Errorf("another host without a key: %v", err)
	}
}

func TestFilesAsModels(t *testing.T) {
	read := func(file string) ([]byte, error) {
		return []byte(map[string]string{"a.yaml": "- text: hi\n", "b.yaml": "- txt: hi\n", "c": "{}"}[file]), nil
	}
	m, err := models.Open(models.Options{Spec: "scripted:a.yaml", Read: read})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := m.Answer(context.Background(), hello, nil); err != nil || a.Text() != "hi" {
		t.Errorf("got %v, %v", a, err)
	}
	for spec, want := range map[string]string{"scripted:b.yaml": "b.yaml:1:3: unknown key", "replay:c": "c:1: not one answer"} {
		if m, err := models.Open(models.Options{Spec: spec, Read: read}); m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v", spec, m, err)
		}
	}
}

func TestOllamaHost(t *testing.T) {
	for text, want := range map[string]string{
		"": "localhost:11434", "0.0.0.0": "localhost:11434", ":8080": "localhost:8080", "gpu.example:1": "gpu.example:1", "http://gpu.example": "gpu.example:80",
		"https://gpu.example/x/v1": "gpu.example:443", "[::1]": "[::1]:11434", "127.0.0.1:5": "127.0.0.1:5",
	} {
		asked := ""
		m, err := models.Open(models.Options{Spec: "ollama:m", Env: env("OLLAMA_HOST", text),
			Transport: transport(func(r *http.Request) (*http.Response, error) { asked = r.URL.Host; return nil, errors.New("stop") })})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if _, err := m.Answer(context.Background(), hello, nil); err == nil || asked != want {
			t.Errorf("%q: asked %s, want %s", text, asked, want)
		}
	}
}
