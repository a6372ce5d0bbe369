package strictyaml

import (
	"strconv"
	"strings"
	"time"
)

// Int returns a whole number, at least zero: 1000 or 1_000. It rejects quoted numbers and
// a leading zero, which some YAML parsers read as octal.
func (n Node) Int() (int64, error) {
	if n.Kind != Scalar || n.Quoted {
		return 0, strconv.ErrSyntax
	}
	return whole(n.Text)
}

// whole parses digits with single underscores between them.
func whole(text string) (int64, error) {
	last := byte('_')
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c != '_' || last == '_') {
			return 0, strconv.ErrSyntax
		}
		last = text[i]
	}
	if last == '_' || len(text) > 1 && text[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		return 0, err
	}
	return v, nil
}

// Number returns a number of at least zero and less than 10^15.
func (n Node) Number() (float64, error) {
	if n.Kind != Scalar || n.Quoted || strings.Trim(n.Text[:min(1, len(n.Text))], ".0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	if strings.ContainsAny(n.Text, "xXpP_") { // hexadecimal
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(n.Text, 64)
	if err != nil {
		return 0, err
	}
	if v >= 1e15 {
		return 0, strconv.ErrRange
	}
	return v, nil
}

var units = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// Bytes returns a size: a whole number, or one with a unit.
func (n Node) Bytes() (int64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(n.Text, u.suffix)
		if !ok || n.Kind != Scalar {
			continue
		}
		v, err := whole(strings.TrimSuffix(number, " "))
		if err != nil {
			return 0, err
		}
		if v > (1<<62)/u.factor {
			return 0, strconv.ErrRange
		}
		return v * u.factor, nil
	}
	return n.Int()
}

// Duration returns a duration of at least zero: 30s, 5m, 1h30m, or a number of seconds.
// Anything shorter than a nanosecond is zero.
func (n Node) Duration() (time.Duration, error) {
	if n.Kind != Scalar {
		return 0, strconv.ErrSyntax
	}
	text := n.Text
	if seconds, err := n.Number(); err == nil {
		if seconds >= 1e9 {
			return 0, strconv.ErrRange
		}
		text = strconv.FormatFloat(seconds, 'f', -1, 64) + "s"
	} else if strings.Trim(text, "0123456789.") == "" {
		return 0, strconv.ErrSyntax // a quoted number without a unit
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, strconv.ErrSyntax
	case d < 0:
		return 0, strconv.ErrRange
	}
	return d, nil
}
