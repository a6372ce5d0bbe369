package jail

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// The messages that every command needs have a compact form. JSON takes longer: before
// its first message of a type, a process has to look at the type, and every process of a
// session is new.

// A packed is a message with a compact form.
type packed interface{ pack(*packer) }

// packMark is the first byte of a packed message. No JSON text begins with it.
const packMark = 0

// A packer writes the fields of a message, or reads them in the same order.
type packer struct {
	data    []byte
	reading bool
	damaged bool
}

// encode returns the bytes of a message.
func encode(message any) ([]byte, error) {
	p := packer{data: append(make([]byte, 0, 1<<10), packMark)}
	switch m := message.(type) {
	case report:
		m.pack(&p)
	case ask:
		m.pack(&p)
	case plan:
		m.pack(&p)
	case order:
		m.pack(&p)
	case verdict:
		m.pack(&p)
	default:
		return json.Marshal(message)
	}
	return p.data, nil
}

// decode sets a message from its bytes.
func decode(data []byte, message any) error {
	m, ok := message.(packed)
	if !ok {
		return json.Unmarshal(data, message)
	}
	if len(data) == 0 || data[0] != packMark {
		return errDamaged
	}
	p := packer{data: data[1:], reading: true}
	m.pack(&p)
	if p.damaged || len(p.data) > 0 {
		return errDamaged
	}
	return nil
}

var errDamaged = errors.New("a damaged message")

// packNumber writes or reads a number.
func packNumber[T ~int | ~int64 | ~uint16 | ~uint64](p *packer, n *T) {
	if !p.reading {
		p.data = binary.AppendVarint(p.data, int64(*n))
		return
	}
	value, size := binary.Varint(p.data)
	if size <= 0 {
		p.damage()
		return
	}
	*n, p.data = T(value), p.data[size:]
}

// packText writes or reads a text.
func packText[T ~string | ~[]byte](p *packer, text *T) {
	size := len(*text)
	packNumber(p, &size)
	if !p.reading {
		p.data = append(p.data, *text...)
		return
	}
	if size < 0 || size > len(p.data) {
		p.damage()
		return
	}
	*text, p.data = T(append([]byte(nil), p.data[:size]...)), p.data[size:]
}

// packList writes or reads a list, whose elements take at least one byte each.
func packList[T any](p *packer, list *[]T, each func(*packer, *T)) {
	size := len(*list)
	packNumber(p, &size)
	if p.reading {
		if size < 0 || size > len(p.data) {
			p.damage()
			return
		}
		*list = nil
		if size > 0 {
			*list = make([]T, size)
		}
	}
	for i := range *list {
		each(p, &(*list)[i])
	}
}

// bools writes or reads up to 63 values.
func (p *packer) bools(list ...*bool) {
	bits := 0
	for i, b := range list {
		if *b {
			bits |= 1 << i
		}
	}
	packNumber(p, &bits)
	for i, b := range list {
		*b = bits&(1<<i) != 0
	}
}

// damage records that the message cannot be read.
func (p *packer) damage() { p.data, p.damaged = nil, true }

func (r *report) pack(p *packer) {
	packText(p, &r.Error)
	packNumber(p, &r.Pid)
}

func (a *ask) pack(p *packer) {
	p.bools(&a.Apart, &a.Isolated, &a.Outlet, &a.PortsOnly, &a.NamesOnly, &a.Dial)
	packText(p, &a.Loopback)
	packList(p, &a.Ports, packNumber)
	packList(p, &a.HostPorts, packNumber)
	packText(p, &a.Request)
}

func (p *plan) pack(to *packer) {
	packList(to, &p.Steps, func(to *packer, s *step) { s.pack(to) })
	packList(to, &p.Stores, packText)
	to.bools(&p.Terminal, &p.Apart, &p.Counted, &p.Online, &p.Direct, &p.Shared, &p.Supervised, &p.Layered, &p.Networked)
	packText(to, &p.Runsc)
	packText(to, &p.NoSockets)
}

func (s *step) pack(p *packer) {
	packText(p, &s.Do)
	packText(p, &s.Target)
	packText(p, &s.Source)
	packNumber(p, &s.Size)
	p.bools(&s.Write, &s.Maybe, &s.Each, &s.Own)
	packText(p, &s.Top.Folder)
	packNumber(p, &s.Top.Number[0])
	packNumber(p, &s.Top.Number[1])
	packList(p, &s.Files, func(p *packer, f *File) {
		packText(p, &f.Name)
		packText(p, &f.Data)
	})
	packList(p, &s.Names, packText)
}

func (o *order) pack(p *packer) {
	packText(p, &o.Path)
	packList(p, &o.Args, packText)
	packList(p, &o.Names, packNumber)
	packList(p, &o.Env, packText)
	packText(p, &o.Dir)
	packNumber(p, &o.Time)
	packNumber(p, &o.Program)
	packNumber(p, &o.CPU)
	for _, n := range []*int64{&o.Memory, &o.Processes, &o.Files, &o.FileSize} {
		packNumber(p, n)
	}
	p.bools(&o.WatchMemory, &o.WatchProcesses, &o.Attached, &o.Looks)
	packList(p, &o.Stores, packText)
	for _, n := range []*int{&o.Streams[0], &o.Streams[1], &o.Streams[2], &o.Terminal, &o.Tell, &o.Signal} {
		packNumber(p, n)
	}
}

func (v *verdict) pack(p *packer) {
	packText(p, &v.Error)
	packNumber(p, &v.Status)
	p.bools(&v.Late, &v.Stopped)
	packList(p, &v.Hit, packText)
	packNumber(p, &v.CPU)
	packNumber(p, &v.Peak)
	packText(p, &v.NoSockets)
}
