package audit

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"
)

// TestCSV checks that every record is one row, and that no cell is a formula for a
// spreadsheet.
func TestCSV(t *testing.T) {
	var b bytes.Buffer
	c, err := NewCSVWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	hostile := []string{"=1+1", "+1", "-2", "@SUM(A1)", "\t=1", " =1", "\"=1", "＝1", "a\nb,c\"d", "|cmd", "%0A"}
	for i, text := range hostile {
		r := Record{Number: uint64(i + 1), Time: time.Unix(0, 0), Kind: Intent, Session: "k3xq2a", Tool: text, Note: text, By: text, Workers: []string{text},
			Effects: []string{text}, Args: map[string]any{"command": []any{"sh", "-c", text}}}
		if err := c.Write(text, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != len(hostile)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, row := range rows[1:] {
		if row[3] != "k3xq2a" {
			t.Errorf("session %q", row[3])
		}
		for _, cell := range row {
			if first := strings.TrimLeft(cell, " \t\""); first != "" && strings.ContainsAny(first[:1], "=+-@|%") {
				t.Errorf("row %d: cell %q is a formula", i+1, cell)
			}
		}
	}
	if got := rows[1][8]; got != "sh -c =1+1" { // the cell begins with sh
		t.Errorf("command %q", got)
	}
}
