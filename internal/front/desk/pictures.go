package desk

import (
	"fmt"
	"net/http"
	"time"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
)

// The size of a picture in its own units. A browser scales it.
const (
	pictureWidth  = 720.0
	columnsHeight = 200.0
	barHeight     = 26.0
	maxBars       = 12
)

// picturePeriods are the times that a page can show.
var picturePeriods = []picturePeriod{
	{"day", "24 hours", 24 * time.Hour, 24, "15:04"},
	{"week", "7 days", 7 * 24 * time.Hour, 28, "2 Jan"},
	{"month", "30 days", 30 * 24 * time.Hour, 30, "2 Jan"},
	{"year", "12 months", 365 * 24 * time.Hour, 52, "Jan 2006"},
}

type picturePeriod struct {
	Name, Title string
	length      time.Duration
	steps       int
	format      string // of a label below the columns
}

// A picturesView is the page of pictures.
type picturesView struct {
	Periods  []picturePeriod
	Now      string
	Calls    columns
	Bars     []bars
	Problems []inbox.Problem
}

// columns is a picture of parts over time.
type columns struct {
	Width, Height float64
	Kinds         []string // of parts, from below
	Columns       []column
	Most          int // the largest sum
	Total         int
}

// A column is one time.
type column struct {
	X, Width float64
	Label    string // below it, "" for none
	Title    string
	From     string
	Counts   []int
	Parts    []part
}

// A part is a rectangle of a column or a bar.
type part struct {
	Class               string
	X, Y, Width, Height float64
}

// bars is a picture of values by name.
type bars struct {
	ID, Title, About string
	Width, Height    float64
	Kinds            []string // of parts, from the left; one is not named
	Heads            []string // of the columns of the table
	Bars             []bar
	More             int // bars that are not drawn
}

// A bar is one name with its parts.
type bar struct {
	Y      float64
	Name   string
	Text   string   // beside the bar
	Cells  []string // of the table
	Parts  []part
	values []float64
}

// showPictures shows what happened in a time.
func (s *server) showPictures(w http.ResponseWriter, r *http.Request) error {
	period := picturePeriods[1]
	for _, p := range picturePeriods {
		if p.Name == r.URL.Query().Get("time") {
			period = p
		}
	}
	f, err := inbox.ReadFigures(s.options, s.options.Now().Add(-period.length), period.steps)
	if err != nil {
		return err
	}
	v := picturesView{Periods: picturePeriods, Now: period.Name, Calls: drawCalls(f, period.format), Problems: f.Problems}
	v.Bars = append(v.Bars, drawUse(f), drawTokens(f), drawHosts(f), drawApprovals(f), drawRules(f), drawWaits(f))
	return s.render(w, http.StatusOK, "pictures", view{Title: "Pictures", Data: v})
}

// drawCalls draws the calls over time by outcome.
func drawCalls(f inbox.Figures, format string) columns {
	c := columns{Width: pictureWidth, Height: columnsHeight, Kinds: []string{"done", "failed", "refused", "paused"}}
	for _, one := range f.Calls {
		c.Most = max(c.Most, one.Done+one.Failed+one.Refused+one.Paused)
	}
	width := pictureWidth / float64(max(len(f.Calls), 1))
	for i, one := range f.Calls {
		k := column{X: float64(i) * width, Width: width, Counts: []int{one.Done, one.Failed, one.Refused, one.Paused}}
		if i%max(len(f.Calls)/6, 1) == 0 {
			k.Label = one.From.Local().Format(format)
		}
		k.From = one.From.Local().Format("2006-01-02 15:04")
		k.Title = fmt.Sprintf("%s: %d done, %d failed, %d refused, %d paused", k.From, one.Done, one.Failed, one.Refused, one.Paused)
		y := columnsHeight
		for j, n := range k.Counts {
			c.Total += n
			if n == 0 {
				continue
			}
			h := columnsHeight * float64(n) / float64(c.Most)
			y -= h
			k.Parts = append(k.Parts, part{c.Kinds[j], k.X + width*0.1, y, width * 0.8, h})
		}
		c.Columns = append(c.Columns, k)
	}
	return c
}

// draw sets the places of the bars.
func (b bars) draw() bars {
	most := 0.0
	for _, one := range b.Bars {
		sum := 0.0
		for _, v := range one.values {
			sum += v
		}
		most = max(most, sum)
	}
	if b.More = max(0, len(b.Bars)-maxBars); b.More > 0 {
		b.Bars = b.Bars[:maxBars]
	}
	const left, right = 220.0, 150.0 // room for the name and for the text
	for i := range b.Bars {
		one := &b.Bars[i]
		one.Y = float64(i) * barHeight
		x := left
		for j, v := range one.values {
			if most == 0 || v == 0 {
				continue
			}
			width := (pictureWidth - left - right) * v / most
			one.Parts = append(one.Parts, part{b.Kinds[j], x, one.Y + 5, width, barHeight - 10})
			x += width
		}
	}
	b.Width, b.Height = pictureWidth, float64(len(b.Bars))*barHeight
	return b
}

func drawUse(f inbox.Figures) bars {
	b := bars{ID: "cost", Title: "Cost by worker", About: "In US dollars, by the list prices that golem knows.", Kinds: []string{"done"}, Heads: []string{"Worker", "Model", "Turns", "Cost"}}
	for _, u := range f.Use {
		b.Bars = append(b.Bars, bar{Name: u.Worker, Text: costText(u), Cells: []string{u.Worker, u.Model, visible.Number(u.Turns), costText(u)}, values: []float64{u.Cost}})
	}
	return b.draw()
}

func drawTokens(f inbox.Figures) bars {
	b := bars{ID: "tokens", Title: "Tokens by worker", Kinds: []string{"in", "out"}, Heads: []string{"Worker", "Model", "Tokens in", "Tokens out"}}
	for _, u := range f.Use {
		b.Bars = append(b.Bars, bar{Name: u.Worker, Text: visible.Number(u.Tokens.Input) + " in, " + visible.Number(u.Tokens.Output) + " out", Cells: []string{u.Worker, u.Model, visible.Number(u.Tokens.Input), visible.Number(u.Tokens.Output)},
			values: []float64{float64(u.Tokens.Input), float64(u.Tokens.Output)}})
	}
	return b.draw()
}

func drawHosts(f inbox.Figures) bars {
	b := bars{ID: "hosts", Title: "Bytes by host", About: "Of commands in the jail and of golem's own tools.", Kinds: []string{"out", "in"}, Heads: []string{"Host", "Connections", "Refused", "Sent", "Received"}}
	for _, h := range f.Hosts {
		text := visible.Amount(h.Sent) + " out, " + visible.Amount(h.Received) + " in"
		if h.Refused == h.Connections {
			text = "refused"
		}
		b.Bars = append(b.Bars, bar{Name: h.Host, Text: text, Cells: []string{h.Host, visible.Number(h.Connections), visible.Number(h.Refused), visible.Amount(h.Sent), visible.Amount(h.Received)}, values: []float64{float64(h.Sent), float64(h.Received)}})
	}
	return b.draw()
}

func drawApprovals(f inbox.Figures) bars {
	b := bars{ID: "approvals", Title: "Approvals by hand and by rule", About: "A tool that you often approve by hand and never decline may deserve a rule.", Kinds: []string{"hand", "rule", "declined"}, Heads: []string{"Tool", "By hand", "By rule", "Declined"}}
	for _, a := range f.Allowed {
		b.Bars = append(b.Bars, bar{Name: a.Tool, Text: fmt.Sprintf("%d by hand, %d by rule", a.ByHand, a.ByRule), Cells: []string{a.Tool, visible.Number(a.ByHand), visible.Number(a.ByRule), visible.Number(a.Declined)},
			values: []float64{float64(a.ByHand), float64(a.ByRule), float64(a.Declined)}})
	}
	return b.draw()
}

func drawRules(f inbox.Figures) bars {
	b := bars{ID: "rules", Title: "Rules that allowed calls", Kinds: []string{"rule"}, Heads: []string{"Rule", "Calls"}}
	for _, r := range f.Rules {
		b.Bars = append(b.Bars, bar{Name: r.Rule, Text: visible.Count(r.Calls, "call"), Cells: []string{r.Rule, visible.Number(r.Calls)}, values: []float64{float64(r.Calls)}})
	}
	return b.draw()
}

func drawWaits(f inbox.Figures) bars {
	b := bars{ID: "waits", Title: "Time spent waiting for a person", About: "From a request to its answer, for requests that waited in the inbox.", Kinds: []string{"paused"}, Heads: []string{"Tool", "Calls", "Total", "Longest"}}
	for _, w := range f.Waits {
		b.Bars = append(b.Bars, bar{Name: w.Tool, Text: durationText(w.Total) + ", " + visible.Count(w.Calls, "call"), Cells: []string{w.Tool, visible.Number(w.Calls), durationText(w.Total), durationText(w.Longest)}, values: []float64{w.Total.Seconds()}})
	}
	return b.draw()
}

// durationText returns a time that a person reads.
func durationText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}
