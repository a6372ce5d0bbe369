package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
)

// A connectionRecord is a connection for --json.
type connectionRecord struct {
	Program  string    `json:"program"` // the directory of golem's program
	Time     time.Time `json:"time"`
	Session  string    `json:"session"`
	Workers  []string  `json:"workers,omitempty"`
	Client   string    `json:"client,omitempty"` // the program that connected
	Host     string    `json:"host"`
	Port     uint16    `json:"port"`
	Decision string    `json:"decision"`
	By       string    `json:"by,omitempty"`
	Open     bool      `json:"open,omitempty"` // it has not ended, or golem was killed
	Sent     int64     `json:"sent"`
	Received int64     `json:"received"`
	Seconds  float64   `json:"seconds"`
	Code     string    `json:"code,omitempty"`
	Note     string    `json:"note,omitempty"`
}

// printConnections prints the connections of commands, one a line.
func (f *programFlags) printConnections(cmd *cobra.Command, filter *filterFlags) error {
	filter.Tool = audit.ConnectTool
	if err := filter.check(); err != nil {
		return err
	}
	last := filter.last
	filter.last = 0 // a connection has several records
	programs := map[string]*audit.Connections{}
	var names []string
	var sessions sessionNames
	if err := f.eachRecord(cmd, filter, func(r inbox.JournalRecord, now sessionNames) error {
		sessions = now
		if programs[r.Program] == nil {
			programs[r.Program] = &audit.Connections{}
			names = append(names, r.Program)
		}
		programs[r.Program].Add(r.Record)
		return nil
	}); err != nil {
		return err
	}
	list := []connectionRecord{}
	for _, name := range names {
		for _, c := range programs[name].List {
			list = append(list, connectionRecord{Program: name, Time: c.Time, Session: c.Session, Workers: c.Workers, Client: c.Program, Host: c.Host, Port: c.Port,
				Decision: c.Decision, By: c.By, Open: !c.Ended, Sent: c.Sent, Received: c.Received, Seconds: c.Took.Seconds(), Code: c.Code, Note: c.Note})
		}
	}
	if last > 0 {
		slices.SortStableFunc(list, func(a, b connectionRecord) int { return a.Time.Compare(b.Time) })
		list = list[max(0, len(list)-last):]
	}
	head, rows := []string{"time", "session", "host", "decision", "sent", "received", "seconds", "note"}, [][]string{}
	if filter.all {
		head = append([]string{"program"}, head...)
	}
	for _, c := range list {
		note := c.Note
		if c.Open {
			note = "open, or golem was killed"
		}
		if c.Client != "" {
			note = strings.TrimSuffix(c.Client+": "+note, ": ")
		}
		row := []string{c.Time.Local().Format(time.DateTime), sessions.beside(c.Session), visible.Text(hostAndPort(c.Host, c.Port)), decisionWord(c.Decision),
			visible.Amount(c.Sent), visible.Amount(c.Received), fmt.Sprintf("%.1f", c.Seconds), visible.Text(note)}
		if filter.all {
			row = append([]string{visible.Name(c.Program)}, row...)
		}
		rows = append(rows, row)
	}
	return printTableOr(cmd, map[string]any{"connections": list}, "no connections; golem records those of commands whose network is a list of hosts", head, rows)
}

// hostAndPort returns a host with its port, if there was one.
func hostAndPort(host string, port uint16) string {
	if port == 0 {
		return host
	}
	return audit.Connection{Host: host, Port: port}.Address()
}

// decisionWord returns the decision about a connection in a word.
func decisionWord(decision string) string {
	switch decision {
	case "preApproved", "yes":
		return "allowed"
	case "blocked", "no":
		return "refused"
	}
	return visible.Text(decision)
}
