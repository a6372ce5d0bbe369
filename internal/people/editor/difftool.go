package editor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A DiffTool is a program that shows how two files differ, or two trees.
type DiffTool struct {
	Name   string
	Prompt bool // ask before each file after the first, if the tool shows one file at a time

	program, command string // one of the two; a shell reads the command
	args             []string
	trees            bool
}

// knownTools are the tools that need no settings. Those with trees show all files at once. The
// options of vim keep it from obeying lines in the files.
var knownTools = []DiffTool{
	{Name: "vimdiff", program: "vim", args: vimOptions},
	{Name: "nvimdiff", program: "nvim", args: vimOptions},
	{Name: "gvimdiff", program: "gvim", args: append([]string{"-f"}, vimOptions...)},
	{Name: "vscode", program: "code", args: []string{"--wait", "--diff"}},
	{Name: "tkdiff", program: "tkdiff"},
	{Name: "diffuse", program: "diffuse"},
	{Name: "meld", program: "meld", trees: true},
	{Name: "kdiff3", program: "kdiff3", trees: true},
	{Name: "kompare", program: "kompare", trees: true},
	{Name: "bc", program: "bcompare", trees: true},
	{Name: "diffmerge", program: "diffmerge", args: []string{"--nosplash"}, trees: true},
	{Name: "xxdiff", program: "xxdiff", trees: true},
}

var vimOptions = []string{"-R", "-d", "--cmd", "set nomodeline noexrc", "-c", "wincmd l"}

// IsKnownTool reports whether golem knows a tool without settings.
func IsKnownTool(name string) bool {
	return slices.ContainsFunc(knownTools, func(t DiffTool) bool { return t.Name == name })
}

// FindDiffTool returns the tool with a name, or the one that the user's git uses. setting returns a
// setting of the user's own configuration of git, "" if it is not set.
func FindDiffTool(name string, setting func(key string) (string, error)) (t DiffTool, err error) {
	first := func(keys ...string) (value string) {
		for _, key := range keys {
			if value == "" && err == nil {
				value, err = setting(key)
			}
		}
		return value
	}
	if name == "" {
		name = first("diff.tool", "merge.tool")
	}
	if err != nil {
		return DiffTool{}, err
	}
	if name == "" {
		return DiffTool{}, noTool("your configuration of git names no tool; type golem diff --tool=NAME, or git config --global diff.tool NAME. Without more settings NAME is " + toolNames())
	}
	if strings.ContainsAny(name, "\n\x00") {
		return DiffTool{}, noTool("the name of a tool has one line")
	}
	if i := slices.IndexFunc(knownTools, func(t DiffTool) bool { return t.Name == name }); i >= 0 {
		t = knownTools[i]
	}
	t.Name = name
	t.Prompt = first("difftool.prompt") != "false"
	command, path := first("difftool."+name+".cmd", "mergetool."+name+".cmd"), first("difftool."+name+".path", "mergetool."+name+".path")
	switch {
	case err != nil:
		return DiffTool{}, err
	case command != "":
		t.command, t.program, t.trees = command, "", false
	case t.program == "":
		return DiffTool{}, noTool(fmt.Sprintf("golem does not know the tool %s; it knows %s. For another one type git config --global difftool.NAME.cmd 'PROGRAM \"$LOCAL\" \"$REMOTE\"'", sandbox.Shown(name), toolNames()))
	case path != "":
		t.program = path
	}
	return t, nil
}

func noTool(hint string) error {
	return &sandbox.Error{Op: "diff", Code: sandbox.ErrInvalid, Hint: hint}
}

// toolNames lists the tools that need no settings.
func toolNames() string {
	var names []string
	for _, t := range knownTools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// ComparesTrees reports whether the tool shows all files of two directories at once.
func (t DiffTool) ComparesTrees() bool { return t.trees }

// Open runs the tool in a directory and waits until the user closes it. As git does, it ignores the exit
// code of a tool that ran. Open ends the tool when ctx ends.
func (t DiffTool) Open(ctx context.Context, environ []string, streams [3]*os.File, dir, before, after string) error {
	cmd := exec.CommandContext(ctx, t.program, append(slices.Clone(t.args), before, after)...)
	if t.command != "" {
		cmd = exec.CommandContext(ctx, "sh", "-c", t.command)
		environ = append(slices.Clone(environ), "LOCAL="+before, "REMOTE="+after, "MERGED="+after, "BASE="+before)
	}
	cmd.Env, cmd.Dir, cmd.WaitDelay = environ, dir, 5*time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = streams[0], streams[1], streams[2]
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	ended, is := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case is && ended.ExitCode() < 126 && ended.Exited(), err == nil:
		return nil
	case is:
		return noTool(fmt.Sprintf("the tool %s failed (%s); golem diff shows the changes without it", sandbox.Shown(t.Name), ended))
	}
	return noTool(fmt.Sprintf("the tool %s cannot be started (%s); install it, or type golem diff --tool=NAME for another one, such as vimdiff", sandbox.Shown(t.Name), sandbox.Shown(t.program)))
}
