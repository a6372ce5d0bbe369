package foreigntools

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
	"github.com/golem-forge/golem/internal/work/worker"
)

// listingsFile holds the first tool list of each MCP server. golem compares later lists
// with it.
const listingsFile = "mcp.json"

// IsRecord reports whether a file of a state directory holds the tool lists of servers.
func IsRecord(name string) bool { return name == listingsFile }

// keptListings is how many lists are kept.
const keptListings = 50

type storedListing struct {
	Key     string          `json:"key"`
	Server  string          `json:"server"`
	Time    time.Time       `json:"time"`
	Listing foreign.Listing `json:"listing"`
}

// listingKey identifies a server by all that defines it. A server that was changed, and
// trusted again, has another key.
func (x Tools) listingKey(s worker.Server) string {
	tools := worker.Words(s.Tools)
	slices.Sort(tools)
	files := x.Files.Hash(x.Files.NamesOf(s.Foreign))
	key := fmt.Appendf(nil, "%q %q %q %s", s.Name, worker.Words(s.Command), tools, files)
	if len(s.Env) > 0 {
		key = fmt.Appendf(key, " %q", worker.Words(s.Env))
	}
	if s.Remote != nil {
		key = fmt.Appendf(key, " %q", s.Remote.Identity())
	}
	return fmt.Sprintf("%x", sha256.Sum256(key))
}

// Listing returns the stored list of a server, nil if it never ran. It reports whether there
// is a list of that server as it was before it changed.
func (x Tools) Listing(s worker.Server) (l foreign.Listing, older bool, err error) {
	if _, err := os.Stat(x.State); err != nil {
		return nil, false, nil
	}
	folder, err := state.Open(x.State)
	if err != nil {
		return nil, false, err
	}
	defer folder.Close()
	data, err := folder.Read(listingsFile)
	if err != nil {
		return nil, false, err
	}
	records, err := readListings(data)
	if i := slices.IndexFunc(records, func(r storedListing) bool { return r.Key == x.listingKey(s) }); i >= 0 {
		return records[i].Listing, false, err
	}
	return nil, slices.ContainsFunc(records, func(r storedListing) bool { return r.Server == s.Name }), err
}

func readListings(data []byte) (records []storedListing, err error) {
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &records); err != nil {
		return nil, fmt.Errorf("the record of what MCP servers have listed is damaged: %w; move %s away, and accept their tools again", err, listingsFile)
	}
	return records, nil
}

// KeepListing stores the list of a server.
func (x Tools) KeepListing(s worker.Server, l foreign.Listing) error {
	folder, err := state.Open(x.State)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Update(listingsFile, func(old []byte) ([]byte, error) {
		records, err := readListings(old)
		if err != nil {
			return nil, err
		}
		key := x.listingKey(s)
		records = slices.DeleteFunc(records, func(r storedListing) bool { return r.Key == key })
		records = append(records, storedListing{key, s.Name, x.Now(), append(foreign.Listing{}, l...)})
		return json.Marshal(records[max(0, len(records)-keptListings):])
	})
}
