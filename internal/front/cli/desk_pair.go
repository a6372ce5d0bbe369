package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/device"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// openDevices opens the store of the user's devices.
func openDevices(cmd *cobra.Command) (*device.Store, error) {
	f := &programFlags{dir: "."}
	f.state, _ = cmd.Flags().GetString("state")
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	return device.Open(o.StateBase(), o.Now)
}

func addState(cmd *cobra.Command) {
	cmd.Flags().String("state", "", "the directory of golem's state (GOLEM_STATE)")
	markShared(cmd.Flags(), "state")
}

func newDeskPair() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pair NAME",
		Short: "Let a device, such as your phone, decide about calls",
		Long: `Print a link for the browser of the device, at a terminal also as a QR code for its camera. The
link works once, for five minutes, while golem desk runs. The device makes a key that its browser does not export, and shows eight characters. Type them
here, and golem adds the device. The device then signs each decision.

A device sees the inbox and the calls in it, and may decline. With --may it may also approve
calls up to a risk, after all of a call was on its screen. It never approves what changes your
trust, and makes no rules. Your configuration names the address: desk.url.`,
		Example: "  golem desk pair phone\n  golem desk pair phone --may medium",
		Args:    takesArgs(1, 1, "desk pair needs a name for the device: golem desk pair phone"),
	}
	addState(cmd)
	may := "decline"
	cmd.Flags().StringVar(&may, "may", may, "the most that the device may do: decline, or approve up to low, medium or high risk")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, at := args[0], preferences().Desk
		switch {
		case wantsJSON(cmd):
			return usageError("golem desk pair asks you; golem desk devices --json lists the devices")
		case !slices.Contains(device.Scopes, may):
			return usagef("--may %s: it is %s", visible.Text(may), strings.Join(device.Scopes, ", "))
		case name == "" || len(name) > 40 || visible.Name(name) != name || strings.ContainsAny(name, " /@()"):
			return usagef("%s is no name of a device; write one such as phone", visible.Text(name))
		case at.URL == "":
			return &sandbox.Error{Op: "desk pair", Code: sandbox.ErrInvalid, Hint: "your configuration does not say where the device reaches the desk; golem config edit --user, and write desk: {url: https://HOST}; docs/desk.md has two recipes"}
		}
		terminal := findTerminal(false)
		if terminal == nil {
			return usageError("golem desk pair asks you at a terminal; run it in one")
		}
		connection, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(cmd.Context(), "tcp", at.Listen)
		if err != nil {
			return &sandbox.Error{Op: "desk pair", Path: at.Listen, Code: sandbox.ErrInvalid, Hint: "no desk listens there; run golem desk in another terminal first"}
		}
		connection.Close()
		store, err := openDevices(cmd)
		if err != nil {
			return err
		}
		defer store.Close()
		code, err := store.Offer(name, may)
		if err != nil {
			return err
		}
		defer store.Withdraw(code)
		link := strings.TrimSuffix(at.URL, "/") + "/pair#" + code
		if err := showQR(newScreen(cmd.OutOrStdout()), link); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Open this link on the device, within five minutes:\n%s\n", link)
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		for claimed := false; !claimed; {
			open := false
			if claimed, open = store.Claimed(code); !open {
				return &sandbox.Error{Op: "desk pair", Code: sandbox.ErrNotFound, Hint: "no device used the link within five minutes, or golem desk pair was run again"}
			}
			if err := pause(ctx, 200*time.Millisecond); err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
		}
		word, err := newAsker(terminal, cmd.ErrOrStderr(), patience).askWord(ctx, device.Device{Name: name, May: may})
		if err != nil {
			return fmt.Errorf("golem did not pair the device: %w", err)
		}
		d, err := store.Confirm(code, word, withAccount("golem desk pair, at a terminal"))
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is paired (%s); golem desk devices rm %s removes it\n", d.Name, d.ID, d.Name)
		return nil
	}
	return cmd
}

// askWord asks for the characters that a device shows, and returns them.
func (a *asker) askWord(ctx context.Context, d device.Device) (string, error) {
	q, done, err := a.open(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	q.options = func() []string { return []string{"the eight characters that the device shows", "[Ctrl-C] stop"} }
	q.redraw = func() {
		q.show([]row{{Mark: visible.Header, Text: "golem desk pair: " + d.Name + " may " + d.MayText()}})
		q.showKeys(q.options()...)
	}
	q.begin()
	for range maxTypos {
		text, err := q.read()
		switch {
		case err == nil && len(text) == len(device.Word("")):
			return text, nil
		case err != nil && !errors.Is(err, errTypo):
			return "", err
		}
		q.typo("please type the eight characters that the device shows")
	}
	return "", errLate
}

func newDeskDevices() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "devices",
		Short:   "List the devices that may decide, and remove them",
		Long:    "List your paired devices, and the most that each may do.",
		Example: "  golem desk devices\n  golem desk devices rm phone",
		Args:    noArgs,
	}
	addState(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		store, err := openDevices(cmd)
		if err != nil {
			return err
		}
		defer store.Close()
		list, err := store.List()
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), append([]device.Device{}, list...))
		}
		for _, d := range list {
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  may %s  %s\n", d.Name, d.ID, d.MayText(), d.Added.Local().Format(time.DateTime))
		}
		if len(list) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "no devices; golem desk pair NAME adds one")
		}
		return nil
	}
	rm := &cobra.Command{Use: "rm NAME", Short: "Remove a device", Long: "Remove a device by its name or id. Nothing that it signed counts any more.", Example: "  golem desk devices rm phone\n  golem desk devices rm 4a0f8c11b2d3e4f5", Args: takesArgs(1, 1, "rm needs the name of one device: golem desk devices rm phone; golem desk devices lists them")}
	addState(rm)
	rm.RunE = func(cmd *cobra.Command, args []string) error {
		store, err := openDevices(cmd)
		if err != nil {
			return err
		}
		defer store.Close()
		if err := store.Remove(args[0], withAccount("golem desk devices rm")); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is removed; nothing that it signs counts any more\n", visible.Text(args[0]))
		return nil
	}
	cmd.AddCommand(rm)
	return cmd
}
