package project

import (
	"net/mail"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// Notify says how golem tells the user that something waits.
type Notify struct {
	Show    string   // at this machine: auto, desktop, bell or off; "" for the default
	Command []string // a program of the user
	Webhook string   // an address, which may hold a secret
	Form    string   // what the webhook gets: one of webhookForms
	Mail    string   // an address of e-mail
	Content bool     // also say what the calls would do
	Denied  string   // the line of a policy that does not allow the host of the webhook, which is "" then
}

// Desk says where paired devices reach the desk of the user.
type Desk struct {
	URL              string // the address that they use; "" for none
	Listen           string // the address to listen on, which that one leads to
	Certificate, Key string // files for TLS; "" for a proxy on this machine that does it
}

func deskKey() strictyaml.Key {
	return strictyaml.Key{Name: "desk", Type: strictyaml.Group, Example: "{url: \"https://desk.example.net\"}", Doc: "Where the devices that you paired reach `golem desk`. Without it no device does.", Keys: []strictyaml.Key{
		{Name: "url", Type: strictyaml.Text, Example: "https://desk.example.net", Doc: "The address that the devices open. It is the link of notifications too."},
		{Name: "listen", Type: strictyaml.Text, Default: "127.0.0.1:8138", Example: "127.0.0.1:8138", Doc: "The address on which golem listens for them. It is one of this machine, unless there is a certificate."},
		{Name: "certificate", Type: strictyaml.Text, Example: "/etc/golem/desk.pem", Doc: "A file with a certificate for TLS. Without it a proxy on this machine does TLS."},
		{Name: "key", Type: strictyaml.Text, Example: "/etc/golem/desk.key", Doc: "The file with its key."},
	}}
}

// checkDesk reports values of the key desk that cannot work.
func checkDesk(n strictyaml.Node, problems *strictyaml.Problems) {
	at, ok := n.At("url")
	u, err := url.Parse(at.Text)
	if !ok || err != nil || !isWebAddress(at.Text) || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		problems.Add(n, "desk.url: no address that devices use", "write https://HOST, or http://localhost:PORT for a tunnel")
	}
	_, certificate := n.At("certificate")
	if _, key := n.At("key"); key != certificate {
		problems.Add(n, "desk: one of certificate and key is missing", "write both files, or none")
	}
}

// IsRemote reports whether golem also tells the user elsewhere.
func (n Notify) IsRemote() bool { return len(n.Command) > 0 || n.Webhook != "" || n.Mail != "" }

// webhookForms are the forms of messages to a webhook.
var webhookForms = []string{"json", "ntfy", "slack", "discord", "matrix"}

func notifyKey() strictyaml.Key {
	show := strictyaml.Key{Name: "show", Type: strictyaml.Word, Words: []string{"auto", "desktop", "bell", "off"}, Default: "auto", Example: "off",
		Doc: "How golem tells you at this machine: a notification on the desktop (`notify-send`), the bell of the terminal, the first that works (`auto`), or not at all."}
	key := show
	key.Name = "notify"
	key.Doc = "How golem tells you that a question has waited for ten seconds, or that a run waits: a notification on the desktop (`notify-send`), the bell of the terminal, the first that works (`auto`), or not at all. A map also tells you elsewhere."
	key.Or = []strictyaml.Key{{Type: strictyaml.Group, Keys: []strictyaml.Key{
		show,
		{Name: "command", Type: strictyaml.Texts, Example: "[/home/me/bin/tell-me]", Doc: "A program of yours, with its whole path. It gets the message as JSON on stdin, and runs as you, outside the jail."},
		{Name: "webhook", Type: strictyaml.Text, Example: "https://ntfy.sh/my-topic", Doc: "An address that gets the message by POST. A token may stand before the host: `https://:TOKEN@HOST/`."},
		{Name: "form", Type: strictyaml.Word, Words: webhookForms, Default: "json", Example: "ntfy", Doc: "The form of the message to the webhook."},
		{Name: "mail", Type: strictyaml.Text, Example: "me@example.org", Doc: "An address of e-mail, which gets the message by your own `sendmail`."},
		{Name: "content", Type: strictyaml.Bool, Default: "false", Example: "true", Doc: "Whether the message says what the calls would do, with the names of files. Otherwise it has the tools, the name of the directory and the risk."},
	}}}
	return key
}

// readNotify reads the value of the key notify.
func readNotify(n strictyaml.Node) (v Notify) {
	if n.Kind == strictyaml.Scalar {
		return Notify{Show: n.Text}
	}
	n.Decode(map[string]any{"show": &v.Show, "command": &v.Command, "webhook": &v.Webhook, "form": &v.Form, "mail": &v.Mail, "content": &v.Content}, nil)
	return v
}

// checkNotify reports values of the key notify that cannot work.
func checkNotify(n strictyaml.Node, problems *strictyaml.Problems) {
	v := readNotify(n)
	if c, ok := n.At("command"); ok && (len(v.Command) == 0 || !filepath.IsAbs(v.Command[0])) {
		problems.Add(c, "notify.command: no whole path of a program", "write it with its arguments, such as [/home/me/bin/tell-me]; golem does not search PATH for it")
	}
	if w, ok := n.At("webhook"); ok && !isWebAddress(v.Webhook) { // the address may hold a secret
		problems.Add(w, "notify.webhook: no address that golem uses", "write https://HOST/…, or http:// for this machine")
	}
	if f, ok := n.At("form"); ok && v.Webhook == "" {
		problems.Add(f, "notify.form without webhook", "write the address of the webhook, or remove it")
	}
	if m, ok := n.At("mail"); ok {
		if a, err := mail.ParseAddress(v.Mail); err != nil || a.Address != v.Mail {
			problems.Add(m, "notify.mail: "+sandbox.Shown(v.Mail)+" is no address", "write one such as me@example.org")
		}
	}
}

// isWebAddress reports whether a text is an address with TLS, or one of this machine.
func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"https", "http"}, u.Scheme) {
		return false
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip.IsLoopback()
}
