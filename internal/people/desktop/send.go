package desktop

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

// A Notice says that something waits for the user. All its texts are visible text. It is what
// a command and a webhook of the form json get.
type Notice struct {
	Text      string   `json:"text"` // the whole message
	Tools     []string `json:"tools,omitempty"`
	Directory string   `json:"directory,omitempty"` // its name
	Risk      string   `json:"risk,omitempty"`
	Titles    []string `json:"titles,omitempty"` // what the calls would do; nil unless the user wants it
	Link      string   `json:"link,omitempty"`
}

// Channels are the places outside this machine's desktop where the user wants notices.
type Channels struct {
	Command []string // with an absolute path
	Webhook string
	Form    string // json, ntfy, slack, discord or matrix; "" for json
	Mail    string

	Environ     []string // of the command and of sendmail
	Directories []string // in which sendmail is
	Pause       func(ctx context.Context, d time.Duration) error
}

// sendLimit limits one attempt of one channel.
const sendLimit = 10 * time.Second

// pauses are the times before each attempt: all of them take about an hour.
var pauses = []time.Duration{0, 30 * time.Second, 2 * time.Minute, 7 * time.Minute, 20 * time.Minute, 30 * time.Minute}

// Deliver sends a notice by each channel. It tries a channel that failed again, for at most
// about an hour. Before each attempt it calls current, which returns the notice and whether
// something still waits.
func (c Channels) Deliver(ctx context.Context, current func() (Notice, bool)) (err error) {
	left := c.list()
	for _, pause := range pauses {
		if err := c.Pause(ctx, pause); err != nil {
			return err
		}
		notice, ok := current()
		if !ok {
			return nil
		}
		if left, err = sendAll(ctx, left, notice); len(left) == 0 {
			return nil
		}
	}
	return err
}

// Send sends a notice once by each channel.
func (c Channels) Send(ctx context.Context, n Notice) error {
	_, err := sendAll(ctx, c.list(), n)
	return err
}

// sendAll sends a notice once, and returns the channels that failed.
func sendAll(ctx context.Context, channels []func(context.Context, Notice) error, n Notice) (left []func(context.Context, Notice) error, err error) {
	for _, send := range channels {
		limited, cancel := context.WithTimeout(ctx, sendLimit)
		if wrong := send(limited, n); wrong != nil {
			left, err = append(left, send), errors.Join(err, wrong)
		}
		cancel()
	}
	return left, err
}

// list returns a function for each channel.
func (c Channels) list() (list []func(context.Context, Notice) error) {
	if len(c.Command) > 0 {
		list = append(list, c.runCommand)
	}
	if c.Webhook != "" {
		list = append(list, c.post)
	}
	if c.Mail != "" {
		list = append(list, c.sendMail)
	}
	return list
}

func (c Channels) runCommand(ctx context.Context, n Notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay, cmd.Stdin = c.Environ, "/", time.Second, bytes.NewReader(body)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("notify.command: %s: %w", c.Command[0], err)
	}
	return nil
}

func (c Channels) sendMail(ctx context.Context, n Notice) error {
	subject, _, _ := strings.Cut(n.Text, "\n")
	letter := "To: " + c.Mail + "\nSubject: " + mime.QEncoding.Encode("utf-8", "golem: "+subject) + "\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\n\n" + n.Text + "\n"
	if _, err := run(ctx, sendLimit, append(c.Directories, "/usr/sbin", "/usr/lib"), c.Environ, letter, program{"sendmail", []string{"-i", "--", c.Mail}, nil}); err != nil {
		return fmt.Errorf("notify.mail: %w", err)
	}
	return nil
}

// post sends a notice to the webhook. It follows no redirect: another host would get the
// message. Errors name only the host, because the rest of the address may be a secret.
func (c Channels) post(ctx context.Context, n Notice) error {
	at, err := url.Parse(c.Webhook)
	if err != nil {
		return errors.New("notify.webhook: no address")
	}
	wrong := func(why string) error { return fmt.Errorf("notify.webhook: %s %s", at.Host, why) }
	method, token := http.MethodPost, ""
	if secret, ok := at.User.Password(); ok && at.User.Username() == "" {
		token, at.User = secret, nil
	}
	var body any = n
	switch c.Form {
	case "slack": // it reads <…> as links and mentions
		body = map[string]string{"text": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(n.Text)}
	case "discord":
		body = map[string]any{"content": n.Text, "allowed_mentions": map[string]any{"parse": []string{}}}
	case "matrix": // each message has an id of its sender
		method, at = http.MethodPut, at.JoinPath(rand.Text())
		body = map[string]string{"msgtype": "m.text", "body": n.Text}
	}
	data, err := json.Marshal(body)
	kind := "application/json"
	if c.Form == "ntfy" {
		data, kind = []byte(n.Text), "text/plain; charset=utf-8"
	}
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(data))
	if err != nil {
		return wrong("is no address")
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("User-Agent", "golem")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if c.Form == "ntfy" {
		r.Header.Set("Title", "golem")
		if n.Link != "" {
			r.Header.Set("Click", n.Link)
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		cause := err
		if u, ok := errors.AsType[*url.Error](err); ok {
			cause = u.Err
		}
		return wrong(cmp.Or(map[bool]string{true: "did not answer within " + sendLimit.String()}[errors.Is(err, context.DeadlineExceeded)], "cannot be reached: "+cause.Error()))
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode/100 == 2:
		return nil
	case response.StatusCode/100 == 3:
		return wrong("answered " + response.Status + ", and golem follows no redirect; write the address that it leads to")
	}
	return wrong("answered " + response.Status)
}
