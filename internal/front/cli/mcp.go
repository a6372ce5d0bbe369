package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/version"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// mcpFlags are the flags of golem mcp.
type mcpFlags struct {
	*gateFlags
	given     *[]*explain.Mount
	http      program.HTTPOptions
	tokenFile string
}

// plenty is the memory limit in bytes above which the garbage collector runs more often.
const plenty = 512 << 20

func newMCP(serve Server) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the tools to other agents over MCP",
		Long: `Serve files, commands and tools to an agent over the Model Context Protocol. The agent
sees what a worker of the program sees. Each call passes the same gate, asks for your
approval by the same rules, and is recorded in the journal. The client starts golem mcp:
golem mcp install CLIENT prints the settings that it needs.

In a directory with golem-forge.config.yaml or workers, the agent has the permissions of
the entry worker, or those of --worker. In other directories it sees the current directory
copy-on-write. --root and --mount choose directories instead. Changes to a copy-on-write
directory wait in a session: golem diff shows them.

If the client can show forms, golem asks you there. golem approve ID in a terminal works
too. In a directory without a program, golem always asks before a command (the tool
shell). It prints at the start for which tools it asks.

With --http golem listens for clients, on this machine only unless you give --anywhere.
Each client needs a token: golem prints a new one at the start, or reads --token-file.`,
		Example: `  golem mcp install claude-code
  golem mcp --worker reviewer
  golem mcp --http 127.0.0.1:8137`,
		Args: noArgs,
	}
	f := &mcpFlags{gateFlags: addSessionFlags(cmd, "the last used one"), given: addMountFlags(cmd)}
	f.addWorker(cmd)
	f.addName(cmd)
	flags := cmd.Flags()
	flags.Lookup("wait").Usage = "how long to wait for an approval; at most 45s if the client has no forms, then the call returns as pending"
	flags.StringVar(&f.http.Address, "http", "", "listen at this address, such as 127.0.0.1:8137, instead of using standard input and output")
	flags.BoolVar(&f.http.Anywhere, "anywhere", false, "with --http: also accept an address that other machines reach; needs --cert and --key")
	flags.StringArrayVar(&f.http.Hosts, "host", nil, "with --http: another host name that clients use, such as box.example:8137; may be given again")
	flags.StringArrayVar(&f.http.Origins, "origin", nil, "with --http: an origin whose web pages may connect, such as http://localhost:6274; may be given again")
	flags.StringVar(&f.tokenFile, "token-file", "", "with --http: the file with the token; a new token if not given")
	flags.StringVar(&f.http.Cert, "cert", "", "with --http: the certificate, a PEM file")
	flags.StringVar(&f.http.Key, "key", "", "with --http: the key of the certificate, a PEM file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd, serve) }
	cmd.AddCommand(newInstall(), newMCPLogin(), newMCPLogout())
	return cmd
}

func (f *mcpFlags) run(cmd *cobra.Command, serve Server) error {
	if wantsJSON(cmd) {
		return usageError("golem mcp prints only messages for its client; golem audit show --json shows the calls")
	}
	if err := f.checkName(); err != nil {
		return err
	}
	p, err := f.open(opening{otherwise: flagMounts, mounts: *f.given})
	if err != nil {
		return err
	}
	if err := p.CheckEntry(); err != nil {
		return err
	}
	if err := f.askTrust(cmd, p, false); err != nil { // standard input is the client's, unless it is a terminal
		return err
	}
	if err := p.Storage.CheckLimit(); err != nil {
		return err
	}
	bare := p.Content.Hash == ""
	o := program.ServeOptions{In: os.Stdin, Out: os.Stdout, Errs: cmd.ErrOrStderr(), Version: version.Release, Wait: f.wait, Show: shortly}
	if f.http.Address != "" {
		if o.HTTP, err = f.listening(); err != nil {
			return err
		}
	} else if err := f.withoutHTTP(cmd); err != nil {
		return err
	}
	debug.SetMemoryLimit(min(plenty, debug.SetMemoryLimit(-1)))
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	// A client that disconnects causes an error, and must not end golem.
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	defer signal.Stop(gone)
	copying := newCopying(ctx, cmd.ErrOrStderr(), wantsCopy(f.copy))
	v := program.WorkerOptions{Worker: f.worker, ApproveReads: f.reads, Secrets: secrets(os.Environ()), Session: f.sessionID(), Name: f.name, Run: bare,
		Copy: wantsCopy(f.copy), OnCopy: copying.tell}
	switch {
	case bare && v.Session == "":
		v.Session, err = lastOf(p)
	case bare && v.Session != session.New && len(*f.given) == 0: // the session has the directories that it started with
		p, err = f.open(opening{session: v.Session})
	}
	if err != nil {
		return err
	}
	f.tell(cmd, p)
	if o.HTTP == nil && term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: waiting for messages of an MCP client on standard input; golem mcp install CLIENT makes a client start golem mcp; Ctrl-C ends it")
	}
	o.OnOpen = func(err error) { copying.end(err == nil) }
	err = serve(ctx, p, v, o)
	if caught, is := errors.AsType[signaled](context.Cause(ctx)); is {
		return caught.code()
	}
	return err
}

// withoutHTTP refuses flags that need --http.
func (f *mcpFlags) withoutHTTP(cmd *cobra.Command) error {
	for _, name := range []string{"anywhere", "host", "origin", "token-file", "cert", "key"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s goes with --http ADDR", name)
		}
	}
	return nil
}

// minToken is the minimum length of a token that the user chose.
const minToken = 16

// listening returns the options of the HTTP server.
func (f *mcpFlags) listening() (*program.HTTPOptions, error) {
	if f.tokenFile != "" {
		info, err := os.Stat(f.tokenFile)
		if err != nil {
			return nil, unreadToken(f.tokenFile, err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			return nil, usagef("--token-file %s: other users can read it; run chmod 600 on it", sandbox.Shown(f.tokenFile))
		}
		data, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, unreadToken(f.tokenFile, err)
		}
		f.http.Token = strings.TrimSpace(string(data))
		if len(f.http.Token) < minToken || strings.ContainsFunc(f.http.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, usagef("--token-file %s: a token has at least %d ASCII characters and no spaces", sandbox.Shown(f.tokenFile), minToken)
		}
	}
	if (f.http.Cert == "") != (f.http.Key == "") {
		return nil, usageError("--cert and --key go together")
	}
	return &f.http, nil
}

func unreadToken(file string, err error) error {
	return usagef("--token-file %s: %v; write a token of at least %d characters there, or omit the flag: then golem makes one and prints it", sandbox.Shown(file), visible.FileError("", err), minToken)
}

// lastOf returns the last used session with the same given directories, or session.New.
func lastOf(p *program.Program) (string, error) {
	list, err := p.Storage.Sessions.List()
	for _, s := range list {
		if slices.Equal(s.Mounts, p.Storage.Sessions.Given) {
			return s.ID, err
		}
	}
	return session.New, err
}

// tell prints the directories of the client if flags chose them, and notes about servers
// whose tools it does not get.
func (f *mcpFlags) tell(cmd *cobra.Command, p *program.Program) {
	for _, m := range p.Storage.Sessions.Given {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s is at %s, %s\n", m.Source, m.Target, m.Mode)
	}
	notes, _ := p.ServerNotes(f.worker) // the gate reports errors of the worker
	note(cmd, notes...)
}

// shortly returns a request as text of at most so many bytes for a form, and the items that
// the text shows.
func shortly(r tool.Request, most int) (text string, items []string) {
	sheet, all := display.NewSheet(r, maxColumns), display.NewSheet(r, 1<<20).All()
	for fold := 2 * maxRows; ; fold = fold * 3 / 4 {
		rows := sheet.Folded(fold, func(row) int { return 1 })
		var b strings.Builder
		if err := (screen{w: &b, plain: true}).show(rows); err != nil {
			return "", nil
		}
		if b.Len() <= most {
			return b.String(), display.RenderedItems(all, rows)
		}
		if fold == 0 { // the first row alone is too long
			return visible.Cut(b.String(), most/utf8.UTFMax) + "\n", nil
		}
	}
}
