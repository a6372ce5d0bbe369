package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/desktop"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/work/program"
)

// loginTime is how long the user has to log in.
const loginTime = 10 * time.Minute

func newMCPLogin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Log in at a remote MCP server",
		Long: `Log in at an MCP server of a worker that golem reaches over HTTP, with OAuth. SERVER is its
name in the worker file. golem prints the address of a page to log in at, and opens it in
your browser. The server chooses that page: look at its host before you type a password.
If your browser is on another machine, copy the address that it shows after the login, and
paste it here.

golem stores the login as golem secret set stores a secret, renews it when it expires, and
sends it to no other server. No worker and no record has it. golem mcp logout SERVER
deletes it.`,
		Example: "  golem mcp login search\n  golem mcp login search --worker reviewer --no-open",
		Args:    takesArgs(1, 1, oneServer),
	}
	f, noOpen := &gateFlags{programFlags: addProgramFlags(cmd)}, false
	f.addWorker(cmd)
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address, and do not open a browser")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		gate, err := f.openForLogin(cmd)
		if err != nil {
			return err
		}
		defer gate.Close()
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		ctx, cancel := context.WithTimeoutCause(ctx, loginTime, errors.New("nobody logged in within ten minutes; type the command again"))
		defer cancel()
		back, err := newLoginPage()
		if err != nil {
			return err
		}
		defer back.Close()
		err = gate.Login(ctx, args[0], back.address(), func(ctx context.Context, address, host string) (url.Values, error) {
			return back.ask(ctx, cmd, args[0], address, host, noOpen)
		})
		switch caught, is := errors.AsType[signaled](err); {
		case is:
			return caught.code()
		case err != nil:
			return err
		}
		return printLineOr(cmd, map[string]any{"ok": true, "server": args[0]}, "logged in at %s; golem tools --accept %s lists its tools", visible.Text(args[0]), visible.CommandLine(args[0]))
	}
	return cmd
}

func newMCPLogout() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "logout SERVER",
		Short:   "Delete the login at a remote MCP server",
		Long:    `Delete the login of golem mcp login from this machine. The server may keep it until it expires.`,
		Example: "  golem mcp logout search\n  golem mcp logout search --worker reviewer",
		Args:    takesArgs(1, 1, oneServer),
	}
	f := &gateFlags{programFlags: addProgramFlags(cmd)}
	f.addWorker(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.open(opening{otherwise: emptyProgram})
		if err != nil {
			return err
		}
		name, err := p.LoginName(f.worker, args[0])
		if err != nil {
			return err
		}
		s, err := userSecrets()
		if err == nil {
			err = s.Remove(name)
		}
		switch {
		case errors.Is(err, keyring.ErrNotFound):
			return usagef("there is no login at %s; golem mcp login %s logs in", visible.Text(args[0]), visible.CommandLine(args[0]))
		case err != nil:
			return err
		}
		return printLineOr(cmd, map[string]any{"ok": true, "server": args[0]}, "deleted the login at %s", visible.Text(args[0]))
	}
	return cmd
}

// oneServer is the error of login and logout for other arguments.
const oneServer = "%s takes the name of one MCP server, got %d; golem workers shows the servers of a worker"

// openForLogin opens the gate of the worker that has the server.
func (f *gateFlags) openForLogin(cmd *cobra.Command) (*program.OpenWorker, error) {
	p, err := f.open(opening{otherwise: emptyProgram})
	if err != nil {
		return nil, err
	}
	if p.Content.Hash == "" {
		return nil, noProgram(p)
	}
	if err := f.askTrust(cmd, p, false); err != nil {
		return nil, err
	}
	return p.OpenWorker(program.WorkerOptions{Worker: f.worker, Secrets: secrets(os.Environ()), SingleCall: true, Tools: []string{}})
}

// keepLogin stores the login at a server.
func keepLogin(name, value string) error {
	s, err := userSecrets()
	if err != nil {
		return err
	}
	_, _, err = s.Set(name, value)
	return err
}

// A loginPage is the page on this machine to which the browser returns after a login.
type loginPage struct {
	listener net.Listener
	server   *http.Server
	came     chan url.Values
	state    chan string // the state that the browser must bring, once it is known
}

// newLoginPage listens for the browser, on a free port.
func newLoginPage() (*loginPage, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("no page for your browser to return to: %w; try again", err)
	}
	p := &loginPage{listener: listener, came: make(chan url.Values, 1), state: make(chan string, 1)}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go p.server.Serve(listener)
	return p, nil
}

// address returns the address of the page.
func (p *loginPage) address() string { return "http://" + p.listener.Addr().String() + "/callback" }

// Close ends the page.
func (p *loginPage) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the browser reads the last answer
	defer cancel()
	return p.server.Shutdown(ctx)
}

// ServeHTTP implements http.Handler. Other pages in the browser can send requests here, so
// only one with the state of this login counts.
func (p *loginPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	tell := func(code int, text string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "<!doctype html><title>golem</title><p>%s</p>\n", html.EscapeString(text))
	}
	if r.Method != http.MethodGet || r.URL.Path != "/callback" || r.Host != p.listener.Addr().String() {
		tell(http.StatusNotFound, "This page is only for a login of golem.")
		return
	}
	if !p.accept(r.URL.Query()) {
		tell(http.StatusBadRequest, "This is not the login that golem waits for.")
		return
	}
	tell(http.StatusOK, "golem has your answer. You can close this page.")
}

// accept reports whether a query is that of the login, and passes it on.
func (p *loginPage) accept(q url.Values) bool {
	select {
	case want := <-p.state:
		p.state <- want
		if want == "" || q.Get("state") != want {
			return false
		}
	default: // nobody logs in yet
		return false
	}
	select {
	case p.came <- q:
	default: // it came before
	}
	return true
}

// ask lets the user log in at an address, and waits for the browser, or for the address that
// the user pastes.
func (p *loginPage) ask(ctx context.Context, cmd *cobra.Command, name, address, host string, noOpen bool) (url.Values, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	p.state <- at.Query().Get("state")
	errs := cmd.ErrOrStderr()
	fmt.Fprintf(errs, "golem: %s asks you to log in at %s; open this address in your browser:\n", visible.Text(name), visible.Text(host))
	fmt.Fprintln(errs, visible.Text(address))
	if !noOpen {
		if file, err := writeRedirect(address); err == nil {
			defer os.RemoveAll(filepath.Dir(file))
			desktop.OpenFile(ctx, desktop.Directories(), os.Environ(), file) // the user can open the address
		}
	}
	if terminal := findTerminal(false); terminal != nil {
		fmt.Fprintln(errs, "golem: waiting; if the browser is on another machine, paste the address that it shows after the login")
		go p.readPasted(terminal, errs) // it ends with the process
	}
	select {
	case q := <-p.came:
		return q, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readPasted reads addresses that the user pastes.
func (p *loginPage) readPasted(from io.Reader, errs io.Writer) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if u, err := url.Parse(text); text != "" && (err != nil || !p.accept(u.Query())) {
			fmt.Fprintln(errs, "golem: this is not the address after the login; it begins with "+p.address()+"?")
		}
	}
}

// writeRedirect writes a page that leads to an address. Other users can read the arguments
// of a browser, but not this file.
func writeRedirect(address string) (string, error) {
	dir, err := os.MkdirTemp("", "golem-login-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "login.html")
	return file, os.WriteFile(file, fmt.Appendf(nil, "<!doctype html><meta http-equiv=refresh content=\"0; url=%s\">\n", html.EscapeString(address)), 0o600)
}
