package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

type pathArgs struct {
	Path string `json:"path" jsonschema:"virtual path such as /dir/file"`
}

// infoData describes a file or directory for programs.
type infoData struct {
	Path        string `json:"path"`
	LeadsTo     string `json:"leadsTo,omitempty"` // the target, if the path leads through a symlink
	Size        int64  `json:"size"`
	IsDirectory bool   `json:"isDirectory"`
	Modified    string `json:"modified,omitempty"` // RFC 3339, UTC; "" if unknown
	Mode        string `json:"mode"`               // permission bits, octal
	Links       uint64 `json:"links,omitempty"`    // number of hard links, if more than one
	Version     string `json:"version,omitempty"`
	Writable    bool   `json:"writable"` // the sandbox allows changes
}

func fileInfo() tool.Tool {
	return tool.New(reader("file_info", "Return size, type, time, mode and version of a file or directory, and whether it may be written."),
		func(_ context.Context, names tool.Names, a pathArgs) (tool.Plan, error) {
			at, err := names.Locate("info", a.Path, sandbox.ReadOnly, false)
			if err != nil {
				return tool.Plan{}, err
			}
			d := infoData{Path: at}
			if asked, err := names.Canonical(a.Path); err == nil && asked != at {
				d.Path, d.LeadsTo = asked, at
			}
			_, err = names.Locate("write", at, sandbox.ReadWrite, false)
			d.Writable = err == nil
			run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				info, err := files.Stat(at)
				if err != nil {
					return tool.Result{}, err
				}
				text := d.describe(info)
				return tool.Result{Text: text, ForModel: versionText(d.Version), Data: d}, nil
			}
			return tool.NewReadPlan(run, names.ReadEffects(at)...), nil
		})
}

// describe copies the attributes of a file into d and returns them as a line.
func (d *infoData) describe(info sandbox.Info) string {
	d.Size, d.IsDirectory = info.Size(), info.IsDir()
	d.Mode = fmt.Sprintf("%04o", info.Mode().Perm())
	words := []string{kind(info.Mode())}
	if info.Mode().IsRegular() {
		d.Version = info.Version().String()
		words[0] += fmt.Sprintf(", %d bytes", d.Size)
	}
	if d.LeadsTo != "" {
		words = append(words, "points to "+sandbox.Shown(d.LeadsTo))
	}
	words = append(words, "mode "+d.Mode)
	if !info.ModTime().IsZero() {
		d.Modified = info.ModTime().UTC().Format(time.RFC3339)
		words = append(words, "modified "+d.Modified)
	}
	if info.Links() > 1 && !d.IsDirectory {
		d.Links = info.Links()
		words = append(words, fmt.Sprintf("%d hard links", d.Links))
	}
	writable := "; may be written"
	if !d.Writable {
		writable = "; may not be written"
	}
	return sandbox.Shown(d.Path) + ": " + strings.Join(words, "; ") + versionText(d.Version) + writable + "\n"
}

// versionText returns the clause with the version of a file, which only a model needs.
func versionText(version string) string {
	if version == "" {
		return ""
	}
	return "; version " + version
}

// kind names the type of a file.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode.IsRegular():
		return "file"
	}
	return "not a regular file"
}

// existsData is the result for programs.
type existsData struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	Type   string `json:"type,omitempty"`
}

func fileExists() tool.Tool {
	return tool.New(reader("file_exists", "Report whether a file or directory exists."),
		func(_ context.Context, names tool.Names, a pathArgs) (tool.Plan, error) {
			asked, err := names.Canonical(a.Path)
			if err != nil {
				return tool.Plan{}, err
			}
			at, err := names.Locate("exists", a.Path, sandbox.ReadOnly, false)
			no := isAbsent(err)
			if err != nil && !no {
				return tool.Plan{}, err
			}
			run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				d := existsData{Path: asked}
				found, err := !no, error(nil)
				if found {
					found, err = files.Exists(at)
				}
				if found {
					var info sandbox.Info
					info, err = files.Stat(at)
					d.Exists, d.Type = true, kind(info.Mode())
				}
				return d.result(), err
			}
			var effects []policy.Effect
			if !no {
				effects = names.ReadEffects(at)
			}
			return tool.NewReadPlan(run, effects...), nil
		})
}

// isAbsent reports whether an error says that the name does not exist.
func isAbsent(err error) bool {
	return errors.Is(err, sandbox.ErrNotFound) || errors.Is(err, sandbox.ErrNotDir)
}

func (d existsData) result() tool.Result {
	text := "no"
	if d.Exists {
		text = "yes, a " + d.Type
		if d.Type == kind(fs.ModeIrregular) {
			text = "yes, " + d.Type
		}
	}
	return tool.Result{Text: sandbox.Shown(d.Path) + ": " + text + "\n", Data: d}
}
