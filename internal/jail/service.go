package jail

// A Piece is a part of what a service has printed, on both of its streams.
type Piece struct {
	From  int64 // where it begins, in bytes from the beginning
	Text  []byte
	Total int64 // so much was printed so far
}

// Next is where the next piece begins.
func (p Piece) Next() int64 { return p.From + int64(len(p.Text)) }

// piece returns what is kept of an output from an offset on. What is not kept any more
// is left out: the piece begins later then, or ends where that begins.
func (o Output) piece(offset, most int64) Piece {
	head, tail := int64(len(o.Head)), int64(len(o.Head))+o.Hidden
	p := Piece{From: max(offset, 0), Total: tail + int64(len(o.Tail))}
	part := func(text []byte, from int64) []byte {
		text = text[min(from, int64(len(text))):]
		return text[:min(most-int64(len(p.Text)), int64(len(text)))]
	}
	if p.From < head {
		p.Text = append(p.Text, part(o.Head, p.From)...)
		if o.Hidden > 0 || p.Next() < head {
			return p
		}
	}
	if p.From = max(p.From, tail-int64(len(p.Text))); p.From > p.Total {
		p.From = p.Total
	}
	p.Text = append(p.Text, part(o.Tail, p.Next()-tail)...)
	return p
}
