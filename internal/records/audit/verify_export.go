package audit

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line that VerifyExport reads. Records are much shorter.
const maxLine = 16 << 20

// VerifyExport checks the lines of an export of a whole journal: each must have this package's
// layout, the next number and the hash of the line before. It cannot check the seals, because
// the key is not in an export. Last is the SHA-256 of the last line. Only one that was kept
// elsewhere shows that nobody computed the chain anew or removed lines from the end.
// Behind and Open of the report are not set.
func VerifyExport(export io.Reader) (r Report, last string, err error) {
	lines := bufio.NewScanner(export)
	lines.Buffer(nil, maxLine)
	v := &verifier{open: map[string]opened{}}
	for v.report.Bad == nil && lines.Scan() {
		p, ok := claim(lines.Bytes())
		if !ok {
			v.bad(v.last.number+1, "changed, or not written by golem: it is no line of a journal")
			break
		}
		p.sealed = true // as far as anybody can tell
		v.line(p, lines.Bytes())
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		v.bad(v.last.number+1, fmt.Sprintf("longer than %d bytes", maxLine))
	case err != nil:
		return Report{}, "", err
	}
	var newest Record
	if v.newest != nil && json.Unmarshal(v.newest, &newest) == nil {
		v.report.Head = newest.Time
	}
	return v.report, hex.EncodeToString(v.last.hash[:]), nil
}
