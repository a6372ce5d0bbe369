package profile

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// A LocalServer is a server on this machine that a settings file of the program names.
type LocalServer struct {
	File    string // of the user's home
	Address string // with the host as in the file
	Port    uint16
}

var localAddress = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(https?)://(localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)(?::([0-9]+))?(?:[^0-9A-Za-z.:-]|$)`)
})

// maxSettings limits how much of a settings file golem searches.
const maxSettings = 1 << 20

// LocalServers returns the servers on this machine that the settings of the program name,
// each port once. The program reaches them only if its network has their ports.
func (p Profile) LocalServers() []LocalServer {
	var list []LocalServer
	for _, name := range slices.Sorted(slices.Values(slices.Concat(p.Logins, p.Copies))) {
		f, err := os.Open(filepath.Join(p.Home, name))
		if p.Home == "" || err != nil {
			continue
		}
		data, _ := io.ReadAll(io.LimitReader(f, maxSettings)) // a directory has no data
		f.Close()
		for _, m := range localAddress().FindAllSubmatch(data, -1) {
			port, err := strconv.ParseUint(cmp.Or(string(m[3]), map[string]string{"http": "80", "https": "443"}[string(m[1])]), 10, 16)
			if err != nil || port == 0 || slices.ContainsFunc(list, func(s LocalServer) bool { return s.Port == uint16(port) }) {
				continue
			}
			address := string(m[1]) + "://" + string(m[2])
			if len(m[3]) > 0 {
				address += ":" + string(m[3])
			}
			list = append(list, LocalServer{name, address, uint16(port)})
		}
	}
	return list
}
