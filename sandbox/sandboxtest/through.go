package sandboxtest

// operations returns the operations that attacks try: all of the sandbox, or those that Do
// makes.
func (f Fixture) operations() []operation {
	if f.Do == nil {
		return operations()
	}
	list := make([]operation, len(throughDo))
	for i, d := range throughDo {
		list[i] = operation{name: d.name, run: func(a *attempt) error {
			o := d.make(a)
			own, _ := a.s.Read(a.mine)
			text, err := f.Do(a.w.t, a.s, o)
			a.say(text)
			if err == nil {
				a.done(o, string(own))
			}
			return err
		}}
	}
	return list
}

// throughDo has the operations for Do, by the names that the tables have for them.
var throughDo = []struct {
	name string
	make func(a *attempt) Operation
}{
	{"read", func(a *attempt) Operation { return Operation{Name: "read", Path: a.name} }},
	{"stat", func(a *attempt) Operation { return Operation{Name: "stat", Path: a.name} }},
	{"exists", func(a *attempt) Operation { return Operation{Name: "exists", Path: a.name} }},
	{"list", func(a *attempt) Operation { return Operation{Name: "list", Path: a.name} }},
	{"walk", func(a *attempt) Operation { return Operation{Name: "walk", Path: a.name} }},
	{"search", func(a *attempt) Operation { return Operation{Name: "search", Path: a.name} }},
	{"copy", func(a *attempt) Operation { return Operation{Name: "copy", Path: a.name, To: a.free()} }},
	{"write", func(a *attempt) Operation { return Operation{Name: "write", Path: a.name, Text: planted} }},
	{"mkdir", func(a *attempt) Operation { return Operation{Name: "mkdir", Path: a.name} }},
	{"copy-to", func(a *attempt) Operation { return Operation{Name: "copy", Path: a.mine, To: a.name} }},
	{"move-to", func(a *attempt) Operation { return Operation{Name: "move", Path: a.mine, To: a.name} }},
	{"delete", func(a *attempt) Operation { return Operation{Name: "delete", Path: a.name} }},
	{"delete-all", func(a *attempt) Operation { return Operation{Name: "delete", Path: a.name, All: true} }},
	{"move", func(a *attempt) Operation { return Operation{Name: "move", Path: a.name, To: a.free()} }},
}

// done reports a fault if an operation returned no error and did not do its work. Own is
// what the file mine had before.
func (a *attempt) done(o Operation, own string) {
	switch o.Name {
	case "write":
		a.holds(o.Path, o.Text)
	case "mkdir":
		if info, err := a.s.Stat(o.Path); err != nil || !info.IsDir() {
			a.wrong("it returned no error, but there is no directory: %v", err)
		}
	case "delete":
		a.gone(o.Path)
	case "move", "copy":
		if o.Path == a.mine {
			a.holds(o.To, own)
		}
		if o.Name == "move" {
			a.gone(o.Path)
		}
	}
}
