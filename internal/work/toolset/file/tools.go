package file

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// toolset is the name under which a grant gives these tools.
const toolset = "filesystem"

// errTimeout is the code of a call whose context has ended.
const errTimeout = sandbox.Code("timeout")

// Tools returns the file tools. The listed tools come first, and then the older names,
// which golem only answers.
func Tools() []tool.Tool { return slices.Clone(all()) }

// all creates the tools once, because every worker has the same.
var all = sync.OnceValue(func() []tool.Tool {
	return []tool.Tool{
		readFile(),
		readFiles(),
		listFiles(),
		findFiles(),
		searchFiles(),
		fileInfo(),
		fileExists(),
		writeFile(),
		editFile(),
		makeDirectory(),
		moveFile(),
		copyFile(),
		deleteFile(),
		oldReadText(),
		oldList(),
		oldWriteText(),
	}
})

// reader returns a tool that reads and changes nothing, without its arguments.
func reader(name, description string) tool.Tool {
	return tool.Tool{Name: name, Toolset: toolset, Mode: policy.Both, Verbs: []policy.Verb{policy.Read}, Description: description}
}

// locateFile returns the canonical name of a file to read. A name that is visible but not
// readable is a directory above a readable name.
func locateFile(names tool.Names, name string) (string, error) {
	at, err := names.Locate("read", name, sandbox.ReadOnly, false)
	if err == nil && !names.CanRead(at) {
		return "", &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrIsDir, Hint: "it is a directory; list it, or name a file in it"}
	}
	return at, err
}

// quoteName returns a name for a list. It quotes a name that a reader could mistake. Unlike
// sandbox.Shown it does not shorten the name, because the next call may use it.
func quoteName(name string) string {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !sandbox.Plain(r) || r == '"' || r == '\uFFFD' })
	if odd || strings.Contains(name, " -> ") || strings.TrimSpace(name) != name {
		return strconv.QuoteToASCII(name)
	}
	return name
}
