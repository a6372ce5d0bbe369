package spending

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
)

// An Account is what the requests of a session's programs to models have cost.
type Account struct {
	Requests   int64       `json:"requests"` // that were sent
	Tokens     model.Usage `json:"tokens"`   // as the vendors report them
	Cost       float64     `json:"cost"`     // dollars, at the prices of the APIs
	Unpriced   int64       `json:"unpriced,omitempty"`
	Unreported int64       `json:"unreported,omitempty"` // answers that were cut off, or whose usage cannot be true
	Uncounted  int64       `json:"uncounted,omitempty"`  // requests of forms that golem does not know
	Plan       bool        `json:"plan,omitempty"`       // a subscription paid for some

	// Used counts for the limits: an answer without a usage counts as what it may have cost at
	// most. Reserved is for requests without an answer yet, also those of a golem that was
	// killed. Raised is by how much the user raised the limits.
	Used     amount `json:"used"`
	Reserved amount `json:"reserved"`
	Raised   amount `json:"raised"`
}

// An amount is what counts for limits.
type amount struct {
	Requests int64   `json:"requests,omitempty"`
	Tokens   int64   `json:"tokens,omitempty"`
	Cost     float64 `json:"cost,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
}

func (a amount) plus(b amount, sign int64) amount {
	return amount{a.Requests + sign*b.Requests, a.Tokens + sign*b.Tokens, a.Cost + float64(sign)*b.Cost, a.Seconds + float64(sign)*b.Seconds}
}

// accountName is the file of a session with its account.
const accountName = "spending.json"

// Read returns the account of a session, whose state is in dir. It is empty if no request was
// counted.
func Read(dir *state.Dir) (Account, error) {
	var a Account
	data, err := dir.Read(accountName)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &a)
	}
	return a, err
}

// update changes an account, also while other processes do.
func update(dir *state.Dir, change func(*Account)) error {
	return dir.Update(accountName, func(old []byte) ([]byte, error) {
		var a Account
		if len(old) > 0 {
			if err := json.Unmarshal(old, &a); err != nil {
				return nil, err
			}
		}
		change(&a)
		return json.Marshal(a)
	})
}

// Since returns the account without what an earlier one had.
func (a Account) Since(b Account) Account {
	a.Requests, a.Cost = a.Requests-b.Requests, a.Cost-b.Cost
	a.Unpriced, a.Unreported, a.Uncounted = a.Unpriced-b.Unpriced, a.Unreported-b.Unreported, a.Uncounted-b.Uncounted
	t, u := a.Tokens, b.Tokens
	a.Tokens = model.Usage{Input: t.Input - u.Input, Output: t.Output - u.Output, CacheRead: t.CacheRead - u.CacheRead, CacheWrite: t.CacheWrite - u.CacheWrite, CacheHour: t.CacheHour - u.CacheHour, Charged: t.Charged - u.Charged}
	return a
}

// IsEmpty reports whether no request was made.
func (a Account) IsEmpty() bool { return a.Requests == 0 && a.Uncounted == 0 }

// Input returns the tokens that were read, also from caches and into them.
func (a Account) Input() int64 { return a.Tokens.Input + a.Tokens.CacheRead + a.Tokens.CacheWrite }

// String describes an account: "41 requests, 1.2 M tokens in, 38 k out, about $3.10".
func (a Account) String() string {
	if a.IsEmpty() {
		return "no requests"
	}
	parts := []string{visible.Count(int(a.Requests), "request"), tokens(a.Input()) + " tokens in", tokens(a.Tokens.Output) + " out"}
	parts = append(parts, a.Price())
	if a.Unreported > 0 {
		parts = append(parts, visible.Count(int(a.Unreported), "answer")+" without a complete usage")
	}
	if a.Uncounted > 0 {
		parts = append(parts, visible.Count(int(a.Uncounted), "other request")+" not counted")
	}
	return strings.Join(parts, ", ")
}

// Price describes the cost alone: "about $3.10".
func (a Account) Price() string {
	if a.Requests == 0 || a.Cost == 0 && a.Unpriced > 0 {
		return "price not known"
	}
	price := "about " + dollars(a.Cost)
	if a.Plan {
		price += " at API prices"
	}
	if a.Unpriced > 0 {
		price += " and " + visible.Count(int(a.Unpriced), "request") + " without a known price"
	}
	return price
}

// tokens writes a number of tokens with two digits or three: 38 k, 1.2 M.
func tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 9950:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0f k", float64(n)/1e3)
	case n < 9_950_000:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f M", float64(n)/1e6)
}

// dollars writes a price, rounded up to a cent.
func dollars(n float64) string {
	if n == 0 {
		return "$0.00"
	}
	return fmt.Sprintf("$%.2f", math.Ceil(n*100-1e-6)/100)
}
