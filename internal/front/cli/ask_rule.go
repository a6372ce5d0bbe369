package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/people/visible"
)

// exactly returns the rule for this exact call.
func (q *question) exactly() approval.Rule {
	rule := approval.ExactRule(q.request)
	if rule.Scope = approval.Run; !q.untilEnd {
		rule.Scope, rule.Expires = approval.Project, time.Now().Add(24*time.Hour)
	}
	return rule
}

// choose lets the user choose a rule and its duration, except for a host, which has one.
// Then the user confirms the rule as golem will store it.
func (q *question) choose() (approval.Rule, error) {
	if q.isHost() {
		rule, _ := approval.AlwaysRule(q.request)
		return rule, q.confirmRule(rule)
	}
	offers := approval.OfferRules(q.request)
	var listed []string
	for i, offer := range offers {
		listed = append(listed, fmt.Sprintf("[%d] %s", i+1, offer))
	}
	which, err := q.number(listed, "which rule?", len(offers))
	if err != nil {
		return approval.Rule{}, err
	}
	rule := offers[which]
	spans := []struct {
		text string
		long time.Duration
	}{{"1 hour", time.Hour}, {"1 day", 24 * time.Hour}, {"until revoked", 0}}
	listed = nil
	for i, s := range spans {
		listed = append(listed, fmt.Sprintf("[%d] %s", i+1, s.text))
	}
	chosen, err := q.number(listed, "for how long?", len(spans))
	if err != nil {
		return approval.Rule{}, err
	}
	rule.Scope = approval.Project
	if long := spans[chosen].long; long > 0 {
		rule.Expires = time.Now().Add(long)
	}
	return rule, q.confirmRule(rule)
}

// confirmRule shows a rule as golem will store it, and asks whether to remember it. It makes
// no rule that does not fit on the screen, because the user could not read all of it.
func (q *question) confirmRule(rule approval.Rule) error {
	keys := []string{"remember it, and do this?", "[y]es", "[n]o"}
	fits := func() bool {
		columns, height := q.screen.size()
		return len(ruleRow("the rule", rule).Barred(columns, false))+len(q.keyLines(keys...))+1 <= height // with the prompt
	}
	if !fits() {
		q.show([]row{{Mark: about, Text: "the rule does not fit on the screen; a larger window may show it"}})
		return errBack
	}
	return q.step(func() {
		q.rule("the rule", rule)
		q.showKeys(keys...)
	}, "please answer y or n; y counts only if the whole rule is on the screen", func(text string) bool {
		text = strings.ToLower(text)
		return (text == "y" || text == "yes") && fits()
	})
}

// number reads a number from 1 to most, and returns it minus 1.
func (q *question) number(listed []string, prompt string, most int) (n int, err error) {
	err = q.step(func() {
		for _, text := range listed {
			q.show([]row{{Mark: detail, Text: visible.Line(text, math.MaxInt)}})
		}
		q.showKeys(prompt, fmt.Sprintf("[1-%d]", most), "[Enter] back")
	}, fmt.Sprintf("please answer a number from 1 to %d, or Enter", most), func(text string) bool {
		number, err := strconv.Atoi(text)
		n = number - 1
		return err == nil && n >= 0 && n < most && text == strconv.Itoa(number)
	})
	return n, err
}

// step asks one question on the way to a rule, until accept returns true. After an empty
// line or a no it returns errBack, and the main question continues.
func (q *question) step(draw func(), please string, accept func(string) bool) error {
	q.redraw = func() {
		q.drawRequest()
		draw()
	}
	draw()
	for range maxTypos {
		text, err := q.read()
		switch word := strings.ToLower(text); {
		case errors.Is(err, errTypo):
		case err != nil:
			return err
		case word == "" || word == "n" || word == "no":
			return errBack
		case accept(text):
			return nil
		}
		q.show([]row{{Mark: about, Text: please}})
	}
	return errLate
}

// rule prints a rule word for word.
func (q *question) rule(what string, rule approval.Rule) {
	q.show([]row{ruleRow(what, rule)})
}

func ruleRow(what string, rule approval.Rule) row {
	return row{Mark: detail, Text: what + " " + visible.Line(rule.String(), math.MaxInt)}
}
