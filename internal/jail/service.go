package jail

// A Piece is a part of the output of a service, with both streams together.
type Piece struct {
	From  int64 // offset of the first byte
	Text  []byte
	Total int64 // bytes of output so far
}

// Next returns the offset of the next piece.
func (p Piece) Next() int64 { return p.From + int64(len(p.Text)) }

// piece returns at most most bytes of an output from an offset on. If the bytes at the
// offset were dropped, the piece begins after them. It ends before bytes that were
// dropped.
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
